# also: mypy
"""What ``@tool`` must not let through: calls that do not fit the function."""

from __future__ import annotations

from dsh_tools.tools import FunctionTool, ToolRunContext, tool


@tool
async def add(a: int, b: int = 2) -> int:
    return a + b


@tool(name="say")
def say(text: str, run: ToolRunContext) -> str:
    return text


def takes_text(given: FunctionTool[[str], str]) -> None: ...


async def use(run: ToolRunContext) -> None:
    await add("1")  # error
    await add(1, c=2)  # error
    await add()  # error
    say("a", run).bit_length()  # error
    say("a")  # error
    add(1).upper()  # error
    add.name = "other"  # error
    takes_text(add)  # error


tool(3)  # error
tool(titel="x")  # error
tool(run_in_thread="yes")  # error
tool(isolation="thread")  # error
