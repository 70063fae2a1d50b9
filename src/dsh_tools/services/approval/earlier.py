"""What an earlier turn, or an earlier process, left of the question about a call that is resumed (D34)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from .binding import Binding
from .history import AskedBefore
from .records import ApprovalAnswer, ApprovalRequest

if TYPE_CHECKING:
    from ...session.protocol import SessionLog

__all__ = ["Earlier", "earlier_of"]

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
    if before.outcome == "rejected" and asked.tool_name == request.tool_name:
        return _answered(request, before)
    if before.outcome != "allowed-once":
        return Earlier(request)
    if refusal is None:
        return _answered(request, before)
    _log.warning('call %s of tool "%s" is asked about again: %s', request.call_id, request.tool_name, refusal)
    reason = refusal if request.reason is None else f"{request.reason}; {refusal}"
    return Earlier(msgspec.structs.replace(request, reason=reason))


def _answered(request: ApprovalRequest, before: AskedBefore) -> Earlier:
    assert before.outcome is not None
    answer = ApprovalAnswer(before.outcome, before.reason, by=before.by)
    return Earlier(msgspec.structs.replace(request, id=before.asked.id), answer)
