"""One question while it waits, and its two entries in the log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ...session.events import ApprovalAsked, ApprovalDecided
from .records import ApprovalAnswer, ApprovalRequest

if TYPE_CHECKING:
    from ...session.protocol import SessionLog

__all__ = ["Question", "record_asked", "record_decided"]


class Question:
    """A question that waits, and the answer that the first who answers sets."""

    def __init__(self, request: ApprovalRequest, *, may_be_suspended: bool = False) -> None:
        self.request = request
        self.may_be_suspended = may_be_suspended
        self.answer: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        self.waits_for_desk = False

    def settle(self, answer: ApprovalAnswer) -> bool:
        """Set the answer; say whether it was the first."""
        if self.answer.done():
            return False
        self.answer.set_result(answer)
        return True


def record_asked(log: SessionLog | None, request: ApprovalRequest) -> None:
    """Log that somebody is asked; an agent without a log leaves no trace."""
    if log is None:
        return
    log.append(
        ApprovalAsked.event_type,
        ApprovalAsked(
            id=request.id,
            tool_name=request.tool_name,
            call_id=_or_unset(request.call_id),
            reason=_or_unset(request.reason),
            arguments=request.arguments,
            arguments_digest=_or_unset(request.arguments_digest),
            policy_digest=_or_unset(request.policy_digest),
            purpose=UNSET if request.purpose == "call" else request.purpose,
        ),
    )


def record_decided(log: SessionLog | None, request: ApprovalRequest, answer: ApprovalAnswer) -> None:
    """Log how the question ended."""
    if log is None:
        return
    log.append(
        ApprovalDecided.event_type,
        ApprovalDecided(
            id=request.id,
            outcome=answer.outcome,
            reason=_or_unset(answer.reason),
            remember=_or_unset(answer.remember),
            by=_or_unset(answer.by),
        ),
    )


def _or_unset(value: Any) -> Any:
    return UNSET if value is None else value
