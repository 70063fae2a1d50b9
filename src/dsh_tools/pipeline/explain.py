"""Foreseeing what policy would decide about a call, without running it; the order is that of ``authorize.py``.

The call goes through the snapshot like any other, so unknown names and arguments that don't fit are found. Then the
listeners that declare themselves free of effects form the waterfall among themselves, and the guards are consulted.
Where a listener is left out that might decide otherwise, the explanation is not certain, and names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import msgspec

from ..errors import ListenerError, describe_exception
from ..json_value import digest
from ..kernel.hooks import Listener, run_waterfall
from ..kernel.markers import effects_of
from ..tools.events import PRE_EXECUTE, Allow, Ask, Decision, Deny
from ..tools.result import ToolFailure
from ..tools.trace import CallTrace, Consulted, MissedRule
from .cancellation import UNCONTAINED, NativeCancellation
from .run import Run, Runner
from .stages.authorize import check_decision, denial_text
from .stages.snapshot import snapshot_call
from .watching import ask_guard, watched

if TYPE_CHECKING:
    from ..tools.execution import AgentLike, ToolCall, ToolExecution
    from .policies import PolicyTable

__all__ = ["Explanation", "Foreseen", "Prospect", "Verdict", "explain"]

Verdict: TypeAlias = Literal["allow", "ask", "deny", "invalid"]
"""``invalid``: the call cannot run whatever policy says; the tool is unknown, say, or the arguments don't fit."""

Prospect: TypeAlias = Literal["asked", "allowed-once", "rejected", "suspended", "unavailable"]
"""What would come of asking: a person is ``asked``, or the answer is known without; a call that is ``suspended``
waits until its turn is resumed."""


class Foreseen(msgspec.Struct, frozen=True):
    """What would come of asking a person, and why."""

    prospect: Prospect
    reason: str


class _Foreseer(Protocol):
    """The approval service, as much of it as is needed to say what would come of asking."""

    async def foresee(self, *, execution: ToolExecution, agent: AgentLike, reason: str | None) -> Foreseen: ...


class _Service(Runner, Protocol):
    policies: PolicyTable


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """What would become of a call, and why.

    Parameters:
        tool: the tool's name.
        verdict: what policy would say.
        reason: why, as the model or the person who is asked would read it; None for a call that nothing objects to.
        decided_by: which rule, listener or guard it is; None where nobody has an opinion.
        certain: False where a listener could not be consulted that might decide otherwise.
        arguments: the arguments that would run: validated, with their defaults; None where there are none.
        arguments_digest: their digest, which an approval would be bound to.
        policy_digest: the digest of the rules in force, which an approval would be bound to as well.
        consulted: everybody who was asked, in order.
        not_consulted: the names of the listeners that cannot be consulted without effects.
        approval: where the verdict is ``ask``, what would come of asking.
        missed: the rules that are about this tool and do not match, with the argument that keeps each from it.
    """

    tool: str
    verdict: Verdict
    reason: str | None = None
    decided_by: str | None = None
    certain: bool = True
    arguments: Any = None
    arguments_digest: str | None = None
    policy_digest: str | None = None
    consulted: tuple[Consulted, ...] = ()
    not_consulted: tuple[str, ...] = ()
    approval: Foreseen | None = None
    missed: tuple[MissedRule, ...] = ()


async def explain(runner: _Service, call: ToolCall) -> Explanation:
    """Say what policy would decide about a call; never raises for what a policy does.

    Raises:
        asyncio.CancelledError: the awaiting task was cancelled.
    """
    run = snapshot_call(runner, call)
    execution = run.execution
    # From here on the execution takes no contexts and reports no progress, whoever holds it.
    execution.state.frozen = True
    trace = execution.state.trace = CallTrace(explains=True)
    try:
        if run.next != "dispatch" or run.entry is None:
            return _invalid(run)
        chain = await _Chain.consult(run, trace)
        denial = None if chain.verdict == "deny" and chain.certain else _ask_guards(run, trace)
        verdict, by, reason = denial if denial is not None else (chain.verdict, chain.decided_by, chain.reason)
        return Explanation(
            execution.name,
            verdict,
            reason,
            by,
            denial is not None or chain.certain,
            execution.arguments,
            digest(execution.arguments),
            runner.policies.digest(run.scope),
            tuple(trace.consulted),
            tuple(listener.name for listener in chain.left_out),
            await _foresee(run, reason) if verdict == "ask" else None,
            tuple(trace.missed or ()),
        )
    finally:
        execution.token.retire()


def _invalid(run: Run) -> Explanation:
    """The call ends before any policy looks at it."""
    if isinstance(run.result, ToolFailure):
        return Explanation(run.execution.name, "invalid", run.result.error.message)
    # An unknown name: listeners are asked about it, but there is nothing to run.
    return Explanation(run.execution.name, "invalid", f'unknown tool "{run.execution.name}"')


