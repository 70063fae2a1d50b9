"""The approval inbox: what is asked now, and answering it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET

from ..kernel.abort import NEVER
from ..services import ApprovalRequest
from ..session import EventLog
from ..tools import view_of_call
from ..tools.cards import view_to_json
from .rows import clip
from .waiting import WaitingTurns

if TYPE_CHECKING:
    from ..agent import Agent
    from ..kernel import Context
    from ..services.approval import Approval, Outcome, Remember
    from ..session.events import ApprovalAsked
    from .hub import Hub
    from .rows import FindTool

__all__ = ["Desk"]


class Desk:
    """Shows the pending questions of all agents to all pages, and takes their answers.

    It stays open while the server restarts, so nobody loses a question by that.

    Parameters:
        ctx: the context whose approval service is answered; the desk closes with it.
        hub: where changes are told.
    """

    def __init__(self, ctx: Context, hub: Hub) -> None:
        self._approval: Approval = ctx.approval
        self._ctx = ctx
        self._hub = hub
        self._since: dict[str, float] = {}
        self._approval.open_desk()
        self._waiting = WaitingTurns(ctx, lambda: hub.broadcast("approvals", self.pending()))

    def pending(self) -> list[dict[str, Any]]:
        """Return the pending questions, oldest first, with a card of what would run; then those of turns that wait."""
        pending = [self._question(request) for request in self._approval.pending]
        return pending + [self._waiting_question(agent, asked) for agent, asked in self._waiting.questions()]

    def answer(
        self, request_id: str, outcome: str, reason: str | None, remember: str | None, digest: str | None = None
    ) -> bool:
        """Answer a question; False where somebody else was faster, or it was withdrawn.

        Raises:
            ApprovalError: the outcome or the scope is none that exists, or cannot be remembered; the page showed
                arguments with another ``digest``, or the rules have changed.
        """
        said, reach = cast("Outcome", outcome), cast("Remember | None", remember)
        if self._approval.answer(request_id, said, reason, reach, by="page", digest=digest):
            return True
        asked = self._waiting.answer(request_id, outcome, reason, digest)
        if asked is None:
            return False
        self._tell_decided(asked.id, asked.tool_name, outcome, reason)
        return True

    def asked(self, request: ApprovalRequest) -> None:
        """Tell the pages of a new question."""
        self._since[request.id] = time.time() * 1000
        self._hub.broadcast("approvals", self.pending())

    def decided(self, request: ApprovalRequest, outcome: str, reason: str | None) -> None:
        """Tell the pages that a question is over."""
        self._tell_decided(request.id, request.tool_name, outcome, reason)

    def _tell_decided(self, question_id: str, tool_name: str, outcome: str, reason: str | None) -> None:
        self._since.pop(question_id, None)
        ended = {"id": question_id, "toolName": tool_name, "outcome": outcome}
        self._hub.broadcast("decided", ended if reason is None else {**ended, "reason": reason})
        self._hub.broadcast("approvals", [item for item in self.pending() if item["id"] != question_id])

    def _waiting_question(self, agent: Agent, asked: ApprovalAsked) -> dict[str, Any]:
        """A question whose turn has ended as waiting, as the same card."""
        request = ApprovalRequest(
            asked.id,
            agent,
            asked.tool_name,
            NEVER,
            call_id=asked.call_id or None,
            reason=asked.reason or None,
            arguments=asked.arguments,
            arguments_digest=asked.arguments_digest or None,
        )
        return {**self._question(request), "waiting": True}

    def _question(self, request: ApprovalRequest) -> dict[str, Any]:
        scope = request.agent.scope
        log = getattr(request.agent, "session", None)
        find: FindTool = lambda name: self._ctx.tools.get(name, scope)  # noqa: E731
        question: dict[str, Any] = {
            "id": request.id,
            "toolName": request.tool_name,
            "purpose": request.purpose,
            "canBeRemembered": request.can_be_remembered,
            "agent": str(getattr(request.agent, "name", "") or (scope.name if scope is not None else "")),
            "since": self._since.get(request.id, 0),
        }
        if isinstance(log, EventLog):
            question["session"] = log.id
        if request.reason is not None:
            question["reason"] = request.reason
        if request.call_id is not None:
            question["callId"] = request.call_id
        if request.arguments is not UNSET:
            question["arguments"] = request.arguments
            question["argumentsDigest"] = request.arguments_digest
            view = view_of_call(find(request.tool_name), request.arguments)
            if view is not None:
                question["view"] = view_to_json(view)
        shown, was_cut = clip(question)
        # Nobody allows what they could not see: a cut question says so.
        return {**shown, "clipped": True} if was_cut else shown
