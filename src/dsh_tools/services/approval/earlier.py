"""What an earlier turn, or an earlier process, left of the questions about a call that is resumed (D34)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from .binding import Binding
from .history import AskedBefore
from .records import ApprovalAnswer, ApprovalRequest

if TYPE_CHECKING:
    from ...session.protocol import SessionLog

__all__ = ["Earlier", "answer_of", "as_asked", "earlier_of", "refusal_of"]

_log = logging.getLogger("dsh_tools")


class Earlier(msgspec.Struct, frozen=True):
    """How to go on with a question that was put before.

    Parameters:
        request: the question to put now; under its old id where it is open.
        answer: what was answered and counts; then nobody is asked.
        is_logged: the question is in the log already.
        withdrawn: an open question about something else than what would run now; it is to be withdrawn.
    """

    request: ApprovalRequest
    answer: ApprovalAnswer | None = None
    is_logged: bool = False
    withdrawn: ApprovalRequest | None = None


def earlier_of(log: SessionLog, request: ApprovalRequest, before: AskedBefore | None) -> Earlier:
    """Judge what was asked before about the same call.

    A refusal stands. A grant counts for exactly what was shown, under the rules that were in force; otherwise
    the question is put anew, and says why.
    """
    if before is None:
        return Earlier(request)
    asked = before.asked
    now = Binding(log.id, request.tool_name, request.call_id, request.arguments_digest, request.policy_digest)
    refusal = Binding.of_question(log.id, asked).refusal(now)
    if before.outcome is None:
        again = msgspec.structs.replace(request, id=asked.id)
        return Earlier(again, is_logged=True) if refusal is None else Earlier(request, withdrawn=again)
    refused = refusal_of(request.tool_name, before)
    if refused is not None:
        return Earlier(request, refused)
    if before.outcome != "allowed-once":
        return Earlier(request)
    if refusal is None:
        return Earlier(request, answer_of(before))
    _log.warning('call %s of tool "%s" is asked about again: %s', request.call_id, request.tool_name, refusal)
    reason = refusal if request.reason is None else f"{request.reason}; {refusal}"
    return Earlier(msgspec.structs.replace(request, reason=reason))


def refusal_of(tool_name: str, before: AskedBefore) -> ApprovalAnswer | None:
    """Return the refusal that a question ended in; it stands whatever the rules are now."""
    return answer_of(before) if before.outcome == "rejected" and before.asked.tool_name == tool_name else None


def answer_of(before: AskedBefore) -> ApprovalAnswer | None:
    """Return what a question ended in; None while it is open."""
    return None if before.outcome is None else ApprovalAnswer(before.outcome, before.reason, by=before.by)


def as_asked(draft: ApprovalRequest, before: AskedBefore) -> ApprovalRequest:
    """Return an earlier question about the call that a new one is drafted for, with all that it was bound to."""
    asked = before.asked
    return msgspec.structs.replace(
        draft,
        id=asked.id,
        tool_name=asked.tool_name,
        reason=None if asked.reason is UNSET else asked.reason,
        arguments=asked.arguments,
        arguments_digest=None if asked.arguments_digest is UNSET else asked.arguments_digest,
        policy_digest=None if asked.policy_digest is UNSET else asked.policy_digest,
    )
