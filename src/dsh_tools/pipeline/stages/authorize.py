"""Stage 2: may this call run? Listeners decide first, then guards, which can only deny."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

from ...errors import CallSuspended, HarnessError, ListenerError
from ...kernel.hooks import Listener, run_waterfall
from ...tools.events import PRE_EXECUTE, Allow, Ask, Decision, Deny
from ...tools.result import ToolFailure, failure, failure_from
from ..cancellation import UNCONTAINED, NativeCancellation
from ..run import ABORTED_BEFORE_DISPATCH, Run, aborted
from ..watching import ask_guard, watched

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal
    from ...tools.execution import AgentLike, ToolExecution

__all__ = ["ApprovalAnswer", "Approver", "authorize", "check_decision", "denial_text", "needs_authorization"]


class ApprovalAnswer(Protocol):
    """What an approval service answers: one of the closed set of outcomes, and an optional reason."""

    @property
    def outcome(self) -> str:
        """``allowed-once``, ``rejected``, ``cancelled`` or ``unavailable``."""
        ...

    @property
    def reason(self) -> str | None:
        """What the person said; shown to the model after the fixed text."""
        ...


class Approver(Protocol):
    """The approval service, as this stage needs it. Looked up at each ask (PIPE-118)."""

    async def request(
        self, *, execution: ToolExecution, agent: AgentLike, reason: str | None, signal: AbortSignal
    ) -> ApprovalAnswer:
        """Ask a person whether this execution may run.

        Raises:
            CallSuspended: nobody has answered in time, and the execution's state is kept (D34).
        """
        ...

    def look_back(self, *, execution: ToolExecution, agent: AgentLike) -> ApprovalAnswer | None:
        """Take note of what was answered about a resumed execution that nobody would be asked about now.

        Returns:
            The refusal, if a person refused it: it stands. None where nobody did.
        """
        ...


def needs_authorization(run: Run) -> bool:
    """Whether anything would look at this call; if not, the stage is skipped."""
    return bool(
        run.runner.guards.count or run.runner.bus.listeners(PRE_EXECUTE, run.scope) or _may_have_been_asked(run)
    )


def _may_have_been_asked(run: Run) -> bool:
    durable = run.execution.state.durable
    return durable is not None and durable.is_resumed


async def authorize(run: Run) -> None:
    """Run policy over the call; on return the run goes to its body, to review, or to its end (PIPE-111 to 128)."""
    native = NativeCancellation.here()
    refusal = failed = None
    try:
        refusal = await native.attend(_decide(run))
    except asyncio.CancelledError as error:
        if native.by_others:
            run.execution.state.cancelled = True
        else:
            failed = failure_from(error)
    except CallSuspended as suspension:
        run.suspend(suspension)
        return
    except UNCONTAINED:
        raise
    except BaseException as error:
        if native.closing:
            raise
        failed = failure_from(error)
    if native.requested:
        if await native.take_own() and failed is None:
            failed = failure("a listener of tools/pre-execute cancelled the task that it ran in")
        run.execution.state.cancelled |= native.requested
    if failed is not None:
        run.settle_with(failed, "finish")
        return
    if refusal is None and aborted(run):
        refusal = ABORTED_BEFORE_DISPATCH
    if refusal is not None:
        run.settle_with(refusal, "review")


async def _decide(run: Run) -> ToolFailure | None:
    decision: Decision = Allow()
    listeners = run.runner.bus.listeners(PRE_EXECUTE, run.scope)
    trace = run.execution.state.trace
    if listeners:
        if trace is not None:
            listeners = watched(listeners, trace, "listener")
        decision = await run_waterfall(listeners, run.execution, Allow, check_decision)
    if isinstance(decision, Ask):
        refusal = await _ask(run, decision)
    else:
        refusal = failure(denial_text(run, decision)) if isinstance(decision, Deny) else None
        if _may_have_been_asked(run):
            refused_before = _look_back(run)
            refusal = refused_before if refusal is None else refusal
    if refusal is None and not aborted(run) and run.runner.guards.count:
        refusal = _consult_guards(run)
    return refusal


def check_decision(listener: Listener, decision: object) -> None:
    """Fail closed on anything that is not a decision (D21, D37)."""
    if not isinstance(decision, (Allow, Deny, Ask)):
        what = f"expected Allow, Deny or Ask, got {type(decision).__name__}"
    elif isinstance(decision, Allow) or decision.reason is None or isinstance(decision.reason, str):
        return
    else:
        what = f"the reason must be a string, got {type(decision.reason).__name__}"
    raise ListenerError(listener.name, PRE_EXECUTE.name, what)


def denial_text(run: Run, decision: Deny) -> str:
    """What the model reads of a denial (PIPE-111, D21)."""
    return f'tool "{run.execution.name}" was denied by policy' if decision.reason is None else decision.reason


async def _ask(run: Run, decision: Ask) -> ToolFailure | None:
    execution = run.execution
    approver = cast("Approver | None", run.runner.context.get("approval"))
    if approver is None:
        return failure(decision.reason or f'tool "{execution.name}" requires approval (not yet supported)')
    if execution.agent is None:
        return failure(f'tool "{execution.name}" requires approval, but the call has no agent to route it through')
    answer = await approver.request(
        execution=execution,
        agent=execution.agent,
        reason=decision.reason,
        signal=execution.state.caller_signal,
    )
    return _refusal(run, answer)


def _look_back(run: Run) -> ToolFailure | None:
    """A person's refusal stands, although the rules that asked have gone since (D34)."""
    approver = cast("Approver | None", run.runner.context.get("approval"))
    agent = run.execution.agent
    if approver is None or agent is None:
        return None
    answer = approver.look_back(execution=run.execution, agent=agent)
    return None if answer is None else _refusal(run, answer)


def _refusal(run: Run, answer: ApprovalAnswer) -> ToolFailure | None:
    """What the model reads of an answer; None for a grant."""
    name = run.execution.name
    texts = {
        "rejected": f'the user rejected tool "{name}"',
        "cancelled": f'approval for tool "{name}" was cancelled',
        "unavailable": f'tool "{name}" requires approval, but no approval channel is available',
    }
    if answer.outcome == "allowed-once":
        return None
    if answer.outcome not in texts:
        raise HarnessError(f"unreachable approval outcome {answer.outcome!r}", "UNREACHABLE")
    if answer.outcome == "cancelled" and aborted(run):
        return ABORTED_BEFORE_DISPATCH
    return failure(f"{texts[answer.outcome]}\n{answer.reason}" if answer.reason else texts[answer.outcome])


def _consult_guards(run: Run) -> ToolFailure | None:
    trace = run.execution.state.trace
    for guard in run.runner.guards.consult(run.scope):
        reason: object = guard(run.execution) if trace is None else ask_guard(guard, run.execution, trace)
        if reason is None:
            continue
        if not isinstance(reason, str):
            name = getattr(guard, "__qualname__", repr(guard))
            what = f"expected None or a reason, got {type(reason).__name__}"
            raise ListenerError(name, "guard", what)
        return failure(reason)
    return None
