from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_tools.code_runtime import BindingNamespace, ErrorClassSpec
from dsh_tools.code_runtime.monty.failures import failure_of
from dsh_tools.code_runtime.monty.prelude import ERROR_TYPES, PRELUDE
from dsh_tools.code_runtime.monty.scanner import scan
from dsh_tools.code_runtime.monty.source import error_types, member_names, prepare

TOOLS = [BindingNamespace("tools", {}, ErrorClassSpec("ToolCallError", "toolName"))]


def body(program: str, bindings: list[BindingNamespace] = TOOLS) -> str:
    """The program's own lines in what the interpreter is fed."""
    text = prepare(program, bindings)
    return text.removeprefix("async def __dsh_main__():\n").split("\n pass\n")[0]


def rewritten(expression: str) -> str:
    return body(f"x = {expression}").removeprefix(" x = ")


def test_the_prelude_is_python():
    # CODE-188: it defines nothing that a program could take for a declared type
    tree = ast.parse(PRELUDE)
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    assert {name for name in names if not name.startswith("__dsh_")} == {"print"}
    # It has the stand-ins' short names in a list of its own.
    assert all(f'"{name.rsplit(".", 1)[-1]}"' in PRELUDE for name in ERROR_TYPES)


def test_a_program_becomes_the_body_of_an_async_function():
    # CODE-157, 188
    text = prepare("x = 1\nif x:\n    return await f(x)\n", TOOLS)
    ast.parse(text)
    assert text.startswith("async def __dsh_main__():\n x = 1\n if x:\n     return await f(x)\n \n pass\n")
    assert text.endswith("__dsh_finish(await __dsh_main__())")
    assert "tools = __dsh_bind(" in text and "ToolCallError = __dsh_error_types[0]" in text


@pytest.mark.parametrize(
    "program", ["", "# only a comment", "\n\n", "'docstring'", "return 1 # trailing", "x = 1;", "x = 1\\\n + 2"]
)
def test_odd_programs_still_make_a_function(program: str):
    # CODE-159
    ast.parse(prepare(program, TOOLS))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_any_kind(end: str):
    assert body(f"a = 1{end}b = 2") == " a = 1\n b = 2"


@pytest.mark.parametrize(
    "literal",
    [
        "'''a\n  b\n'''",
        '"""a\n"b"\n"""',
        "r'''\\\n'''",
        "b'''a\nb'''",
        "f'''a\n{x}\nb'''",
        "'a\\\nb'",
        'f"a\\\n{1}b"',
        "'''\\'''\n'''",
    ]
    + [
        "f'''{'''a'''\n}\nb'''",
        "f'''{x:\n>{5}}\n'''",
        "rf'''\\{x}\n'''",
        "f'''{{\n}}'''",
        "'' '''\n'''",
        "f'''\\N{BULLET}\n'''",
    ]
    + ["f'''{ {'a': 1}['a'] }\n'''", "f'''{x!s}\n'''", "F'''\n'''", "'it''s' '''\n'''", "f'{1}' '''\n'''"],
)
def test_strings_keep_their_lines(literal: str):
    # CODE-188: indentation must not leak into a string
    program = f"x = [{literal},\n1]\ny = 2"
    wrapped = prepare(program, TOOLS)
    if "{'''a'''" not in literal and "{x:\n" not in literal:
        function = ast.parse(wrapped).body[0]
        assert isinstance(function, ast.AsyncFunctionDef)
        expected = [ast.dump(node) for node in ast.parse(program).body]
        assert [ast.dump(node) for node in function.body][: len(expected)] == expected
    assert wrapped.split("\n pass\n")[0].endswith("\n 1]\n y = 2")


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("e.toolName", "M(e)"),
        ("e.toolName.upper()", "M(e).upper()"),
        ("e . toolName", "M(e )"),
        ("a.b.toolName", "M(a.b)"),
        ("f(x)[0].toolName", "M(f(x)[0])"),
        ("f(x.toolName)", "f(M(x))"),
        ("(a or b).toolName", "M((a or b))"),
        ("not e.toolName", "not M(e)"),
        ("-e.toolName + 1", "-M(e) + 1"),
        ("await e.toolName", "await M(e)"),
        ("e.toolName.toolName", "M(M(e))"),
        ("[e.toolName for e in es]", "[M(e) for e in es]"),
        ("e.toolName == 'x'", "M(e) == 'x'"),
        ("e.toolName >= 'x'", "M(e) >= 'x'"),
        ("{'k': e.toolName}['k']", "{'k': M(e)}['k']"),
        ("es[1:2][0].toolName", "M(es[1:2][0])"),
        ("f'{e.toolName}!'", "f'{M(e)}!'"),
        ('f"{e.toolName!r:>{w.toolName}}"', 'f"{R((M(e)))!s:>{M(w)}}"'),
        ("f'{e!r}{ e, 1 !r:>9} {{e!r}} !r'", "f'{R((e))!s}{ R((e, 1 ))!s:>9} {{e!r}} !r'"),
        ("f'{e=!r}{e!s}{a!=r}{!r}'", "f'{e=!r}{e!s}{a!=r}{!r}'"),
        ("f'{type(e).__name__}: {e!r}'", "f'{N(type(e))}: {R((e))!s}'"),
        ("f'{x:{y!r}}'", "f'{x:{R((y))!s}}'"),
        ("e.toolName.__name__", "N(M(e))"),
        ("__name__", "__name__"),
        ("f'{e.toolName=}'", "f'{M(e)=}'"),
        ("f'{f'{e.toolName}'}'", "f'{f'{M(e)}'}'"),
        ("'e.toolName'", "'e.toolName'"),
        ("f'{{e.toolName}}'", "f'{{e.toolName}}'"),
        ("toolName", "toolName"),
        ("e.toolNames", "e.toolNames"),
        ("f(toolName=1)", "f(toolName=1)"),
        ("1 # e.toolName", "1 # e.toolName"),
        ("'s'.toolName", "M('s')"),
        ("x if e.toolName else y", "x if M(e) else y"),
        ("lambda: e.toolName", "lambda: M(e)"),
    ],
)
def test_reading_an_errors_member_becomes_a_call(expression: str, result: str):
    # CODE-188
    found = rewritten(expression)
    for function, letter in (("__dsh_member_0", "M"), ("__dsh_name", "N"), ("__dsh_shown", "R")):
        found = found.replace(function, letter)
    # In "f'{e.toolName=}'" the sign is the f-string's, and a call would be shown as one; it stays as it is.
    assert found == (expression if expression == "f'{e.toolName=}'" else result)


