"""What tests of calls need: an application with tools, simple definitions, and results to compare with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from dsh_tools.content import TextBlock
from dsh_tools.kernel import Context, create_context
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.tools import (
    ErrorDetail,
    ErrorInfo,
    OutputSpec,
    ToolCall,
    ToolDefinition,
    ToolFailure,
    ToolResult,
    render_value,
)

ABD = ErrorInfo("AbortError", "ABORTED_BEFORE_DISPATCH")
ABT = ErrorInfo("AbortError", "ABORTED")
UNKNOWN = ErrorInfo("ToolNotFoundError", "UNKNOWN_TOOL")
OPEN_OBJECT: Mapping[str, Any] = {"type": "object"}


@asynccontextmanager
async def app(**config: Any) -> AsyncIterator[Context]:
    """An application with the tool service and nothing else."""
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin(), config)
        yield ctx


class Body:
    """A body that counts its calls and returns or raises what it is told."""

    def __init__(self, outcome: Any = "ok") -> None:
        self.outcome = outcome
        self.calls: list[Any] = []

    async def __call__(self, args: Any, run: Any) -> Any:
        self.calls.append(args)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome(args, run) if callable(self.outcome) else self.outcome


def make_tool(
    name: str = "t",
    execute: Callable[..., Any] | None = None,
    *,
    parameters: Any = OPEN_OBJECT,
    schema: Any = None,
    render: Any = render_value,
    presentation_meta: Any = None,
    **fields: Any,
) -> ToolDefinition:
    """A definition; without a body it returns ``"ok"``, without a schema it may return anything."""
    return ToolDefinition(
        name=name,
        description=f"The tool {name}.",
        parameters=parameters,
        output=OutputSpec({} if schema is None else schema, render, presentation_meta),
        execute=execute if execute is not None else Body(),
        **fields,
    )


async def run(ctx: Context, name: str = "t", arguments: Any = None, **fields: Any) -> ToolResult:
    """Execute one call with object arguments."""
    return await ctx.tools.execute(ToolCall(name, {} if arguments is None else arguments, **fields))


def error(message: str, info: ErrorInfo | None = None, **fields: Any) -> ToolFailure:
    """The contract's ``E(message, info)``."""
    detail = ErrorDetail(message) if info is None else ErrorDetail(message, info)
    return ToolFailure(detail, (TextBlock("Error: " + message),), **fields)


def text_of(result: ToolResult) -> str:
    """The result's content as the model reads it."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextBlock))


ABORTED_BEFORE = error("tool call aborted before dispatch", ABD)
ABORTED_AFTER = error("tool call aborted", ABT)


class Recorder:
    """Notes which of the four hooks fired, in order, with the final results."""

    def __init__(self, ctx: Context) -> None:
        self.seen: list[str] = []
        self.results: list[ToolResult] = []
        self.executions: list[Any] = []
        ctx.on("tools/pre-execute", self._link("pre"))
        ctx.on("tools/execute", self._link("around"))
        ctx.on("tools/post-execute", self._link("post"))
        ctx.on("tools/result", self._result)

    def _link(self, name: str) -> Callable[..., Any]:
        async def listener(_subject: Any, next: Any) -> Any:
            self.seen.append(name)
            return await next()

        return listener

    def _result(self, execution: Any, result: ToolResult) -> None:
        self.seen.append("result")
        self.results.append(result)
        self.executions.append(execution)
