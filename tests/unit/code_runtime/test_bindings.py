from __future__ import annotations

import pytest

from dsh_tools.code_runtime import BindingNamespace, ErrorClassSpec, check_bindings, is_bindable
from dsh_tools.errors import CodeRuntimeError


async def function(value: object) -> object:
    return value


def namespace(name: object, error: ErrorClassSpec | None = None, **functions: object) -> BindingNamespace:
    return BindingNamespace(name, functions, error)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["tools", "_private", "a1", "Helpers", "__x__", "undefined_", "of", "get", "asyncio"])
def test_names_that_can_be_bound(name: str):
    # CODE-133
    assert is_bindable(name)
    check_bindings([namespace(name)])


@pytest.mark.parametrize(
    "name",
    ["", "$tools", "a$b", "a-b", "a.b", "1a", "é", "a\n", "tools\n", " a", None, 5]
    + ["await", "lambda", "None", "let", "static", "arguments", "eval", "match", "type", "_", "def", "var", "function"]
    + ["True", "nonlocal", "enum", "yield", "interface", "case", "async", "null", "console", "__dsh_main__"]
    + ["__builtins__", "__name__", "__debug__"],
)
def test_names_that_cannot(name: object):
    # CODE-133: words of either language are refused, whatever the program's is
    assert not is_bindable(name)
    with pytest.raises(CodeRuntimeError):
        check_bindings([namespace(name)])


def test_names_are_bound_once():
    # CODE-134
    with pytest.raises(CodeRuntimeError, match="declared twice"):
        check_bindings([namespace("a"), namespace("a")])
    with pytest.raises(CodeRuntimeError, match="already bound"):
        check_bindings([namespace("a", ErrorClassSpec("b", "m")), namespace("b")])
    with pytest.raises(CodeRuntimeError, match="already bound"):
        check_bindings([namespace("a", ErrorClassSpec("E", "m")), namespace("b", ErrorClassSpec("E", "m"))])
    check_bindings([namespace("a", ErrorClassSpec("E", "m")), namespace("b", ErrorClassSpec("F", "m"))])


@pytest.mark.parametrize("name", ["await", "a-b", "", "console"])
def test_error_classes_need_usable_names(name: str):
    # CODE-133, 135
    with pytest.raises(CodeRuntimeError):
        check_bindings([namespace("tools", ErrorClassSpec(name, "toolName"))])


@pytest.mark.parametrize(
    "member", ["", "name", "message", "stack", "args", "with_traceback", "add_note", "__x__", "__class__", "__proto__"]
)
def test_reserved_member_properties(member: str):
    # CODE-135
    with pytest.raises(CodeRuntimeError):
        check_bindings([namespace("tools", ErrorClassSpec("ToolCallError", member))])


@pytest.mark.parametrize("member", ["toolName", "__", "____", "tool-name", "path/to", "é", "__a", "a__", " "])
def test_other_member_properties(member: str):
    # CODE-135: an identifier or not
    check_bindings([namespace("tools", ErrorClassSpec("ToolCallError", member))])


def test_functions_are_functions():
    # CODE-131
    check_bindings([namespace("tools", None, echo=function, **{"odd name": function, "__proto__": function})])
    with pytest.raises(CodeRuntimeError):
        check_bindings([namespace("tools", None, echo=5)])
    with pytest.raises(CodeRuntimeError):
        check_bindings([BindingNamespace("tools", {5: function})])  # type: ignore[dict-item]
