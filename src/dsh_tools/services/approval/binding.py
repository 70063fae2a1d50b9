"""What an answer is bound to: this session, this call, these arguments, and the rules that were in force.

A grant for anything else is no grant. A refusal needs no such care: it stands whatever has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

if TYPE_CHECKING:
    from ...session.events import ApprovalAsked

__all__ = ["Binding"]


class Binding(msgspec.Struct, frozen=True):
    """What a question was about, or a call is about now.

    Parameters:
        session: the id of the session whose log has the question; None for an agent without one.
        tool_name: the tool.
        call_id: the call; None where the question is about no call.
        arguments_digest: the digest of the frozen arguments that were shown, and would run.
        policy_digest: the digest of the rules in force; None where nobody declared any.
    """

    session: str | None
    tool_name: str
    call_id: str | None
    arguments_digest: str | None
    policy_digest: str | None

    @classmethod
    def of_question(cls, session: str | None, asked: ApprovalAsked) -> Binding:
        """Return what a question in a log is bound to."""
        return cls(
            session,
            asked.tool_name,
            None if asked.call_id is UNSET else asked.call_id,
            None if asked.arguments_digest is UNSET else asked.arguments_digest,
            None if asked.policy_digest is UNSET else asked.policy_digest,
        )

    def refusal(self, now: Binding) -> str | None:
        """Say why an answer to this question does not count for what is to run ``now``; None where it does."""
        if self.session != now.session:
            return f"the answer was given in session {self.session}, not in {now.session}"
        if self.call_id != now.call_id:
            return f'the answer was given for call "{self.call_id}", not for "{now.call_id}"'
        if self.tool_name != now.tool_name:
            return f'the answer was given for tool "{self.tool_name}", not for "{now.tool_name}"'
        if self.arguments_digest != now.arguments_digest:
            return (
                "the answer was given for other arguments: "
                f"{short(self.arguments_digest)} was shown, {short(now.arguments_digest)} would run"
            )
        if self.policy_digest != now.policy_digest:
            return (
                "the answer was given under other rules: "
                f"{short(self.policy_digest)} was in force, {short(now.policy_digest)} is now"
            )
        return None


def short(digest: str | None) -> str:
    """Return the first characters of a digest, for a message."""
    return "none" if digest is None else digest[:12]