@pytest.mark.parametrize("statement", ["e.toolName = 1", "e.toolName += 1", "e.toolName  = 2", "a.e.toolName |= x"])
def test_assigning_one_does_not(statement: str):
    assert body(statement) == " " + statement


def test_member_properties_that_nobody_can_spell_are_left_alone():
    # CODE-135
    odd = [
        BindingNamespace("a", {}, ErrorClassSpec("E", "tool-name")),
        BindingNamespace("b", {}, ErrorClassSpec("F", "who")),
    ]
    assert member_names(odd) == ["who"]
    assert body("x = e.who - e.tool-name", odd) == " x = __dsh_member_0(e) - e.tool-name"
    assert body("x = E.__name__", odd[:1]) == " x = __dsh_name(E)"


def test_without_error_classes_nothing_is_rewritten():
    program = "x = f'{type(e).__name__} {e!r} {e.toolName}'"
    assert body(program, [BindingNamespace("a", {})]) == " " + program


def test_each_error_class_has_a_type_of_its_own():
    # CODE-137
    many = [BindingNamespace(f"n{i}", {}, ErrorClassSpec(f"E{i}", "m")) for i in range(6)]
    assert len(set(error_types(many).values())) == 6
    assert error_types([BindingNamespace("plain", {})]) == {}


@settings(max_examples=300)
@given(st.text(st.sampled_from("abf'\"\\\n{}()[]:.# =!\t1é"), max_size=30))
def test_any_text_is_borne(program: str):
    # CODE-159, 179: a faulty program fails in the interpreter, never here
    found = scan(program)
    assert all(0 <= offset <= len(program) for offset in found.string_lines)
    text = prepare(program, TOOLS)
    assert text.endswith("__dsh_finish(await __dsh_main__())")
    assert text.count("\n") == program.count("\n") + prepare("", TOOLS).count("\n")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
@settings(max_examples=300)
@given(st.text(st.sampled_from("ab'\"\\\n()# =1"), max_size=24))
def test_what_python_parses_keeps_its_meaning(program: str):
    # CODE-188
    try:
        before = ast.parse(program).body
    except (SyntaxError, ValueError):
        return
    function = ast.parse(prepare(program, TOOLS)).body[0]
    assert isinstance(function, ast.AsyncFunctionDef)
    assert [ast.dump(node) for node in function.body][: len(before)] == [ast.dump(node) for node in before]


def test_a_scan_takes_time_in_proportion():
    long = "x = f'{a}' + 'b' # c\n" * 20_000
    assert len(scan(long).sequences) == 20_001


class FakeError(Exception):
    def traceback(self) -> list[object]:
        return []


def test_failures_speak_the_programs_names():
    # CODE-169, 188
    def shown(text: str) -> str:
        return failure_of(FakeError(text), TOOLS, "").message

    assert shown("binascii.Incomplete: no such file") == "ToolCallError: no such file"
    assert shown("binascii.Incomplete") == "ToolCallError"
    assert shown("binascii.IncompleteX: a") == "binascii.IncompleteX: a"
    lacking = "AttributeError: '{}' object has no attribute 'message'"
    assert shown(lacking.format("binascii.Incomplete")) == lacking.format("ToolCallError")
    assert shown("NotImplementedError: The monty syntax parser does not yet support yield expressions") == (
        "NotImplementedError: this Python does not support yield expressions"
    )
    assert (
        failure_of(FakeError("MemoryError: memory limit exceeded: 2 bytes > 1 bytes"), TOOLS, "").kind == "worker-exit"
    )
