"""The service: asks, waits for the first answer, and keeps the record."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET

from ...errors import ApprovalError, CallSuspended
from ...json_value import digest, snapshot
from ...kernel.abort import NEVER
from ..agents import session_of
from .desks import Desks
from .earlier import Earlier, answer_of, as_asked, earlier_of, refusal_of
from .foresight import asked_of, foresee, waiting_of
from .history import Histories
from .question import Question, record_asked, record_decided
from .records import (
    APPROVAL_ASKED,
    APPROVAL_DECIDED,
    APPROVAL_REQUEST,
    APPROVAL_SUSPENDED,
    ApprovalAnswer,
    ApprovalRequest,
    AskPolicy,
    Outcome,
    Remember,
    draft_about,
    is_outcome,
    is_remember,
    read_answer,
)
from .switching import check_policy, switch

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal
    from ...kernel.context import Context
    from ...kernel.scope import Scope
    from ...pipeline import Foreseen, Tools
    from ...session.protocol import SessionLog
    from ...tools.execution import AgentLike, DurableCall, ToolExecution
    from .history import AskedBefore

__all__ = ["ApprovalService"]

_log = logging.getLogger("dsh_tools")

_CANCELLED = ApprovalAnswer("cancelled")
_UNAVAILABLE = ApprovalAnswer("unavailable")
_NEVER = ApprovalAnswer("rejected", "approvals are switched off here; nobody was asked")
_STALE = ApprovalAnswer("cancelled", "the rules changed before the answer came; it does not count")
_NEEDLESS = ApprovalAnswer("cancelled", "the rules do not ask about this call any more")
_SUSPENDED = ApprovalAnswer("unavailable", "the question stays open")
_MOST_QUESTIONS = 3
"""How often one call is put to people, where the rules change under each answer."""


class ApprovalService:
    """Asks people, one question at a time or many at once.

    Parameters:
        context: the context that provides the service; questions are dispatched on its bus.
        policy: what holds for sessions whose log says nothing else (HOST-90).
        suspend_after: after how many seconds without an answer a call is suspended that can be; None for never.
    """

    def __init__(self, context: Context, policy: AskPolicy = "ask", suspend_after: float | None = None) -> None:
        self._context = context
        self._bus = context.bus
        self._default_policy: AskPolicy = policy
        self._suspend_after = suspend_after
        self._pending: dict[str, Question] = {}
        self._desks = Desks(self._pending)
        self._remembering = 0
        self._asking: set[asyncio.Task[ApprovalAnswer]] = set()
        self.histories = Histories()

    # ── asking ────────────────────────────────────────────────────────────────

    async def request(
        self, *, execution: ToolExecution, agent: AgentLike, reason: str | None, signal: AbortSignal
    ) -> ApprovalAnswer:
        """Ask whether this execution may run; what the pipeline calls (PIPE-121).

        Where the call's state is kept, an answer that was given to the same question in an earlier turn counts,
        a question that is open there is put again under its id, and one that nobody answers in time is left
        open in the log (D34).

        Raises:
            CallSuspended: nobody has answered in time.
            ApprovalError: the agent's session has no open turn (HOST-83).
            SessionError: the session could not record the question or the answer (HOST-85).
        """
        return await self._put(draft_about(execution, agent, signal, reason), execution.state.durable)

    def look_back(self, *, execution: ToolExecution, agent: AgentLike) -> ApprovalAnswer | None:
        """Look at what was asked about a resumed execution that nobody would be asked about now (D34).

        The rules that asked have gone since. A refusal stands all the same. A grant is not needed any more, and a
        question that is open is withdrawn; observers are told of every answer that there was.

        Returns:
            The refusal; None where nobody has refused.

        Raises:
            SessionError: the session could not record that a question is withdrawn (HOST-85).
        """
        draft = draft_about(execution, agent, NEVER)
        before = self._tell_earlier(draft, execution.state.durable)
        if not before:
            return None
        if before[-1].outcome is None:
            self._settle(session_of(agent), as_asked(draft, before[-1]), _NEEDLESS)
        return refusal_of(execution.name, before[-1])

    async def ask(
        self,
        *,
        agent: AgentLike,
        tool_name: str,
        call_id: str | None = None,
        root_call_id: str | None = None,
        reason: str | None = None,
        arguments: Any = UNSET,
        signal: AbortSignal = NEVER,
        purpose: str = "call",
    ) -> ApprovalAnswer:
        """Ask about anything; the parameters are those of :class:`ApprovalRequest`.

        Raises:
            ApprovalError: the agent's session has no open turn.
            SessionError: the session could not record the question or the answer.
        """
        request = ApprovalRequest(
            id="",
            agent=agent,
            tool_name=tool_name,
            signal=signal,
            call_id=call_id,
            root_call_id=root_call_id,
            reason=reason,
            arguments=arguments,
            purpose=purpose,
        )
        return await self._put(request, None)

    async def _put(self, draft: ApprovalRequest, durable: DurableCall | None) -> ApprovalAnswer:
        """Complete a question and put it to people, again where the rules change under the answer."""
        agent = draft.agent
        log = session_of(agent)
        if log is not None and log.turn is None:
            raise ApprovalError(f'approval for tool "{draft.tool_name}" was asked outside an open turn', "NO_OPEN_TURN")
        self._tell_earlier(draft, durable)
        frozen = UNSET if draft.arguments is UNSET else snapshot(draft.arguments)
        for _ in range(_MOST_QUESTIONS):
            answer = await self._ask_once(log, self._complete(draft, frozen), durable)
            if answer is not _STALE:
                return ApprovalAnswer(answer.outcome, answer.reason, answer.remember)
        return _UNAVAILABLE

    def _complete(self, draft: ApprovalRequest, arguments: Any) -> ApprovalRequest:
        """Make a question of its draft: with an id, and all that its answer will be bound to."""
        return msgspec.structs.replace(
            draft,
            id=uuid.uuid4().hex,
            arguments=arguments,
            arguments_digest=None if arguments is UNSET else digest(arguments),
            policy_digest=self.policy_digest(draft.agent),
            can_be_remembered=self._remembering > 0 and draft.purpose == "call" and arguments is not UNSET,
        )

    async def _ask_once(
        self, log: SessionLog | None, request: ApprovalRequest, durable: DurableCall | None
    ) -> ApprovalAnswer:
        """Put one question, and record how it ended; ``_STALE`` where it has to be put again."""
        earlier = Earlier(request)
        if log is not None and durable is not None:
            before = self.histories.of(request.agent).about(request.call_id, durable.call_key)
            earlier = earlier_of(log, request, before[-1] if before else None)
            request = earlier.request
            if earlier.withdrawn is not None:
                self._settle(log, earlier.withdrawn, _STALE)
            if earlier.answer is not None:
                return earlier.answer
        if not earlier.is_logged:
            record_asked(log, request)
        try:
            answer = await self._decide(request, durable)
        except asyncio.CancelledError:
            self._settle(log, request, _CANCELLED)
            raise
        if answer is _SUSPENDED:
            self._bus.emit(APPROVAL_SUSPENDED, request, scope=request.agent.scope)
            raise CallSuspended(request.id)
        if answer.remember is not None and not request.can_be_remembered:
            answer = ApprovalAnswer(answer.outcome, answer.reason, by=answer.by)
        if self._is_stale(request, answer.outcome):
            answer = _STALE
        self._settle(log, request, answer)
        return answer

    def _tell_earlier(self, draft: ApprovalRequest, durable: DurableCall | None) -> Sequence[AskedBefore]:
        """Return what was asked about a resumed call in earlier turns, and tell observers what was answered then."""
        if durable is None or not durable.is_resumed:
            return ()
        before = self.histories.of(draft.agent).about(draft.call_id, durable.call_key)
        for question in before:
            answer = answer_of(question)
            if answer is not None:
                self._bus.emit(APPROVAL_DECIDED, as_asked(draft, question), answer, scope=draft.agent.scope)
        return before

    def policy_digest(self, agent: AgentLike) -> str | None:
        """Return the digest of the rules in force for an agent's calls; None where nobody declared any."""
        tools = cast("Tools | None", self._context.get("tools"))
        return None if tools is None else tools.policy_digest(agent.scope)

    def _is_stale(self, request: ApprovalRequest, outcome: Outcome) -> bool:
        """Whether this is a grant for rules that are not in force any more; a refusal stands whatever they are."""
        return outcome == "allowed-once" and request.policy_digest != self.policy_digest(request.agent)

    async def _decide(self, request: ApprovalRequest, durable: DurableCall | None) -> ApprovalAnswer:
        """Check in the contract's order (HOST-86), then put the question to whoever answers first."""
        if request.signal.aborted:
            return _CANCELLED
        if self.policy(request.agent) == "never":
            return _NEVER
        after = None if durable is None else self._suspend_after
        question = self._pending[request.id] = Question(request, may_be_suspended=after is not None)
        task = asyncio.create_task(self._dispatch(question))
        self._asking.add(task)
        task.add_done_callback(partial(self._dispatched, question))
        timer = None if after is None else task.get_loop().call_later(after, _suspend, question, task)
        remove = request.signal.add_callback(lambda: question.settle(_CANCELLED))
        self._bus.emit(APPROVAL_ASKED, request, scope=request.agent.scope)
        try:
            return await question.answer
        finally:
            remove()
            if timer is not None:
                timer.cancel()
            del self._pending[request.id]
            # The other front ends withdraw the question; what they still answer counts for nothing (HOST-88).
            task.cancel()

    async def _dispatch(self, question: Question) -> ApprovalAnswer:
        request = question.request
        try:
            given, by = await asked_of(
                self._bus.listeners(APPROVAL_REQUEST, request.agent.scope), request, lambda: self._ask_desks(question)
            )
        except Exception as error:
            if not question.answer.done():
                _log.error('asking about tool "%s" failed', request.tool_name, exc_info=error)
            return _UNAVAILABLE
        answer = read_answer(given)
        if answer is None:
            _log.error('an approval answerer gave %r for tool "%s"; expected an outcome', given, request.tool_name)
            return _UNAVAILABLE
        return answer if by is None or answer.by is not None else msgspec.structs.replace(answer, by=by)

    def _dispatched(self, question: Question, task: asyncio.Task[ApprovalAnswer]) -> None:
        self._asking.discard(task)
        question.settle(_UNAVAILABLE if task.cancelled() else task.result())

    async def _ask_desks(self, question: Question) -> ApprovalAnswer:
        """The end of the chain: wait for a desk's answer, if one serves this agent, or for the call's suspension."""
        if not question.may_be_suspended:
            if not self._desks.serve(question.request):
                return _UNAVAILABLE
            question.waits_for_desk = True
        return await asyncio.shield(question.answer)

    def _settle(self, log: SessionLog | None, request: ApprovalRequest, answer: ApprovalAnswer) -> None:
        record_decided(log, request, answer)
        if log is None:
            history = self.histories.of(request.agent)
            history.remember(
                request.tool_name, request.arguments_digest, answer.outcome, answer.remember, request.policy_digest
            )
        self._bus.emit(APPROVAL_DECIDED, request, answer, scope=request.agent.scope)

    # ── answering from elsewhere ──────────────────────────────────────────────

    @property
    def pending(self) -> tuple[ApprovalRequest, ...]:
        """The questions that wait for an answer now, oldest first."""
        return tuple(question.request for question in self._pending.values())

    def answer(
        self,
        request_id: str,
        outcome: Outcome,
        reason: str | None = None,
        remember: Remember | None = None,
        *,
        by: str = "desk",
        digest: str | None = None,
    ) -> bool:
        """Answer a pending question; the first answer counts. ``digest`` is that of the arguments that were shown.

        Returns:
            False where the question is unknown, answered or withdrawn already.

        Raises:
            ApprovalError: the outcome or scope is none that exists, or this question cannot be remembered;
                ``OTHER_ARGUMENTS`` where others were shown; ``STALE_ANSWER`` where the rules have changed since
                the question was put: it is put again.
        """
        if not is_outcome(outcome):
            raise ApprovalError(f"{outcome!r} is not an approval outcome", "INVALID_ANSWER")
        if remember is not None and not is_remember(remember):
            raise ApprovalError(f'remember must be "arguments" or "tool", got {remember!r}', "INVALID_ANSWER")
        question = self._pending.get(request_id)
        if question is None:
            return False
        if remember is not None and not question.request.can_be_remembered:
            raise ApprovalError("the answer to this question cannot be remembered", "INVALID_ANSWER")
        if digest is not None and digest != question.request.arguments_digest:
            raise ApprovalError("the answer was given for other arguments than those that would run", "OTHER_ARGUMENTS")
        stale = self._is_stale(question.request, outcome)
        settled = question.settle(ApprovalAnswer(outcome, reason, remember, by))
        if stale and settled:
            raise ApprovalError(f"{_STALE.reason}; the question is put again", "STALE_ANSWER")
        return settled

    def suspend(self, agent: AgentLike) -> bool:
        """Suspend the calls of an agent that wait for an answer now, where they can be; say whether there were any."""
        waiting = [one for one in self._pending.values() if one.request.agent is agent and one.may_be_suspended]
        return sum(question.settle(_SUSPENDED) for question in waiting) > 0

    async def foresee(self, *, execution: ToolExecution, agent: AgentLike, reason: str | None = None) -> Foreseen:
        """Say what would come of asking about this execution; only answerers without effects are asked."""
        request = self._complete(draft_about(execution, agent, NEVER, reason), execution.arguments)
        return await foresee(
            request,
            never=self.policy(agent) == "never",
            listeners=self._bus.listeners(APPROVAL_REQUEST, agent.scope),
            served=self._desks.serve(request),
            waiting=waiting_of(self._context, agent, self._suspend_after),
        )

    def open_desk(self, scope: Scope | None) -> Callable[[], None]:
        """Say that somebody answers by :meth:`answer` from now on; return what ends it."""
        return self._desks.open(scope)

    def use_remembered(self) -> Callable[[], None]:
        """Say that somebody acts on remembered answers from now on, so that they are offered; return what ends it."""
        self._remembering += 1

        def end() -> None:
            self._remembering -= 1

        return end

    # ── policy ────────────────────────────────────────────────────────────────

    def policy(self, agent: AgentLike) -> AskPolicy:
        """Return the policy in force for this agent: its log's last word, else the config's (HOST-90)."""
        return self.histories.of(agent).policy or self._default_policy

    def set_policy(self, agent: AgentLike, policy: AskPolicy) -> None:
        """Switch asking on or off for this agent's session; tells the agent, unless nothing changes.

        Raises:
            ApprovalError: the policy is neither ``ask`` nor ``never``; nothing was logged.
        """
        check_policy(policy)
        if self.policy(agent) != policy:
            switch(agent, policy, self.histories.of(agent))

    async def dispose(self) -> None:
        """Withdraw the open questions and wait until every answerer has stopped."""
        for question in list(self._pending.values()):
            question.settle(_UNAVAILABLE)
        while self._asking:
            for task in self._asking:
                task.cancel()
            await asyncio.wait(self._asking)


def _suspend(question: Question, asking: asyncio.Task[ApprovalAnswer]) -> None:
    """The time is over; an answer that has just come still counts."""
    if not asking.done():
        question.settle(_SUSPENDED)
