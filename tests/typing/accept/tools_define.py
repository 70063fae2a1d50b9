# also: mypy
"""Bodies of ``define_tool`` get exactly what their classes say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import msgspec
import pydantic

from dsh_tools.content import ContentBlock, TextBlock
from dsh_tools.schema import RawSchema, compile_parameters, from_types
from dsh_tools.tools import OutputSpec, ToolDefinition, ToolRunContext, define_tool


class ReadArgs(TypedDict):
    path: str


@dataclass
class ReadJob:
    path: str


class ReadStruct(msgspec.Struct):
    path: str


class ReadModel(pydantic.BaseModel):
    path: str


@dataclass
class Text:
    text: str


@dataclass
class LongText(Text):
    lines: int


class TextDict(TypedDict):
    text: str


async def read(args: ReadArgs, run: ToolRunContext) -> str:
    assert_type(args["path"], str)
    assert_type(run.call_id, str)
    return args["path"]


async def read_job(args: ReadJob, run: ToolRunContext) -> Text:
    return Text(args.path)


async def read_long(args: ReadJob, run: ToolRunContext) -> LongText:
    return LongText(args.path, 1)


async def read_struct(args: ReadStruct, run: ToolRunContext) -> TextDict:
    return {"text": args.path}


async def read_model(args: ReadModel, run: ToolRunContext) -> list[int]:
    return [len(args.path)]


async def read_nothing(args: ReadArgs, run: ToolRunContext) -> None:
    return None


async def read_any(args: dict[str, Any], run: ToolRunContext) -> object:
    return args["path"]


def read_sync(args: ReadArgs, run: ToolRunContext) -> str:
    return args["path"]


def render(args: ReadArgs, value: str) -> Sequence[ContentBlock]:
    return [TextBlock(args["path"] + value)]


def is_small(args: ReadArgs) -> bool:
    return len(args["path"]) < 3


by_dict: ToolDefinition = define_tool(name="a", description="", parameters=ReadArgs, output=str, execute=read)
by_dataclass = define_tool(name="b", description="", parameters=ReadJob, output=Text, execute=read_job)
by_subclass = define_tool(name="b", description="", parameters=ReadJob, output=Text, execute=read_long)
by_struct = define_tool(name="c", description="", parameters=ReadStruct, output=TextDict, execute=read_struct)
by_model = define_tool(name="d", description="", parameters=ReadModel, output=list[int], execute=read_model)
no_value = define_tool(name="e", description="", parameters=ReadArgs, output=None, execute=read_nothing)
in_thread = define_tool(
    name="f", description="", parameters=ReadArgs, output=str, execute=read_sync, isolation="thread"
)
in_process = define_tool(
    name="f", description="", parameters=ReadArgs, output=str, execute=read_sync, isolation="process", timeout_ms=5
)
async_in_process = define_tool(
    name="f", description="", parameters=ReadJob, output=Text, execute=read_job, isolation="process"
)
dict_in_process = define_tool(
    name="f", description="", parameters=ReadStruct, output=TextDict, execute=read_struct, isolation="process"
)
nothing_in_process = define_tool(
    name="f", description="", parameters=ReadArgs, output=None, execute=read_nothing, isolation="process"
)
with_options = define_tool(
    name="g",
    description="",
    parameters=ReadArgs,
    output=str,
    execute=read,
    render=render,
    presentation_meta=lambda args, value: args["path"] + value.upper(),
    is_concurrency_safe=is_small,
    present_call=lambda args: None if args["path"] else None,
    timeout_ms=100,
    idempotent=True,
)
by_dsl = define_tool(
    name="h",
    description="",
    parameters={"path": {"type": "string", "required": True}},
    output={"type": "string"},
    execute=read_any,
)
by_raw = define_tool(
    name="i", description="", parameters=RawSchema({"type": "object"}), output=RawSchema({}), execute=read_any
)
by_schema = define_tool(
    name="j",
    description="",
    parameters=compile_parameters({}),
    output=OutputSpec(from_types(int | None, output=True)),
    execute=read_any,
)
assert_type(by_raw, ToolDefinition)
