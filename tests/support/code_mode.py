"""Code Mode for tests: an application with it, and a runtime whose programs are Python functions of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec import UNSET

from dsh_tools.code_mode import CodeModePlugin
from dsh_tools.code_runtime import CodeRunError, CodeRunRequest, CodeRunResult
from dsh_tools.kernel import Context, create_context
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.session import RecorderPlugin
from dsh_tools.tools import ToolCall, ToolResult

Script = Callable[["Program"], Awaitable[Any]]


class Program:
    """What a script gets: the request, the functions bound into it, and a place to print."""

    def __init__(self, request: CodeRunRequest) -> None:
        self.request = request
        (namespace,) = request.bindings
        self.functions = namespace.functions
        self.error_class = namespace.error_class
        self.logs: list[str] = []

    @property
    def signal(self) -> Any:
        return self.request.signal

    def call(self, name: str, arguments: Any = None) -> Awaitable[Any]:
        return self.functions[name]({} if arguments is None else arguments)

    async def error_of(self, name: str, arguments: Any = None) -> str:
        """The message that a call rejects with."""
        try:
            value = await self.call(name, arguments)
        except Exception as error:
            return str(error)
        raise AssertionError(f"{name} returned {value!r}")


class ScriptRuntime:
    """A runtime that runs whatever script it was given last; a script's exception is the program's."""

    isolation = "none"
    version = "script 1"

    def __init__(self, script: Script | None = None, language: str = "typescript") -> None:
        self.script = script
        self.language = language
        self.requests: list[CodeRunRequest] = []

    async def run(self, request: CodeRunRequest) -> CodeRunResult:
        self.requests.append(request)
        assert self.script is not None
        program = Program(request)
        try:
            value = await self.script(program)
        except Exception as error:
            return CodeRunResult(program.logs, UNSET, CodeRunError("exception", str(error)))
        return value if isinstance(value, CodeRunResult) else CodeRunResult(program.logs, value)

    async def dispose(self) -> None:
        pass


@asynccontextmanager
async def code_app(
    script: Script | None = None,
    *,
    language: str | None = "typescript",
    mode: str = "code",
    recorder: object = None,
    **config: Any,
) -> AsyncIterator[tuple[Context, ScriptRuntime]]:
    """An application with the tool service, Code Mode, the recorder and a runtime for scripts."""
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin(), {"mode": mode, **config})
        if recorder is None:
            await ctx.plugin(RecorderPlugin())
        else:
            ctx.provide("recorder", recorder)
        await ctx.plugin(CodeModePlugin())
        runtime = ScriptRuntime(script, language or "typescript")
        if language is not None:
            ctx.provide("code_runtime", runtime)
        yield ctx, runtime


async def run_code(ctx: Context, code: str = "", **fields: Any) -> ToolResult:
    """Call ``run_code`` with a program."""
    arguments = fields.pop("arguments", {"code": code})
    return await ctx.tools.execute(ToolCall("run_code", arguments, **{"call_id": "outer", **fields}))
