"""What waits to be said to an agent: for its next step, or for its next turn (HOST-190 to 192)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import UNSET

from ..content import Content
from ..errors import SessionError
from ..messages import MessageSource, UserMessage, user_message
from ..session import EventLog
from ..session.events import InboxClaim, InboxInsert, InboxRemove

__all__ = ["Inbox"]


class Inbox:
    """An agent's waiting messages; each change is logged before it counts.

    Parameters:
        log: where the messages are kept, so that a resumed session finds them waiting.
        wake: called when a message came that an idle agent should act on.
    """

    def __init__(self, log: EventLog, wake: Callable[[], None]) -> None:
        self._log = log
        self._wake = wake
        self._open = True
        self._numbers = itertools.count(len(log.events))

    def followup(self, message: str | Content | UserMessage) -> str:
        """Begin a turn of its own with this message, after the present one. Returns the message's id."""
        message_id = self._insert("next-turn", message)
        self._wake()
        return message_id

    def steer(self, message: str | Content | UserMessage) -> str:
        """Say something at the next step; an idle agent begins a turn. Returns the message's id."""
        message_id = self._insert("next-step", message)
        self._wake()
        return message_id

    def inject(self, message: str | Content | UserMessage) -> str:
        """Add something to the next step, whenever that is; an idle agent stays idle."""
        if isinstance(message, str):
            message = user_message(message, MessageSource("plugin"))
        return self._insert("next-step", message)

    def remove(self, *ids: str) -> None:
        """Take messages back.

        Raises:
            SessionError: one of them is not waiting.
        """
        self._log.append(InboxRemove.event_type, InboxRemove(ids))

    def clear(self) -> None:
        """Take everything back."""
        waiting = [*self.waiting("next-step"), *self.waiting("next-turn")]
        if waiting:
            self.remove(*(_id_of(message) for message in waiting))

    def waiting(self, which: Literal["next-step", "next-turn"]) -> list[UserMessage]:
        """Return the messages of one list, oldest first."""
        return self._log.pending.waiting(which)

    def claim(self, *, turn_boundary: bool) -> list[UserMessage]:
        """Take what the next step gets: all that waits for a step, and at a turn's start one message more."""
        claimed = self.waiting("next-turn")[:1] if turn_boundary else []
        claimed += self.waiting("next-step")
        if claimed:
            self._log.append(InboxClaim.event_type, InboxClaim(tuple(_id_of(message) for message in claimed)))
        return claimed

    def close(self) -> None:
        """Refuse further messages: the agent is going away."""
        self._open = False

    def _insert(self, which: Literal["next-step", "next-turn"], message: str | Content | UserMessage) -> str:
        if not self._open:
            raise SessionError("the agent is disposed and takes no more messages", "AGENT_DISPOSED")
        record = message if isinstance(message, UserMessage) else user_message(message)
        if record.id is UNSET:
            record = msgspec.structs.replace(record, id=f"message-{next(self._numbers)}")
        self._log.append(InboxInsert.event_type, InboxInsert(which, record))
        return _id_of(record)


def _id_of(message: UserMessage) -> str:
    assert message.id is not UNSET
    return message.id
