"""The value that the stages of one call hand on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from ..errors import AbortError, CallSuspended
from ..tools.events import TOOL_SUSPENDED
from ..tools.execution import ToolCall, ToolExecution
from ..tools.registered import RegisteredTool
from ..tools.result import ErrorInfo, ToolFailure, ToolResult, failure
from ..tools.visibility import View

if TYPE_CHECKING:
    from ..kernel.context import Context
    from ..kernel.hooks import HookBus
    from ..kernel.scope import Scope
    from ..tools.registry import ToolRegistry
    from .guards import GuardTable
    from .process import BodyProcesses
    from .threads import BodyThreads

__all__ = [
    "ABORTED",
    "ABORTED_BEFORE_DISPATCH",
    "Next",
    "Run",
    "Runner",
    "Tracer",
    "abort_outcome",
    "aborted",
    "aborted_result",
]

Next: TypeAlias = Literal["dispatch", "review", "finish", "suspended"]
"""Where a run goes next: to its body, to post-execute with a result, or straight to the end (PIPE-234).

A run that is suspended goes nowhere: it has no result, and whoever started it goes on another time.
"""


class Tracer(Protocol):
    """Who decides for each call whether it is traced."""

    def __call__(self, call: ToolCall, run: Run, /) -> None:
        """Look at a call that has just come in, before any policy does; set ``run.execution.state.trace``, or don't."""
        ...


class Runner(Protocol):
    """What the stages need of the service that owns the calls."""

    context: Context
    bus: HookBus
    registry: ToolRegistry
    guards: GuardTable
    threads: BodyThreads
    processes: BodyProcesses
    mask_errors: bool
    states_watched: bool
    tracer: Tracer | None

    def report_progress(self, execution: ToolExecution, value: object) -> None:
        """Deliver one progress value to observers."""
        ...


class Run(msgspec.Struct, eq=False):
    """One call between two stages.

    ``entry`` is the tool visible at entry; its finalizer is the one that will be called (PIPE-175).
    ``final_failure`` is a failure of the body that no listener reviews (D37). ``suspension`` says what a
    suspended run waits for. ``asked`` says whether whoever alone may cancel the task of the body has done so;
    None where anybody may.
    """

    runner: Runner
    execution: ToolExecution
    scope: Scope | None
    view: View
    entry: RegisteredTool | None
    next: Next = "dispatch"
    result: ToolResult | None = None
    finalize: bool = True
    final_failure: ToolFailure | None = None
    suspension: CallSuspended | None = None
    asked: Callable[[], bool] | None = None

    def settle_with(self, result: ToolResult, then: Next) -> None:
        """Set the result so far and where the run goes next."""
        self.result = result
        self.next = then

    def suspend(self, suspension: CallSuspended) -> None:
        """End the execution without a result: nothing of it lives on, and nobody reviews it."""
        self.suspension = suspension
        self.next = "suspended"
        self.execution.state.frozen = True
        self.execution.token.retire()
        notes = self.execution.state.notes
        if notes is not None and notes.watch is not None:
            notes.watch.settled()
        self.runner.bus.emit(TOOL_SUSPENDED, self.execution, scope=self.scope)

    def suspend_if_left(self) -> None:
        """Suspend a call that its caller leaves waiting instead of aborting it, before anything of it has run (D34)."""
        state = self.execution.state
        if state.durable is None or not state.caller_signal.aborted or self.suspension is not None:
            return
        reason = state.caller_signal.reason
        if isinstance(reason, CallSuspended) and not state.durable.has_begun:
            self.suspend(reason)


_BEFORE = ErrorInfo("AbortError", "ABORTED_BEFORE_DISPATCH")
_AFTER = ErrorInfo("AbortError", AbortError.default_code)
ABORTED_BEFORE_DISPATCH = failure("tool call aborted before dispatch", _BEFORE)
ABORTED = failure("tool call aborted", _AFTER)


def aborted(run: Run) -> bool:
    """Whether the caller gave this call up: by its signal, or by cancelling the awaiting task (PIPE-146, D30)."""
    state = run.execution.state
    return state.cancelled or state.caller_signal.aborted


def aborted_result(run: Run) -> ToolFailure:
    """The result of an aborted call: whether its body had begun decides the code (PIPE-199, 224, 225)."""
    return ABORTED if run.execution.state.body_ran else ABORTED_BEFORE_DISPATCH


def abort_outcome(run: Run, result: ToolResult) -> ToolResult:
    """Let an abort supersede a success, keeping its contexts; failures keep their own error (PIPE-190 to 195)."""
    if result.is_error or not aborted(run):
        return result
    outcome = aborted_result(run)
    if result.additional_contexts:
        return msgspec.structs.replace(outcome, additional_contexts=result.additional_contexts)
    return outcome
