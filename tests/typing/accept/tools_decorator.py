# also: mypy
"""``@tool`` leaves a function's own types alone."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, assert_type

from dsh_tools.content import TextBlock
from dsh_tools.tools import FunctionTool, Isolation, ToolDefinition, ToolRunContext, tool


@tool
async def add(a: int, b: int = 2) -> int:
    return a + b


@tool(
    name="shout",
    timeout_ms=10,
    render=lambda args, value: [TextBlock(str(value))],
    is_concurrency_safe=True,
    present_call=lambda args: None if "text" in args else None,
)
async def shout(text: str, run: ToolRunContext) -> str:
    return text.upper() + run.name


@tool(run_in_thread=False)
def here(x: list[str]) -> dict[str, int]:
    return {key: 1 for key in x}


@tool(isolation="process", timeout_ms=10)
def apart(x: int) -> str:
    return str(x)


@tool(isolation="process")
async def apart_later(x: int, run: ToolRunContext) -> str:
    return str(x)


def plain(a: int) -> str:
    return str(a)


made = tool(plain)
definition: ToolDefinition = add
function: Callable[[list[str]], dict[str, int]] = here.fn
assert_type(here(["a"]), dict[str, int])
assert_type(made(3), str)
assert_type(apart(3), str)
assert_type(apart.isolation, Isolation)


async def use(run: ToolRunContext) -> None:
    assert_type(await add(1), int)
    assert_type(await add(1, b=3), int)
    assert_type(await shout("a", run), str)
    assert_type(await apart_later(1, run), str)
    assert_type(await shout(text="a", run=run), str)


def takes_tool(given: FunctionTool[..., Coroutine[Any, Any, int]]) -> str:
    return given.name


takes_tool(add)
