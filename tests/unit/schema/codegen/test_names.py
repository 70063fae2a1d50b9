"""Identifiers, class names, order and comment text."""

from __future__ import annotations

import ast
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_tools.schema.codegen.names import (
    NameAllocator,
    camel,
    comment_text,
    docstring_text,
    is_field_name,
    is_method_name,
    is_python_name,
    join_name,
    ts_doc,
    ts_key_is_bare,
    utf16_key,
)

ANY_TEXT = st.text(st.characters(), max_size=12)


def test_order_is_by_utf16_units():
    # SCHEMA-H1
    # CODE-41
    names = ["～", "𐌰", "ﬁx", "z", "alpha", "Zed", "𐌰b"]
    assert sorted(names, key=utf16_key) == ["Zed", "alpha", "z", "𐌰", "𐌰b", "ﬁx", "～"]
    assert sorted(["\ud800", "\uffff", "a"], key=utf16_key) == ["a", "\ud800", "\uffff"]


@pytest.mark.parametrize(
    ("name", "python", "field", "method"),
    [
        ("read", True, True, True),
        ("路径", True, True, True),
        ("match", True, True, True),
        ("type", True, True, True),
        ("_", True, True, False),
        ("_x", True, True, False),
        ("__", True, True, False),
        ("__meta__", True, True, False),
        ("__token", True, False, False),
        ("__debug__", False, False, False),
        ("class", False, False, False),
        ("None", False, False, False),
        ("await", False, False, False),
        ("ﬁeld", False, False, False),
        ("𝕏", False, False, False),
        ("1st", False, False, False),
        ("a-b", False, False, False),
        ("abc\n", False, False, False),
        ("", False, False, False),
        ("a\ud800", False, False, False),
    ],
)
def test_python_names(name: str, python: bool, field: bool, method: bool):
    # SCHEMA-H5, H6
    # CODE-69, 75, 77
    assert (is_python_name(name), is_field_name(name), is_method_name(name)) == (python, field, method)


@given(ANY_TEXT)
def test_what_counts_as_a_name_is_one_to_the_parser(name: str):
    # SCHEMA-H5
    # CODE-83
    if is_python_name(name):
        [statement] = ast.parse(f"{name} = 0").body
        assert isinstance(statement, ast.Assign)
        [target] = statement.targets
        assert isinstance(target, ast.Name)
        assert target.id == name


@pytest.mark.parametrize(
    ("key", "bare"),
    [("a", True), ("$a_1", True), ("class", True), ("__proto__", True), ("1a", False), ("a-b", False)]
    + [("", False), ("é", False), ("abc\n", False), ("a b", False)],
)
def test_typescript_keys(key: str, bare: bool):
    # SCHEMA-F5
    # CODE-55
    assert ts_key_is_bare(key) is bare


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("my-tool", "MyTool"),
        ("my.tool", "MyTool"),
        ("1st-tool", "Tool1stTool"),
        ("mcp__srv__do", "McpSrvDo"),
        ("", "Tool"),
        ("_", "Tool"),
        ("--", "Tool"),
        ("2048_game", "Tool2048Game"),
        ("日本", "日本"),
        ("ﬁnd", "FInd"),
        ("straße_übung", "StraßeÜbung"),
        ("ß", "SS"),
        ("ŉx", "ʼNx"),
        ("𐐨x", "𐐨x"),  # an astral head has no single unit to raise
        ("\u0301abc", "TooĺAbc".replace("A", "a")),
        ("ª", "a"),
        ("a\ud800b", "AB"),
        ("＿y", "Tool_y"),  # the fullwidth underscore continues an identifier and folds to an underscore
    ],
)
def test_camel(name: str, expected: str):
    # SCHEMA-H9
    # CODE-71
    assert camel(name) == unicodedata.normalize("NFKC", expected)


