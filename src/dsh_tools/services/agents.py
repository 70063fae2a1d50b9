"""What services need of agents, beside their scope: a session log and an inbox, where they have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from ..messages import UserMessage
    from ..session.protocol import SessionLog

__all__ = ["AgentInbox", "inbox_of", "session_of"]


class AgentInbox(Protocol):
    """Where messages wait for an agent (HOST-190)."""

    def inject(self, message: UserMessage, /) -> object:
        """Add a message to the next step, whenever that is; an idle agent stays idle."""
        ...

    def steer(self, message: UserMessage, /) -> object:
        """Add a message to the next step; an idle agent begins a turn."""
        ...


def session_of(agent: object) -> SessionLog | None:
    """Return the agent's session log, if it keeps one."""
    return cast("SessionLog | None", getattr(agent, "session", None))


def inbox_of(agent: object) -> AgentInbox | None:
    """Return the agent's inbox, if it has one."""
    return cast("AgentInbox | None", getattr(agent, "inbox", None))
