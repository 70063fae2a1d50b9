"""Questions and answers, and the hook points they travel on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeGuard

import msgspec
from msgspec import UNSET

from ...kernel.hooks import EmitHook, WaterfallHook

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal
    from ...tools.execution import AgentLike, ToolExecution

__all__ = [
    "APPROVAL_ASKED",
    "APPROVAL_DECIDED",
    "APPROVAL_REQUEST",
    "APPROVAL_SUSPENDED",
    "OUTCOMES",
    "ApprovalAnswer",
    "ApprovalRequest",
    "AskPolicy",
    "Outcome",
    "Remember",
    "draft_about",
    "is_outcome",
    "is_remember",
    "read_answer",
]

Outcome: TypeAlias = Literal["allowed-once", "rejected", "cancelled", "unavailable"]
"""How a question ends; the set is closed (HOST-82)."""

OUTCOMES: Final[tuple[Outcome, ...]] = ("allowed-once", "rejected", "cancelled", "unavailable")

Remember: TypeAlias = Literal["arguments", "tool"]
"""How far an answer reaches in its session: this tool with exactly these arguments, or this tool at all."""

AskPolicy: TypeAlias = Literal["ask", "never"]
"""Whether people are asked at all (HOST-90)."""


class ApprovalRequest(msgspec.Struct, frozen=True, eq=False):
    """A question to a person; immutable.

    Parameters:
        id: fresh for each question; what ``answer`` takes.
        agent: who wants to run the call; answerers of other scopes never see the question (HOST-89).
        tool_name: the tool.
        signal: the caller's own signal; when it fires the question is withdrawn.
        call_id: the model's id for the call.
        root_call_id: the outermost call, where a program makes this one.
        reason: why somebody is asked.
        arguments: the frozen arguments that will run; absent where the question is not about a call.
        arguments_digest: SHA-256 of the arguments' canonical text, in hex (D43).
        policy_digest: the digest of the rules in force; a grant counts only as long as they are the same.
        purpose: ``call``, or another word where a tool asks for something beside running,
            such as wider permissions.
        can_be_remembered: whether an answer may reach beyond this call; so only for the purpose
            ``call``, and only where a policy uses remembered answers.
    """

    id: str
    agent: AgentLike
    tool_name: str
    signal: AbortSignal
    call_id: str | None = None
    root_call_id: str | None = None
    reason: str | None = None
    arguments: Any = UNSET
    arguments_digest: str | None = None
    policy_digest: str | None = None
    purpose: str = "call"
    can_be_remembered: bool = False


def draft_about(
    execution: ToolExecution, agent: AgentLike, signal: AbortSignal, reason: str | None = None
) -> ApprovalRequest:
    """Begin a question about an execution; it has no id yet, and its digests are not made."""
    return ApprovalRequest(
        id="",
        agent=agent,
        tool_name=execution.name,
        signal=signal,
        call_id=execution.call_id,
        root_call_id=execution.root_call_id,
        reason=reason,
        arguments=execution.arguments,
    )


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """What came of a question.

    Parameters:
        outcome: one of :data:`OUTCOMES`; only ``allowed-once`` grants.
        reason: shown to the model after the fixed text of a refusal (D43).
        remember: how far the answer reaches beyond this call; None for this call only.
        by: who answered; where an answerer does not say, its own name is noted.
    """

    outcome: Outcome
    reason: str | None = None
    remember: Remember | None = None
    by: str | None = None


APPROVAL_REQUEST: WaterfallHook[ApprovalRequest, ApprovalAnswer] = WaterfallHook("approval/request")
"""Answer a question. Listener: ``(request, next) -> ApprovalAnswer``; ``next()`` asks the others."""

APPROVAL_ASKED: EmitHook[ApprovalRequest] = EmitHook("approval/asked")
"""Observe a question that now waits for somebody."""

APPROVAL_DECIDED: EmitHook[ApprovalRequest, ApprovalAnswer] = EmitHook("approval/decided")
"""Observe how a question ended; exactly once for each one asked or refused."""

APPROVAL_SUSPENDED: EmitHook[ApprovalRequest] = EmitHook("approval/suspended")
"""Observe that nobody has answered in time: the question stays open in the log, and its call is suspended."""


def is_outcome(value: object) -> TypeGuard[Outcome]:
    """Whether a value is one of the four outcomes."""
    return isinstance(value, str) and value in OUTCOMES


def is_remember(value: object) -> TypeGuard[Remember]:
    """Whether a value says how far an answer reaches."""
    return isinstance(value, str) and value in ("arguments", "tool")


def read_answer(value: object) -> ApprovalAnswer | None:
    """Read what an answerer gave: an answer, or a bare outcome; None where it is neither (HOST-87)."""
    if is_outcome(value):
        return ApprovalAnswer(value)
    if not isinstance(value, ApprovalAnswer):
        return None
    # What a plugin puts into the record is not checked by its type.
    outcome: object = value.outcome
    reason: object = value.reason
    remember: object = value.remember
    by: object = value.by
    fine = (
        is_outcome(outcome)
        and (reason is None or isinstance(reason, str))
        and (remember is None or is_remember(remember))
        and (by is None or isinstance(by, str))
    )
    return value if fine else None
