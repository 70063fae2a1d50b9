"""The tool ``bash``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict, cast

import msgspec
from pydantic import Field

from ...content import Content, content_text, text
from ...tools import PresentedResult, ToolDefinition, ToolRunContext, define_tool
from ...tools.cards import GenericCall, GenericResult, TerminalCall, TerminalResult
from ..arguments import also_check
from .background import command_work
from .errors import ShellError
from .executor import Command
from .text import Background, Foreground, Sandboxed, background, foreground, render, split_marker

if TYPE_CHECKING:
    from ...services.jobs import Jobs
    from .executor import Executor

__all__ = ["bash_tool"]

_DESCRIPTION = """\
Run a command with bash and return what it prints and how it ends.

Each call is a fresh shell: folders and variables of an earlier call are forgotten. Nothing can be typed in; \
commands that ask questions get none answered. A command that ends with an error is still a result: look at its \
exit code. What it leaves running is stopped when it ends."""

_BACKGROUND = " For servers and long work use run_in_background."


class BashArgs(TypedDict):
    """What to run."""

    command: Annotated[str, "The command line."]
    description: Annotated[str, "What the command does, in five to ten words, for the person who watches."]
    timeoutMs: NotRequired[Annotated[int, Field(ge=1), "How long it may take, in milliseconds."]]
    workdir: NotRequired[Annotated[str, "The folder to run it in: relative to the working folder, or absolute."]]


class BackgroundBashArgs(BashArgs):
    """What to run, now or in the background."""

    run_in_background: NotRequired[Annotated[bool, "Start it as a background job and return at once."]]


class _Meta(msgspec.Struct, rename="camel"):
    exit_code: int | None
    signal: str | None


def bash_tool(executor: Executor, jobs: Callable[[], Jobs | None]) -> ToolDefinition:
    """Return ``bash`` (HOST-193 to 204).

    Parameters:
        executor: runs the commands.
        jobs: looks the jobs service up, at each call that wants it.
    """
    in_background = executor.config.enable_run_in_background
    parameters = cast("type[BackgroundBashArgs]", BackgroundBashArgs if in_background else BashArgs)

    async def execute(args: BackgroundBashArgs, run: ToolRunContext) -> Foreground | Background:
        folder = executor.working_folder(run.agent, args.get("workdir"))
        if args.get("run_in_background"):
            return _start(executor, jobs(), args, folder, run)
        limit = executor.limit(args.get("timeoutMs"))
        finished = await executor.run(Command(args["command"], folder, limit), run.signal, run.progress)
        sandboxed: Sandboxed | None = None
        return foreground(finished, limit, sandboxed)

    definition = define_tool(
        name="bash",
        description=_DESCRIPTION + (_BACKGROUND if in_background else ""),
        parameters=parameters,
        output=Foreground | Background,
        execute=execute,
        render=_render,
        presentation_meta=_meta,
        present_call=_present_call,
        present_result=_present_result,
    )
    return also_check(definition, _check)


def _start(
    executor: Executor, jobs: Jobs | None, args: BackgroundBashArgs, folder: str, run: ToolRunContext
) -> Background:
    if jobs is None:
        raise ShellError("background jobs are not available here; run the command in the foreground")
    limit = args.get("timeoutMs")
    command = Command(args["command"], folder, limit)
    handle = jobs.start(
        kind="bash",
        label=args["description"],
        run=lambda: command_work(executor, command),
        owner=run.agent,
        output_limit_bytes=executor.config.max_output_bytes,
        signal=run.signal,
    )
    return background(handle)


def _check(args: Any) -> list[str]:
    """Find what is wrong beyond the schema, before anybody is asked (HOST-195, D25)."""
    return [f"{name} must not be blank" for name in ("command", "description") if not args[name].strip()] + [
        f"{name} must not contain a NUL character" for name in ("command", "workdir") if "\0" in args.get(name, "")
    ]


def _render(args: BackgroundBashArgs, value: Foreground | Background) -> Content:
    return text(render(value))


def _meta(args: BackgroundBashArgs, value: Foreground | Background) -> dict[str, Any]:
    if value["kind"] == "background":
        return {"jobId": value["jobId"]}
    return {"exitCode": value["exitCode"], "signal": value["signal"]}


def _present_call(args: BackgroundBashArgs) -> GenericCall | TerminalCall:
    if args.get("run_in_background"):
        return GenericCall(args["command"], kind="execute", raw_input=dict(args))
    return TerminalCall(args["command"], args["description"], args.get("workdir"))


def _present_result(args: BackgroundBashArgs, presented: PresentedResult) -> GenericResult | TerminalResult:
    if presented.is_error or args.get("run_in_background"):
        return GenericResult(content=presented.content)
    body, code, signal = split_marker(content_text(presented.content))
    try:
        meta = msgspec.convert(presented.meta, _Meta)
    except msgspec.ValidationError:
        return TerminalResult(output=body, exit_code=code, signal=signal)
    # What the command itself has printed may look like the marker; the meta is ours.
    if (meta.exit_code, meta.signal) != (code, signal):
        body = content_text(presented.content)
    return TerminalResult(
        output=body, exit_code=None if meta.signal is not None else meta.exit_code, signal=meta.signal
    )
