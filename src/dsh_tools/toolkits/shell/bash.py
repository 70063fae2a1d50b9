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
from ..presented import meta_of
from .background import command_work
from .config import Escalation
from .errors import ShellError
from .executor import Command
from .sandbox import looks_denied
from .text import Background, Foreground, Sandboxed, background, foreground, render, split_marker

if TYPE_CHECKING:
    from ...services.jobs import Jobs
    from .config import SandboxConfig
    from .escalation import Escalations
    from .executor import Executor, Finished
    from .sandbox import Confinement, Sandbox

__all__ = ["bash_tool"]

_DESCRIPTION = """\
Run a command with bash and return what it prints and how it ends.

Each call is a fresh shell: folders and variables of an earlier call are forgotten. Nothing can be typed in; \
commands that ask questions get none answered. A command that ends with an error is still a result: look at its \
exit code. What it leaves running is stopped when it ends."""

_TEXTS = ("command", "workdir")
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


class EscalationArgs(TypedDict):
    """More rights than the sandbox gives, for one command."""

    sandbox_permissions: NotRequired[Annotated[Escalation, "Ask a person to run this command with more rights."]]
    justification: NotRequired[Annotated[str, "Why the command needs them, for the person who decides."]]


class SandboxedArgs(BashArgs, EscalationArgs):
    """What to run, and with which rights."""


class AllArgs(BackgroundBashArgs, EscalationArgs):
    """What to run, how, and with which rights."""


class _Meta(msgspec.Struct, rename="camel"):
    exit_code: int | None
    signal: str | None


def bash_tool(
    executor: Executor,
    jobs: Callable[[], Jobs | None],
    sandbox: Sandbox | None = None,
    escalations: Escalations | None = None,
) -> ToolDefinition:
    """Return ``bash`` (HOST-193 to 205).

    Parameters:
        executor: runs the commands.
        jobs: looks the jobs service up, at each call that wants it.
        sandbox: confines the commands.
        escalations: knows which calls a person was asked about; without it no call gets more rights.
    """
    bash = _Bash(executor, jobs, sandbox, escalations)
    definition = define_tool(
        name="bash",
        description=bash.description(),
        parameters=bash.parameters(),
        output=Foreground | Background,
        execute=bash.execute,
        render=_render,
        presentation_meta=_meta,
        present_call=_present_call,
        present_result=_present_result,
    )
    return also_check(definition, bash.faults)


class _Bash:
    def __init__(
        self,
        executor: Executor,
        jobs: Callable[[], Jobs | None],
        sandbox: Sandbox | None,
        escalations: Escalations | None,
    ) -> None:
        self._executor = executor
        self._jobs = jobs
        self._sandbox = sandbox
        self._escalations = escalations
        self._in_background = executor.config.enable_run_in_background
        self._wider = sandbox.config.wider_modes if sandbox is not None and escalations is not None else ()

    def description(self) -> str:
        return "".join(
            (
                _DESCRIPTION,
                _BACKGROUND if self._in_background else "",
                "" if self._sandbox is None else _confined_by(self._sandbox.config),
            )
        )

    def parameters(self) -> type[AllArgs]:
        """Return the class of the arguments that are offered; the others are refused (HOST-194)."""
        offered = {
            (False, False): BashArgs,
            (True, False): BackgroundBashArgs,
            (False, True): SandboxedArgs,
            (True, True): AllArgs,
        }
        return cast("type[AllArgs]", offered[self._in_background, bool(self._wider)])

    def faults(self, args: Any) -> list[str]:
        """Find what is wrong beyond the schema, before anybody is asked (HOST-195, D25)."""
        faults = [f"{name} must not be blank" for name in ("command", "description") if not args[name].strip()]
        faults += [f"{name} must not contain a NUL character" for name in _TEXTS if "\0" in args.get(name, "")]
        wanted, why = args.get("sandbox_permissions"), args.get("justification", "")
        if wanted is None and why:
            faults.append("justification goes with sandbox_permissions; give both or none")
        if wanted is not None and not why.strip():
            faults.append("sandbox_permissions needs a justification for the person who decides")
        if wanted is not None and wanted not in self._wider:
            faults.append(f"sandbox_permissions must be more than there is now: {', '.join(self._wider)}")
        return faults

    async def execute(self, args: AllArgs, run: ToolRunContext) -> Foreground | Background:
        wanted = args.get("sandbox_permissions")
        if wanted is not None and self._escalations is not None:
            self._escalations.require_asked(run)
        executor = self._executor
        folder = executor.working_folder(run.agent, args.get("workdir"))
        confinement: Confinement | None = None
        if self._sandbox is not None:
            project = executor.folder(run.agent)
            confinement = self._sandbox.confinement(wanted, project, executor.readable_folders())
        if args.get("run_in_background"):
            return self._start(args, Command(args["command"], folder, args.get("timeoutMs"), confinement), run)
        limit = executor.limit(args.get("timeoutMs"))
        command = Command(args["command"], folder, limit, confinement)
        finished = await executor.run(command, run.signal, run.progress)
        return foreground(finished, limit, None if confinement is None else _sandboxed(confinement, finished))

    def _start(self, args: AllArgs, command: Command, run: ToolRunContext) -> Background:
        jobs = self._jobs()
        if jobs is None:
            raise ShellError("background jobs are not available here; run the command in the foreground")
        handle = jobs.start(
            kind="bash",
            label=args["description"],
            run=lambda: command_work(self._executor, command),
            owner=run.agent,
            output_limit_bytes=self._executor.config.max_output_bytes,
            signal=run.signal,
        )
        return background(handle)


def _confined_by(config: SandboxConfig) -> str:
    may = "change files in the project folder only" if config.mode == "workspace-write" else "change no files"
    network = "" if config.network else ", and have no network"
    more = " If a command needs more, ask with sandbox_permissions." if config.wider_modes else ""
    return f" Commands run in a sandbox: they can {may}{network}.{more}"


def _sandboxed(confinement: Confinement, finished: Finished) -> Sandboxed:
    denied = looks_denied(finished.outcome.exit_code, finished.stderr.text)
    return Sandboxed(mode=confinement.mode, network=confinement.config.network, denied=denied)


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
    meta = meta_of(presented, _Meta)
    if meta is None:
        return TerminalResult(output=body, exit_code=code, signal=signal)
    # What the command itself has printed may look like the marker; the meta is ours.
    if (meta.exit_code, meta.signal) != (code, signal):
        body = content_text(presented.content)
    return TerminalResult(
        output=body, exit_code=None if meta.signal is not None else meta.exit_code, signal=meta.signal
    )
