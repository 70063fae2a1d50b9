# also: mypy
"""What ``define_tool`` must not let through: bodies that do not fit their classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import msgspec
import pydantic

from dsh_tools.content import TextBlock
from dsh_tools.tools import ToolRunContext, define_tool


class ReadArgs(TypedDict):
    path: str


class OtherArgs(TypedDict):
    other: int


@dataclass
class Job:
    path: str


class Made(msgspec.Struct):
    path: str


class Model(pydantic.BaseModel):
    path: str


class TextDict(TypedDict):
    text: str


class OtherDict(TypedDict):
    other: int


async def text(args: ReadArgs, run: ToolRunContext) -> str:
    return args["path"]


async def number(args: ReadArgs, run: ToolRunContext) -> int:
    return len(args["path"])


async def numbers(args: ReadArgs, run: ToolRunContext) -> list[int]:
    return []


async def other_dict(args: ReadArgs, run: ToolRunContext) -> OtherDict:
    return {"other": 1}


async def model(args: ReadArgs, run: ToolRunContext) -> Model:
    return Model(path="")


def sync(args: ReadArgs, run: ToolRunContext) -> str:
    return ""


# The body takes other arguments than the class says.
define_tool(name="a", description="", parameters=OtherArgs, output=str, execute=text)  # error
define_tool(name="a", description="", parameters=Job, output=str, execute=text)  # error
define_tool(name="a", description="", parameters=Model, output=str, execute=text)  # error
define_tool(name="a", description="", parameters=int, output=str, execute=text)  # error
# The body returns something else than the class says.
define_tool(name="a", description="", parameters=ReadArgs, output=int, execute=text)  # error
define_tool(name="a", description="", parameters=ReadArgs, output=str, execute=number)  # error
define_tool(name="a", description="", parameters=ReadArgs, output=list[str], execute=numbers)  # error
define_tool(name="a", description="", parameters=ReadArgs, output=TextDict, execute=other_dict)  # error
define_tool(name="a", description="", parameters=ReadArgs, output=Made, execute=model)  # error
define_tool(name="a", description="", parameters=ReadArgs, output=Job, execute=model)  # error
define_tool(name="a", description="", parameters=ReadArgs, output=None, execute=text)  # error
# A body that is not async says where it runs, and keeps no time limit there.
define_tool(name="a", description="", parameters=ReadArgs, output=str, execute=sync)  # error
define_tool(name="a", description="", parameters=ReadArgs, output=str, execute=text, isolation="thread")  # error
define_tool(name="a", description="", parameters=ReadArgs, output=str, execute=sync, isolation="thread", timeout_ms=1)  # error
define_tool(name="a", description="", parameters=ReadArgs, output=int, execute=sync, isolation="process")  # error
define_tool(name="a", description="", parameters=ReadArgs, output=int, execute=text, isolation="process")  # error
define_tool(name="a", description="", parameters=OtherArgs, output=str, execute=text, isolation="process")  # error
define_tool(name="a", description="", parameters=ReadArgs, output=str, execute=sync, isolation="moon")  # error
# Projectors, presenters and options.
define_tool(name="a", description="", parameters=ReadArgs, output=int, execute=number, render=lambda a, v: [TextBlock(v.upper())])  # error
define_tool(name="a", description="", parameters=ReadArgs, output=str, execute=text, render=lambda a, v: "text")  # error
define_tool(name="a", description="", parameters=ReadArgs, output=str, execute=text, present_call=lambda a: a["nope"])  # error
define_tool(name="a", description="", parameters=ReadArgs, output=str, execute=text, is_concurrency_safe="yes")  # error
define_tool(name="a", description="", parameters=ReadArgs, output=str, execute=text, titel="x")  # error
define_tool(name="a", parameters=ReadArgs, output=str, execute=text)  # error
