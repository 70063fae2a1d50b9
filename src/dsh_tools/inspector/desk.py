"""The approval inbox: what is asked now, what waits for an answer, and answering it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET

from ..errors import ApprovalError, SessionError
from ..session import EventLog
from ..tools import view_of_call
from ..tools.cards import view_to_json
from .rows import clip

if TYPE_CHECKING:
    from ..kernel import Context, Scope
    from ..services import ApprovalRequest
    from ..services.approval import Approval, Outcome, Remember
    from .hub import Hub
    from .rows import FindTool
    from .waiting import WaitingQuestion, WaitingTurns

__all__ = ["Desk"]

PATIENCE_SECONDS = 10.0
"""How long an answer waits for a session that goes on with an earlier one: it puts the question again, or ends."""
_PAUSE_SECONDS = 0.05
_TOO_LATE = ("ALREADY_ANSWERED", "NOT_WAITING", "UNKNOWN_QUESTION")


class Desk:
    """Shows the open questions of all agents to all pages, and takes their answers.

    It stays open while the server restarts, so nobody loses a question by that.

    Parameters:
        ctx: the context whose approval service is answered, if it has one; the desk closes with it.
        hub: where changes are told.
        waiting: the turns that wait beyond their questions.
        fallback: finds the definition for a card of a tool that the application does not have.
    """

    def __init__(self, ctx: Context, hub: Hub, waiting: WaitingTurns, fallback: FindTool | None = None) -> None:
        self._approval = cast("Approval | None", ctx.get("approval"))
        self._ctx = ctx
        self._hub = hub
        self._waiting = waiting
        self._fallback = fallback
        self._since: dict[str, float] = {}
        if self._approval is not None:
            self._approval.open_desk()

    @property
    def answers(self) -> bool:
        """Whether anything can be answered from here."""
        return self._approval is not None or self._waiting.answers

    def pending(self) -> list[dict[str, Any]]:
        """Return what can be answered now, oldest first, with a card of what would run; then what waits."""
        asked = [self._asked_now(request) for request in self._asked()]
        return asked + [self._waiting_one(one) for one in self._open() if one.answerable and one.question.waits]

    def elsewhere(self) -> list[dict[str, Any]]:
        """Return the other open questions in stored sessions: asked by a process that still runs, or has died."""
        return [self._waiting_one(one) for one in self._open() if not (one.answerable and one.question.waits)]

    def _asked(self) -> tuple[ApprovalRequest, ...]:
        return () if self._approval is None else self._approval.pending

    def _open(self) -> list[WaitingQuestion]:
        asked_now = {request.id for request in self._asked()}
        return [one for one in self._waiting.questions() if one.question.asked.id not in asked_now]

    async def answer(
        self, request_id: str, outcome: str, reason: str | None, remember: str | None, digest: str | None = None
    ) -> str | None:
        """Answer a question; None where somebody else was faster, or it was withdrawn.

        Returns:
            ``answered``, for a call that was held up; for a turn that waits ``goes-on``, or ``kept`` where
            nothing here can go on with it.

        Raises:
            ApprovalError: the outcome or the scope is none that exists, or cannot be remembered; the page showed
                arguments with another ``digest``, or the rules have changed.
            SessionError: the turn that waits cannot go on; nothing was answered.
        """
        said, reach = cast("Outcome", outcome), cast("Remember | None", remember)
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            approval = self._approval
            if approval is not None and approval.answer(request_id, said, reason, reach, by="page", digest=digest):
                return "answered"
            waiting = self._waiting.find(request_id)
            if waiting is None:
                return None
            if not self._waiting.is_going_on(waiting.question.header.id):
                break
            if time.monotonic() > until:
                raise SessionError(
                    "its session goes on with another answer; this question comes back when it waits again",
                    "SESSION_BUSY",
                )
            await asyncio.sleep(_PAUSE_SECONDS)
        if remember is not None:
            raise ApprovalError("the answer to a turn that waits cannot be remembered", "INVALID_ANSWER")
        try:
            done = await self._waiting.answer(waiting, outcome, reason, digest)
        except (ApprovalError, SessionError) as error:
            if error.code not in _TOO_LATE:
                raise
            self.refresh()
            return None
        self._tell_decided(request_id, waiting.question.asked.tool_name, outcome, reason)
        return done

    def refresh(self) -> None:
        """Tell the pages what is open now."""
        self._hub.broadcast("approvals", self.pending())

    def asked(self, request: ApprovalRequest) -> None:
        """Tell the pages of a new question."""
        self._since[request.id] = time.time() * 1000
        self.refresh()

    def decided(self, request: ApprovalRequest, outcome: str, reason: str | None) -> None:
        """Tell the pages that a question is over."""
        self._tell_decided(request.id, request.tool_name, outcome, reason)

    def _tell_decided(self, question_id: str, tool_name: str, outcome: str, reason: str | None) -> None:
        self._since.pop(question_id, None)
        ended = {"id": question_id, "toolName": tool_name, "outcome": outcome}
        self._hub.broadcast("decided", ended if reason is None else {**ended, "reason": reason})
        self._hub.broadcast("approvals", [item for item in self.pending() if item["id"] != question_id])

    # ── cards ─────────────────────────────────────────────────────────────────

    def _asked_now(self, request: ApprovalRequest) -> dict[str, Any]:
        scope = request.agent.scope
        log = getattr(request.agent, "session", None)
        question: dict[str, Any] = {
            "id": request.id,
            "toolName": request.tool_name,
            "purpose": request.purpose,
            "canBeRemembered": request.can_be_remembered,
            "agent": str(getattr(request.agent, "name", "") or (scope.name if scope is not None else "")),
            "since": self._since.get(request.id, 0),
            "answerable": True,
        }
        if isinstance(log, EventLog):
            question["session"] = log.id
        about = {"reason": request.reason, "callId": request.call_id, "argumentsDigest": request.arguments_digest}
        return self._card(question, about, request.arguments, scope)

    def _waiting_one(self, one: WaitingQuestion) -> dict[str, Any]:
        """A question whose turn has ended as waiting, or that was asked elsewhere, as the same card."""
        asked = one.question.asked
        question: dict[str, Any] = {
            "id": asked.id,
            "toolName": asked.tool_name,
            "purpose": "call" if asked.purpose is UNSET else asked.purpose,
            "canBeRemembered": False,
            "agent": "" if one.agent is None else one.agent.name,
            "since": one.question.since,
            "session": one.question.header.id,
            "waiting": one.question.waits,
            "goesOn": one.goes_on,
            "answerable": one.answerable,
        }
        if not one.goes_on:
            question["goOnWith"] = self._waiting.how_to_go_on(one)
        about = {"reason": asked.reason, "callId": asked.call_id, "argumentsDigest": asked.arguments_digest}
        return self._card(question, about, asked.arguments, None if one.agent is None else one.agent.scope)

    def _card(
        self, question: dict[str, Any], about: dict[str, Any], arguments: Any, scope: Scope | None
    ) -> dict[str, Any]:
        question |= {key: value for key, value in about.items() if value is not None and value is not UNSET}
        if arguments is UNSET:
            question.pop("argumentsDigest", None)
        else:
            question["arguments"] = arguments
            name = question["toolName"]
            definition = self._ctx.tools.get(name, scope)
            if definition is None and self._fallback is not None:
                definition = self._fallback(name)
            view = view_of_call(definition, arguments)
            if view is not None:
                question["view"] = view_to_json(view)
        shown, was_cut = clip(question)
        # Nobody allows what they could not see: a cut question says so.
        return {**shown, "clipped": True} if was_cut else shown
