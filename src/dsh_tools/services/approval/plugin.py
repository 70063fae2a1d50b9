"""``ctx.approval``: the service as each context sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pydantic
from msgspec import UNSET

from ...kernel.abort import NEVER
from .answerers import Answerer, as_listener
from .records import APPROVAL_REQUEST, ApprovalAnswer, ApprovalRequest, AskPolicy, Outcome, Remember
from .service import ApprovalService

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal
    from ...kernel.context import Context
    from ...kernel.effect import Disposer
    from ...pipeline import Foreseen
    from ...tools.execution import AgentLike, ToolExecution
    from .history import ApprovalHistory

__all__ = ["Approval", "ApprovalConfig", "ApprovalPlugin"]


class ApprovalConfig(pydantic.BaseModel):
    """Configuration of the approval service.

    Parameters:
        policy: ``ask`` puts questions to people, ``never`` rejects them unasked (HOST-90).
        suspend_after: after how many seconds without an answer a call is suspended: its turn ends as waiting,
            and goes on when it is resumed. 0 suspends at once, None never. Only calls of agents whose session
            is kept together with a journal are suspended (D34).
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    policy: AskPolicy = "ask"
    suspend_after: float | None = pydantic.Field(default=None, ge=0, allow_inf_nan=False)


class Approval:
    """The approval service bound to one context: answerers registered through it end with it."""

    def __init__(self, service: ApprovalService, context: Context) -> None:
        self._service = service
        self._context = context

    def answer_with(self, answerer: Answerer, *, prepend: bool = False) -> Disposer:
        """Register an answerer for the agents of this context's scope, or for all.

        It gets the request and returns an answer, a bare outcome, or None to leave the question to
        the next answerer; it may be async, and is cancelled when the question is withdrawn. One that
        raises makes the outcome ``unavailable`` (HOST-87).
        """
        return self._context.on(APPROVAL_REQUEST, as_listener(answerer), prepend=prepend)

    def open_desk(self) -> Disposer:
        """Say that somebody answers this scope's pending questions by :meth:`answer`; without one, and
        without an answerer, the outcome is ``unavailable`` at once. When the last desk closes, the
        questions that only wait for a desk end as ``unavailable``.
        """
        service, scope = self._service, self._context.scope
        return self._context.effect(lambda: service.open_desk(scope), "approval desk")

    def use_remembered(self) -> Disposer:
        """Say that this context acts on remembered answers; without anybody who does, none are offered."""
        return self._context.effect(self._service.use_remembered, "remembered approvals")

    @property
    def pending(self) -> tuple[ApprovalRequest, ...]:
        """The questions that wait for an answer now, oldest first; of all agents."""
        return self._service.pending

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
        """Answer a pending question; False where it is not pending any more. See :meth:`ApprovalService.answer`."""
        return self._service.answer(request_id, outcome, reason, remember, by=by, digest=digest)

    def suspend(self, agent: AgentLike) -> bool:
        """Suspend the calls of an agent that wait for an answer now; see :meth:`ApprovalService.suspend`."""
        return self._service.suspend(agent)

    async def foresee(self, *, execution: ToolExecution, agent: AgentLike, reason: str | None = None) -> Foreseen:
        """Say what would come of asking about an execution; see :meth:`ApprovalService.foresee`."""
        return await self._service.foresee(execution=execution, agent=agent, reason=reason)

    async def request(
        self, *, execution: ToolExecution, agent: AgentLike, reason: str | None, signal: AbortSignal
    ) -> ApprovalAnswer:
        """Ask whether an execution may run; see :meth:`ApprovalService.request`."""
        return await self._service.request(execution=execution, agent=agent, reason=reason, signal=signal)

    def look_back(self, *, execution: ToolExecution, agent: AgentLike) -> ApprovalAnswer | None:
        """Return the refusal of a resumed execution; see :meth:`ApprovalService.look_back`."""
        return self._service.look_back(execution=execution, agent=agent)

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
        """Ask about anything; see :meth:`ApprovalService.ask`."""
        return await self._service.ask(
            agent=agent,
            tool_name=tool_name,
            call_id=call_id,
            root_call_id=root_call_id,
            reason=reason,
            arguments=arguments,
            signal=signal,
            purpose=purpose,
        )

    def policy(self, agent: AgentLike) -> AskPolicy:
        """Return whether people are asked for this agent (HOST-90)."""
        return self._service.policy(agent)

    def set_policy(self, agent: AgentLike, policy: AskPolicy) -> None:
        """Switch asking on or off for this agent's session; see :meth:`ApprovalService.set_policy`."""
        self._service.set_policy(agent, policy)

    def history(self, agent: AgentLike) -> ApprovalHistory:
        """Return what this agent's session remembers of approvals."""
        return self._service.histories.of(agent)


class ApprovalPlugin:
    """Provides ``ctx.approval``."""

    name = "approval"
    Config = ApprovalConfig

    def apply(self, ctx: Context, config: ApprovalConfig) -> None:
        """Provide the service; on disposal withdraw what is asked and wait for the answerers."""
        service = _Bound(ctx, config.policy, config.suspend_after)
        ctx.effect(lambda: service.dispose, "approval")
        ctx.provide("approval", service)


class _Bound(ApprovalService):
    """The service as the kernel keeps it: every context gets its own face."""

    def for_context(self, context: Context) -> Approval:
        """Return the face for one context."""
        return Approval(self, context)
