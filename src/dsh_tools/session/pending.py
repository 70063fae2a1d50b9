"""The messages that wait for a step or a turn, as the log tells them (HOST-126, 191, 192)."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET

from ..errors import SessionError
from ..messages import UserMessage
from .events import InboxClaim, InboxEdit, InboxInsert, InboxRemove

__all__ = ["PendingMessages"]


class PendingMessages:
    """Two lists of waiting messages: for the next step, and for the next turn.

    Each change is an event that is logged before it is applied, so a resumed session finds the
    same messages waiting. Ids are unique across both lists.
    """

    def __init__(self) -> None:
        self._lists: dict[str, Literal["next-step", "next-turn"]] = {}
        self._messages: dict[str, UserMessage] = {}

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._messages

    def waiting(self, which: Literal["next-step", "next-turn"]) -> list[UserMessage]:
        """Return the messages of one list, oldest first."""
        return [self._messages[key] for key, where in self._lists.items() if where == which]

    def check(self, record: msgspec.Struct | None) -> None:
        """Check a change before it is logged.

        Raises:
            SessionError: ``INVALID_INBOX``: an id is missing, taken, or not waiting.
        """
        if isinstance(record, InboxInsert):
            message_id = _id_of(record.message)
            if message_id in self._messages:
                raise SessionError(f'a message "{message_id}" is waiting already', "INVALID_INBOX")
        elif isinstance(record, InboxEdit):
            self._require(_id_of(record.message))
        elif isinstance(record, (InboxRemove, InboxClaim)):
            if len(set(record.ids)) != len(record.ids):
                raise SessionError("a message id is named twice", "INVALID_INBOX")
            for message_id in record.ids:
                self._require(message_id)

    def apply(self, record: msgspec.Struct | None) -> None:
        """Apply a change that is in the log."""
        if isinstance(record, InboxInsert):
            message_id = _id_of(record.message)
            self._messages[message_id] = record.message
            self._lists[message_id] = record.list
        elif isinstance(record, InboxEdit):
            self._messages[_id_of(record.message)] = record.message
        elif isinstance(record, (InboxRemove, InboxClaim)):
            for message_id in record.ids:
                del self._messages[message_id], self._lists[message_id]

    def _require(self, message_id: str) -> None:
        if message_id not in self._messages:
            raise SessionError(f'no message "{message_id}" is waiting', "INVALID_INBOX")


def _id_of(message: UserMessage) -> str:
    if message.id is UNSET or not message.id:
        raise SessionError("a waiting message needs an id", "INVALID_INBOX")
    return message.id
