"""Switching asking on or off for one session (HOST-90)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import ApprovalError
from ...messages import MessageSource, user_message
from ...session.events import ApprovalPolicy
from ..agents import inbox_of, session_of

if TYPE_CHECKING:
    from ...tools.execution import AgentLike
    from .history import ApprovalHistory
    from .records import AskPolicy

__all__ = ["check_policy", "switch"]

_NOTICES = {
    "never": "Approvals were switched off: calls that need one are rejected without asking.",
    "ask": "Approvals were switched on: calls that need one are put to a person.",
}


def check_policy(policy: AskPolicy) -> None:
    """Refuse what is no policy.

    Raises:
        ApprovalError: the policy is neither ``ask`` nor ``never``.
    """
    if policy not in _NOTICES:
        raise ApprovalError(f'policy must be "ask" or "never", got {policy!r}', "INVALID_POLICY")


def switch(agent: AgentLike, policy: AskPolicy, history: ApprovalHistory) -> None:
    """Put a policy in force for an agent's session, in its log where it has one, and tell the agent."""
    log = session_of(agent)
    if log is None:
        history.policy = policy
    else:
        log.append(ApprovalPolicy.event_type, ApprovalPolicy(policy))
    inbox = inbox_of(agent)
    if inbox is not None:
        inbox.inject(user_message(_NOTICES[policy], MessageSource("plugin", "approval")))
