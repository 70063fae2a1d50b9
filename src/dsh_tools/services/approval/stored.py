"""Answering a question of a session that waits, from whatever process has its store (D34)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import UNSET

from ...errors import ApprovalError, SessionError
from ...session.events import ApprovalAsked, ApprovalDecided
from .binding import Binding
from .history import asked_of_data

if TYPE_CHECKING:
    from ...session import EventLog, Sessions

__all__ = ["answer_question"]

_PATIENCE_SECONDS = 5.0
_PAUSE_SECONDS = 0.02


async def answer_question(
    sessions: Sessions,
    session_id: str,
    question_id: str,
    outcome: Literal["allowed-once", "rejected"],
    reason: str | None = None,
    *,
    digest: str | None = None,
    call_id: str | None = None,
    policy: str | None = None,
    by: str = "store",
) -> None:
    """Answer an open question in a session's log; durable when this returns, and acted on when it is resumed.

    The session is not resumed, and need not be live here. Of several processes that answer at once, one wins:
    the answer is given under the session's lock.

    Parameters:
        sessions: where the session is kept.
        session_id: the session.
        question_id: the question, as the log names it.
        outcome: ``allowed-once`` or ``rejected``.
        reason: shown to the model after a refusal.
        digest: the digest of the arguments that whoever answers was shown; None does not compare.
        call_id: the call that they were shown; None does not compare.
        policy: the digest of the rules that are in force where they answer (``ctx.tools.policy_digest()``); None
            leaves that to the resumed call, which does not take a grant under other rules.
        by: who answers, for the record.

    Raises:
        ApprovalError: ``UNKNOWN_QUESTION``; ``ALREADY_ANSWERED``, by which outcome; ``OTHER_ARGUMENTS``;
            ``STALE_ANSWER`` for another call, or a grant under other rules; ``INVALID_ANSWER``; ``TURN_RUNS`` where
            the session's turn is running here, and asks by itself; ``NOT_WAITING`` where that turn is over.
        SessionError: ``SESSION_NOT_FOUND``; ``SESSION_BUSY`` while another process holds the session.
    """
    if outcome not in ("allowed-once", "rejected"):
        raise ApprovalError(f"{outcome!r} is no answer to a question that waits", "INVALID_ANSWER")
    decided = ApprovalDecided(question_id, outcome, UNSET if reason is None else reason, by=by)
    shown = _Shown(digest, call_id, policy)
    live = sessions.live(session_id)
    if live is not None:
        if live.turn is not None:
            raise ApprovalError("the session's turn is running; answer where it asks", "TURN_RUNS")
        await _append(live, decided, shown)
        return
    log = await _opened(sessions, session_id)
    try:
        await _append(log, decided, shown)
    finally:
        await log.close()


async def _opened(sessions: Sessions, session_id: str) -> EventLog:
    """Take the session's lock; whoever else answers holds it for a moment only."""
    deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
    while True:
        try:
            return await sessions.open(session_id, repair=False)
        except SessionError as error:
            if error.code != "SESSION_BUSY" or asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)


class _Shown(msgspec.Struct, frozen=True):
    """What whoever answers had before their eyes; None for what they don't say."""

    digest: str | None
    call_id: str | None
    policy: str | None

    def check(self, session: str, asked: ApprovalAsked, outcome: str) -> None:
        """Refuse an answer to something else than was asked, and a grant under other rules."""
        bound = Binding.of_question(session, asked)
        now = msgspec.structs.replace(
            bound,
            **{
                name: given
                for name, given in (
                    ("arguments_digest", self.digest),
                    ("call_id", self.call_id),
                    ("policy_digest", self.policy if outcome == "allowed-once" else None),
                )
                if given is not None
            },
        )
        refusal = bound.refusal(now)
        if refusal is not None:
            other_arguments = bound.arguments_digest != now.arguments_digest
            raise ApprovalError(refusal, "OTHER_ARGUMENTS" if other_arguments else "STALE_ANSWER")


async def _append(log: EventLog, decided: ApprovalDecided, shown: _Shown) -> None:
    asked = None
    for event in log.events:
        if event.type == ApprovalAsked.event_type and event.data["id"] == decided.id:
            asked = asked_of_data(event.data)
        elif event.type == ApprovalDecided.event_type and event.data["id"] == decided.id:
            raise ApprovalError(f"the question was answered already: {event.data['outcome']}", "ALREADY_ANSWERED")
    if asked is None:
        raise ApprovalError(f'session "{log.id}" has no question "{decided.id}"', "UNKNOWN_QUESTION")
    if not log.is_waiting and log.turn is None:
        raise ApprovalError("the turn that asked is over; nothing waits for this answer", "NOT_WAITING")
    shown.check(log.id, asked, decided.outcome)
    log.append(ApprovalDecided.event_type, decided)
    await log.flush()