class _Chain:
    """What the listeners on ``tools/pre-execute`` would decide, as far as they can be consulted."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self.consulted = [listener for listener in listeners if effects_of(listener.fn) == "free"]
        self.left_out = [listener for listener in listeners if effects_of(listener.fn) == "unknown"]
        self.verdict: Verdict = "allow"
        self.decided_by: str | None = None
        self.reason: str | None = None
        self.certain = not self.left_out

    @classmethod
    async def consult(cls, run: Run, trace: CallTrace) -> _Chain:
        """Ask those that can be asked, in their order."""
        listeners = run.runner.bus.listeners(PRE_EXECUTE, run.scope)
        chain = cls(listeners)
        native = NativeCancellation.here()
        try:
            decision: Decision = await native.attend(
                run_waterfall(watched(chain.consulted, trace, "listener"), run.execution, Allow, check_decision)
            )
        except UNCONTAINED:
            raise
        except BaseException as error:
            if native.closing:
                raise
            _raise_if_cancelled(error, native)
            # A listener that fails fails the call: nothing would run.
            chain._decide("deny", describe_exception(error), trace)
        else:
            reason = None if isinstance(decision, Allow) else decision.reason
            if isinstance(decision, Deny):
                chain._decide("deny", denial_text(run, decision), trace)
            else:
                chain._decide("ask" if isinstance(decision, Ask) else "allow", reason, trace)
        if chain.verdict == "deny":
            chain._weigh_denial(listeners, trace)
        return chain

    def _decide(self, verdict: Verdict, reason: str | None, trace: CallTrace) -> None:
        self.verdict, self.reason = verdict, reason
        place = _deciding_place(trace)
        if place is not None:
            self.decided_by = _rule_behind(trace, place, verdict) or f"listener {trace.consulted[place].name}"
        elif verdict == "allow":
            self.decided_by = next((_named(rule) for rule in trace.consulted if rule.kind == "rule"), None)

    def _weigh_denial(self, listeners: Sequence[Listener], trace: CallTrace) -> None:
        """Only a listener in front of the one who denies could say something else, and those whom that one heard."""
        place = _deciding_place(trace)
        if place is None or place in trace.heard_others:
            return
        decided = sum(asked.kind == "listener" for asked in trace.consulted[:place])
        before = listeners[: listeners.index(self.consulted[decided])]
        self.certain = not any(listener in self.left_out for listener in before)


def _raise_if_cancelled(error: BaseException, native: NativeCancellation) -> None:
    """A CancelledError that nobody has asked for is a failure like any other (D30)."""
    if isinstance(error, asyncio.CancelledError) and native.by_others:
        raise error


def _deciding_place(trace: CallTrace) -> int | None:
    """Where in the trace the listener stands whose word it is: the outermost that did not just hand on."""
    for place, asked in enumerate(trace.consulted):
        if asked.kind == "listener" and asked.verdict != "passed":
            return place
    return None


def _rule_behind(trace: CallTrace, place: int, verdict: Verdict) -> str | None:
    """The rule by which a listener decided, if it decides by rules."""
    following = trace.consulted[place + 1] if place + 1 < len(trace.consulted) else None
    if following is not None and following.kind == "rule" and following.verdict == verdict:
        return _named(following)
    return None


def _named(asked: Consulted) -> str:
    return f"{asked.kind} {asked.name}"


def _ask_guards(run: Run, trace: CallTrace) -> tuple[Verdict, str, str] | None:
    """Return the denial of the first guard that denies, or fails."""
    for guard in run.runner.guards.consult(run.scope):
        try:
            reason: object = ask_guard(guard, run.execution, trace)
        except UNCONTAINED:
            raise
        except BaseException as error:
            _raise_if_cancelled(error, NativeCancellation.here())
            return "deny", _named(trace.consulted[-1]), describe_exception(error)
        if reason is None:
            continue
        name = _named(trace.consulted[-1])
        if isinstance(reason, str):
            return "deny", name, reason
        what = f"expected None or a reason, got {type(reason).__name__}"
        return "deny", name, ListenerError(trace.consulted[-1].name, "guard", what).message
    return None


async def _foresee(run: Run, reason: str | None) -> Foreseen:
    """What would come of asking; the order is that of the real question (PIPE-119, 120)."""
    approver = cast("_Foreseer | None", run.runner.context.get("approval"))
    if approver is None:
        return Foreseen("unavailable", "there is no approval service; the call is denied")
    agent = run.execution.agent
    if agent is None:
        return Foreseen("unavailable", "the call has no agent to route the question through; it is denied")
    return await approver.foresee(execution=run.execution, agent=agent, reason=reason)
