"""Agents for tests of the layers below the agent loop: a scope, and a session log if wanted."""

from __future__ import annotations

from dsh_tools.kernel.scope import Scope
from dsh_tools.messages import UserMessage
from dsh_tools.session.events import Completed, SessionHeader, StepEnd, StepStart, TurnEnd, TurnStart
from dsh_tools.session.log import EventLog


class LoneAgent:
    """Makes calls and keeps no log."""

    def __init__(self, scope: Scope | None = None) -> None:
        self.scope = scope


class NotedInbox:
    """Notes what services send to an agent."""

    def __init__(self) -> None:
        self.injected: list[UserMessage] = []
        self.steered: list[UserMessage] = []

    def inject(self, message: UserMessage) -> None:
        self.injected.append(message)

    def steer(self, message: UserMessage) -> None:
        self.steered.append(message)


class LoggedAgent(LoneAgent):
    """Makes calls inside the turns of a session log, and notes what is injected into it."""

    def __init__(self, scope: Scope | None = None, session: str = "s1", *, in_turn: bool = True) -> None:
        super().__init__(scope)
        self.session = EventLog(SessionHeader(session, 0))
        self.inbox = NotedInbox()
        if in_turn:
            self.start_turn()

    def start_turn(self) -> None:
        turn = self.session.last_turn + 1
        self.session.append(TurnStart.event_type, TurnStart(turn))
        self.session.append(StepStart.event_type, StepStart(turn, 1))

    def end_turn(self) -> None:
        turn = self.session.last_turn
        self.session.append(StepEnd.event_type, StepEnd(turn, 1))
        self.session.append(TurnEnd.event_type, TurnEnd(turn, Completed()))

    def events(self, prefix: str) -> list[tuple[str, object]]:
        """The types and data of the events whose type begins with ``prefix``."""
        return [(event.type, event.data) for event in self.session.events if event.type.startswith(prefix)]
