"""Path patterns, ignore rules, regular expressions, and the reading of ripgrep's output."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_tools.toolkits.search.errors import InvalidPatternError
from dsh_tools.toolkits.search.globs import GlobSyntaxError, glob_expression, parse_path_pattern
from dsh_tools.toolkits.search.ignore import parse_ignore_file
from dsh_tools.toolkits.search.patterns import LinePattern
from dsh_tools.toolkits.search.ripgrep import _parse
from dsh_tools.toolkits.search.space import read_include, read_path_pattern

# ── path patterns ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc", "a.py/x"]),
        ("src/*.py", ["src/a.py"], ["a.py", "src/x/a.py", "x/src/a.py"]),
        ("/a.py", ["a.py"], ["x/a.py"]),
        ("./a/b", ["a/b"], ["x/a/b"]),
        ("./a", ["a"], ["x/a"]),
        ("//a", ["a"], ["x/a"]),
        ("build/", ["build/a", "build/a/b"], ["x/build/a", "build"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py", "srcx/a.py"]),
        ("**/a", ["a", "x/a", "x/y/a"], ["xa", "a/b"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a"]),
        ("src/", ["src/b", "src/b/c"], ["src", "x/src/b"]),
        ("**", ["a", "a/b"], []),
        ("*.{ts,tsx}", ["a.ts", "x/a.tsx"], ["a.js"]),
        ("{a,b/{c,d}}/*", ["a/x", "b/c/x", "b/d/x"], ["b/x"]),
        ("a?c", ["abc", "x/aéc"], ["ac", "a/c"]),
        ("[a-c]*", ["apple", "x/cat"], ["dog"]),
        ("[!a-c]*", ["dog"], ["apple"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a-]", ["-", "a"], ["b"]),
        (r"\*", ["*"], ["a"]),
        ("a.b+c", ["a.b+c"], ["axb+c", "a.bbc"]),
        ("a,b", ["a,b"], []),
    ],
)
def test_path_patterns(pattern: str, matching: list[str], other: list[str]):
    expression = parse_path_pattern(pattern)
    assert [path for path in matching if not expression.match(path)] == []
    assert [path for path in other if expression.match(path)] == []


@pytest.mark.parametrize("pattern", ["[a", "{a", "a}", "a\\", "[z-a]", "", "  ", "!a", "a\nb", "a\0b"])
def test_path_patterns_that_are_none(pattern: str):
    # HOST-220
    with pytest.raises(InvalidPatternError) as refused:
        read_path_pattern(pattern)
    assert refused.value.code == "SEARCH_INVALID_PATTERN"


@given(st.text(st.sampled_from("ab*?[]{}!,-\\/."), max_size=12))
@settings(max_examples=300)
def test_every_glob_is_an_expression_or_an_error(glob: str):
    try:
        re.compile(glob_expression(glob))
    except GlobSyntaxError:
        return


@pytest.mark.parametrize("include", ["!*.py", "*.py,*.md", "a,b", "{a,b},c"])
def test_include_takes_one_positive_pattern(include: str):
    # HOST-222
    with pytest.raises(InvalidPatternError, match="include"):
        read_include(include)


def test_commas_in_braces_are_fine():
    # HOST-222
    assert read_include("*.{ts,tsx}").expression.match("x/a.tsx")
    assert read_include("{a,{b,c}}.py").expression.match("c.py")


# ── ignore rules ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rules", "path", "is_folder", "verdict"),
    [
        ("*.log", "x/a.log", False, True),
        ("*.log\n!a.log", "a.log", False, False),
        ("build/", "build", False, None),
        ("build/", "x/build", True, True),
        ("/build", "x/build", True, None),
        ("a/b", "x/a/b", True, None),
        ("a/**", "a", True, None),
        ("a/**", "a/b", True, True),
        ("# a", "# a", False, None),
        ("\\# a", "# a", False, True),
        ("a\\ ", "a ", False, True),
        ("a  ", "a", False, True),
        ("[\na", "a", False, True),
        ("\ufeffa", "a", False, True),
    ],
)
def test_ignore_rules(rules: str, path: str, is_folder: bool, verdict: bool | None):
    file = parse_ignore_file(rules.encode())
    assert (None if file is None else file.verdict(path, is_folder)) is verdict


def test_a_file_without_rules_is_none():
    assert parse_ignore_file(b"\n# only words\n\n[\n") is None


# ── regular expressions ────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        ("foo$", "a foo", True),
        ("foo$", "a foo\r", True),
        ("foo$", "foo a", False),
        (r"foo\$", "foo$", True),
        (r"foo\$", "foo", False),
        ("[$]", "a$", True),
        ("[]$]x", "$x", True),
        ("[^]$]x", "$x", False),
        ("(?i)FOO|bar$", "a foo b", True),
        (r"\d+", "٣", True),
        ("^$", "", True),
        ("^$", "\r", True),
        ("a.c", "aéc", True),
    ],
)
def test_lines_that_match(pattern: str, line: str, found: bool):
    # HOST-218
    assert LinePattern(pattern).matches(line) is found
    assert not found or LinePattern(pattern).may_be_in(f"x\n{line}\ny\n")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "1 to 65536 characters"),
        ("a" * 70_000, "1 to 65536 characters"),
        ("a\nb", "one line"),
        ("a\0", "one line"),
        ("foo(", "unclosed group; escape characters such as ("),
        ("[a", "unclosed character class"),
        ("(?=a)", "look-around"),
        (r"(a)\1", "backreference"),
        ("a{2,1}", "repetition"),
        ("(((a{100}){100}){100}){100}", "size limit"),
    ],
)
def test_expressions_that_are_none_say_why(pattern: str, words: str):
    # HOST-220
    with pytest.raises(InvalidPatternError) as refused:
        LinePattern(pattern)
    assert refused.value.code == "SEARCH_INVALID_PATTERN"
    assert words in refused.value.message
    assert len(refused.value.message) < 600


def test_no_expression_freezes_a_search():
    started = time.monotonic()
    pattern = LinePattern("^(a+)+$")
    assert not pattern.matches("a" * 50_000 + "!")
    assert time.monotonic() - started < 0.5


# ── ripgrep's output ───────────────────────────────────────────────────────────

WARNING = 'WARNING: stopped searching binary file after match (found "\\0" byte around offset 8)'


def test_records_are_read():
    assert _parse("./a\x001:x\n./a\x0012:y: z\r\n./b c\x003:\n") == {
        "./a": [(1, "x"), (12, "y: z")],
        "./b c": [(3, "")],
    }


def test_binary_files_are_left_out_wherever_their_warning_stands():
    records = f"./a\x001:x\n./a: {WARNING}\n./b\x001:x\n./c\x001:x\n./c: {WARNING}\n"
    assert _parse(records) == {"./b": [(1, "x")]}


def test_names_with_line_ends_in_them_are_read():
    assert _parse("./a\nb\x001:x\n") == {"./a\nb": [(1, "x")]}
    assert _parse(f"./a: {WARNING}\n./c\nd\x001:x\n") == {"./c\nd": [(1, "x")]}


def test_no_output_is_no_match():
    assert _parse("") == {}
