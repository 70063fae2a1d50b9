"""Code Mode as a plugin: ``run_code`` in the registry, its sections in the prompt."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec import UNSET

from ..code_runtime import CodeRunResult
from ..errors import CodeRunFailedError, CodeRuntimeError, PromptError, RegistrationError
from ..tools.execution import ToolExecution
from ..tools.registry import RESERVED_NAME
from ..tools.visibility import Mode
from .bridge import Bridge, refuse_reentry
from .journal import DurableProgram, program_facts
from .journaled import JournaledBridge
from .render import failure_message
from .run_code import RunCodeEntry
from .section import CODE_ONLY, CODE_ONLY_ORDER, SDK_ORDER, SectionCache, render_section

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..code_runtime import CodeRuntime
    from ..kernel.context import Context
    from ..kernel.scope import Scope
    from .recording import DispatchRecorder

__all__ = ["CodeModePlugin", "check_presentable"]


class _PromptRequest(Protocol):
    @property
    def scope(self) -> Scope | None: ...


class _Prompt(Protocol):
    """The prompt service, as much of it as is used here."""

    def section(self, name: str, order: float, text: Callable[[Any], str], *, literal: bool) -> object: ...


def check_presentable(ctx: Context, mode: Mode) -> CodeRuntime:
    """Return the runtime that programs of this mode would run in (CODE-11, 12; PIPE-69).

    Raises:
        PromptError: there is none, or programs in its language have no SDK.
    """
    runtime = cast("CodeRuntime | None", ctx.get("code_runtime"))
    if runtime is None:
        raise PromptError(
            f'mode "{mode}" requires a code runtime\nMount CodeRuntimePlugin. TypeScript programs need '
            'pip install "dsh-tools[code]", Python programs pip install "dsh-tools[code-python]".'
        )
    render_section(runtime.language, ())
    return runtime


class CodeModePlugin:
    """Offers tools to programs instead of, or beside, calls by the model.

    Where nothing declares a mode it changes nothing. The runtime is another plugin's
    (``code_runtime``), and is looked up at each use.
    """

    name = "code-mode"
    inject = ("tools",)

    async def apply(self, ctx: Context, config: object = None) -> None:
        """Give ``run_code`` its place, and its sections theirs, while there is a prompt service.

        Raises:
            RegistrationError: Code Mode is mounted already.
        """
        code_mode = _CodeMode(ctx)
        tools = ctx.tools
        registry = tools.service.registry
        if registry.transport is not None:
            raise RegistrationError("Code Mode is mounted already")

        def install() -> Callable[[], None]:
            registry.set_transport(RunCodeEntry(code_mode.execute, code_mode.language))
            tools.service.changed()
            return uninstall

        def uninstall() -> None:
            registry.set_transport(None)
            tools.service.changed()

        ctx.effect(install, RESERVED_NAME)
        sections = ctx.plugin(_Sections(code_mode))
        if ctx.get("system_prompt") is not None:
            await sections


class _Sections:
    """The two sections, while there is a prompt service (CODE-5)."""

    name = "code-mode-sections"
    inject = ("system_prompt",)

    def __init__(self, code_mode: _CodeMode) -> None:
        self._code_mode = code_mode

    def apply(self, ctx: Context, config: object = None) -> None:
        prompt = cast("_Prompt", ctx.require("system_prompt"))
        prompt.section("tools:code-only", CODE_ONLY_ORDER, self._code_mode.code_only, literal=True)
        prompt.section("tools:sdk", SDK_ORDER, self._code_mode.sdk, literal=True)


class _CodeMode:
    """What is shown to whom, and the body of ``run_code``."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._sections = SectionCache()
        # The language that each scope was shown last, and the one that callers without a scope were.
        self._shown: weakref.WeakKeyDictionary[Scope, str] = weakref.WeakKeyDictionary()
        self._shown_to_all: str | None = None

    def language(self) -> str | None:
        """The language of the mounted runtime."""
        runtime = cast("CodeRuntime | None", self._ctx.get("code_runtime"))
        return None if runtime is None else runtime.language

    # ── prompt ────────────────────────────────────────────────────────────────

    def code_only(self, request: _PromptRequest) -> str:
        """The rule that only ``run_code`` is callable, where that is so (CODE-4, 6)."""
        return CODE_ONLY if self._ctx.tools.mode(request.scope) == "code" else ""

    def sdk(self, request: _PromptRequest) -> str:
        """The SDK of what the scope sees, empty where its mode is native (CODE-9)."""
        view = self._ctx.tools.view(request.scope)
        if view.mode == "native":
            return ""
        language = check_presentable(self._ctx, view.mode).language
        if request.scope is None:
            self._shown_to_all = language
        else:
            self._shown[request.scope] = language
        return self._sections.section(language, view)

    # ── run_code ──────────────────────────────────────────────────────────────

    async def execute(self, args: Any, execution: ToolExecution) -> dict[str, Any]:
        """The body of ``run_code``.

        Raises:
            KeyboardInterrupt: the body of a call raised it.
            CallSuspended: a call of the program waits for a person; the run is in its journal.
            CodeRunFailedError: the program failed.
            CodeRuntimeError: there is no runtime, or not the one that the caller was shown.
            SessionError: the run is not the one that its journal tells of.
            ToolError: a program tried to run a program.
        """
        refuse_reentry(execution)
        runtime = self._runtime_for(execution.scope)
        recorder = cast("DispatchRecorder | None", self._ctx.get("recorder"))
        bridge = await self._bridge(runtime, args["code"], execution, recorder)
        # A task of its own: whatever cancels the call, the bridge stops what it started, and only then the call ends.
        work = asyncio.create_task(bridge.run(runtime, args["code"]))
        while not work.done():
            try:
                await asyncio.wait((work,))
            except asyncio.CancelledError:
                bridge.abort("cancelled")
        if bridge.interruption is not None:
            work.exception()
            raise bridge.interruption
        return _canonical(work.result())

    async def _bridge(
        self, runtime: CodeRuntime, program: str, execution: ToolExecution, recorder: DispatchRecorder | None
    ) -> Bridge:
        """The bridge of a program; one that keeps its run where the call itself is kept (D34)."""
        durable = execution.state.durable
        if not isinstance(durable, DurableProgram):
            return Bridge(self._ctx.tools, execution, recorder)
        facts = program_facts(runtime, self._ctx.tools.view(execution.scope), program)
        return JournaledBridge(self._ctx.tools, execution, recorder, await durable.open_program(facts))

    def _runtime_for(self, scope: Scope | None) -> CodeRuntime:
        """Return the runtime, if it speaks the language that the caller's prompt was written for (CODE-37, D9)."""
        runtime = cast("CodeRuntime | None", self._ctx.get("code_runtime"))
        if runtime is None:
            raise CodeRuntimeError(f"{RESERVED_NAME} requires a code runtime", "NO_CODE_RUNTIME")
        shown = self._shown_to_all if scope is None else self._shown.get(scope)
        if shown is not None and shown != runtime.language:
            raise CodeRuntimeError(
                f"{RESERVED_NAME} was offered for {shown} programs, and the code runtime now runs {runtime.language}; "
                "nothing was run",
                "CODE_LANGUAGE_CHANGED",
            )
        return runtime


def _canonical(outcome: CodeRunResult) -> dict[str, Any]:
    """The canonical value of a run (CODE-35); an error wins over a value (CODE-127)."""
    if outcome.error is not None:
        raise CodeRunFailedError(failure_message(outcome.error, outcome.logs))
    value: dict[str, Any] = {"logs": list(outcome.logs)}
    if outcome.value is not UNSET:
        value["result"] = outcome.value
    return value
