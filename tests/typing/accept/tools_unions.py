"""A union as output is an object of its own at run time; the body is free in what it returns."""

from __future__ import annotations

from typing import TypedDict

from dsh_tools.tools import ToolRunContext, define_tool


class Args(TypedDict):
    path: str


async def size(args: Args, run: ToolRunContext) -> int | None:
    return len(args["path"]) or None


define_tool(name="a", description="", parameters=Args, output=int | None, execute=size)