def test_every_character_gives_a_class_name():
    # SCHEMA-H9
    for code in range(0, sys.maxunicode + 1, 7):
        name = camel(f"{chr(code)}x")
        assert name.isidentifier()
        assert unicodedata.normalize("NFKC", name) == name


def test_joined_names_are_normalised():
    # SCHEMA-H9
    assert join_name("XArgs가ᄀ", "ᅡx") == "XArgs가가x"


def test_joined_names_are_capped_in_utf16_units():
    # SCHEMA-H10
    # CODE-73
    assert join_name("a" * 119, "bc") == "a" * 119 + "b"
    assert join_name("é" * 119, "bc") == "é" * 119 + "b"
    # The second half of an astral pair would be unit 121: the pair goes as a whole.
    assert join_name("a" * 119, "𐌰") == "a" * 119
    assert join_name("a" * 118, "𐌰b") == "a" * 118 + "𐌰"


def test_collisions_take_the_first_free_number():
    # SCHEMA-H8
    # CODE-72
    names = NameAllocator()
    assert [names.allocate(base) for base in ("P", "P2", "P", "P", "P2", "P3")] == [
        "P",
        "P2",
        "P3",
        "P4",
        "P22",
        "P32",
    ]


def test_a_thousand_collisions_are_quick():
    # SCHEMA-H8
    names = NameAllocator()
    made = [names.allocate("X") for _ in range(20_000)]
    assert made[-1] == "X20000"
    assert len(set(made)) == 20_000


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("packages/*/x", "/** packages/*\\/x */"),
        ("*/", "/** *\\/ */"),
        ("a\t\n\x0b\x0c\r \xa0\ufeff\u1680\u2003\u202f\u205f\u3000\u2028\u2029b", "/** a b */"),
        ("nel\x85fs\x1cmvs\u180ezwsp\u200b", "/** nel\x85fs\x1cmvs\u180ezwsp\u200b */"),
        ("\xa0\ufeffedge\u2003", "/** edge */"),
        (" \n ", "/**  */"),
        ("nul\x00 \ud800", "/** nul\x00 \ud800 */"),
        ("", None),
        (None, None),
        (42, None),
    ],
)
def test_typescript_docs(description: object, expected: str | None):
    # SCHEMA-F6
    # CODE-57 to 59
    assert ts_doc(description) == expected


@pytest.mark.parametrize(
    ("description", "comment", "docstring"),
    [
        ('ends in a quote"', 'ends in a quote"', 'ends in a quote\\"'),
        ("nul\x00 c1\x93 del\x7f", "nul\\x00 c1\\x93 del\\x7f", "nul\\\\x00 c1\\\\x93 del\\\\x7f"),
        ("lone \udfff pair 🙂", "lone \\udfff pair 🙂", "lone \\\\udfff pair 🙂"),
        ("C:\\dir", "C:\\dir", "C:\\\\dir"),
        ("nbsp\xa0x zwsp\u200b", "nbsp x zwsp\u200b", "nbsp x zwsp\u200b"),
        ("\x1c", "\\x1c", "\\\\x1c"),  # a control is not whitespace here
        (" \x00 ", "\\x00", "\\\\x00"),  # trimmed after escaping
        (" \n\ufeff ", None, None),
        ("", None, None),
        (None, None, None),
        (7, None, None),
    ],
)
def test_python_docs(description: object, comment: str | None, docstring: str | None):
    # SCHEMA-H11
    # CODE-58, 81
    assert comment_text(description) == comment
    assert docstring_text(description) == docstring


@given(ANY_TEXT)
def test_docs_keep_the_block_parseable(description: str):
    # SCHEMA-H11
    # CODE-83
    comment, docstring = comment_text(description), docstring_text(description)
    source = f'def f():\n    # {comment}\n    """{docstring}"""\n'
    [function] = ast.parse(source.encode()).body
    assert isinstance(function, ast.FunctionDef)
    assert ast.get_docstring(function, clean=False) == str(comment)
