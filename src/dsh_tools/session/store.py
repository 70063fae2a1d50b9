"""The seam between a log and wherever it is kept.

A store keeps headers and events; it knows nothing of what they mean. Each session has at most one
writer at a time, in all processes; readers never wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from ..content import TextBlock
from ..errors import SessionError
from ..messages import UserMessage, as_message
from .codec import encode_event
from .events import Event, SessionHeader

__all__ = [
    "SessionStore",
    "SessionSummary",
    "SessionWriter",
    "StoredSession",
    "check_session_id",
    "ends_waiting",
    "not_found",
    "summary_title",
    "unstored",
]

_TITLE_LENGTH = 80
_ID_LENGTH = 200


class StoredSession(msgspec.Struct, frozen=True):
    """A session as it is in a store: its header, and its events in order."""

    header: SessionHeader
    events: tuple[Event, ...]


class SessionSummary(msgspec.Struct, frozen=True, rename="camel"):
    """One row of a list of sessions.

    Parameters:
        header: the session's header.
        length: how many events it has.
        updated_at: when the last one was appended, in milliseconds since the epoch.
        title: the first line of the first thing a person said in it, or ``""``.
        waiting: its last turn waits for a person (D34).
    """

    header: SessionHeader
    length: int
    updated_at: int
    title: str = ""
    waiting: bool = False


class SessionWriter(Protocol):
    """The right to append to one session; nobody else has it until it is closed."""

    async def append(self, events: Sequence[Event]) -> None:
        """Store a batch in one transaction; when this returns, the batch survives the process.

        Handing in again what is stored already is fine, so that a batch whose fate is unknown
        can simply be sent again.

        Raises:
            SessionError: ``SESSION_CONFLICT`` where other events are stored at these places,
                ``SESSION_NOT_LIVE`` after ``close``, ``STORE_FAILED`` for everything else; then
                nothing of the batch is stored, or all of it.
        """
        ...

    async def close(self) -> None:
        """Give the right back; closing again does nothing."""
        ...


class SessionStore(Protocol):
    """A place where sessions are kept."""

    async def create(self, header: SessionHeader, events: Sequence[Event] = ()) -> SessionWriter:
        """Keep a new session, with its first events, and return its writer.

        Raises:
            SessionError: ``SESSION_ALREADY_EXISTS`` (HOST-114), ``INVALID_SESSION_ID``, ``STORE_FAILED``.
        """
        ...

    async def open(self, session_id: str) -> SessionWriter:
        """Take the right to append to a session.

        Raises:
            SessionError: ``SESSION_NOT_FOUND`` (HOST-114); ``SESSION_BUSY`` while another writer,
                here or in another process, has the right.
        """
        ...

    async def read(self, session_id: str) -> StoredSession:
        """Return a session as it is now; needs no right and waits for nobody.

        Raises:
            SessionError: ``SESSION_NOT_FOUND`` (HOST-114), ``CORRUPT_LOG``, ``STORE_FAILED``.
        """
        ...

    async def list_sessions(self) -> list[SessionSummary]:
        """Return all sessions, the most recently used first."""
        ...

    async def delete(self, session_id: str) -> None:
        """Remove a session and its events.

        Raises:
            SessionError: ``SESSION_NOT_FOUND`` or ``SESSION_BUSY``.
        """
        ...

    async def close(self) -> None:
        """Let go of every connection, thread and lock; writers that are open are closed."""
        ...


def check_session_id(session_id: str) -> None:
    """Check an id before it becomes a key: 1 to 200 printable characters.

    Raises:
        SessionError: ``INVALID_SESSION_ID``.
    """
    if not 1 <= len(session_id) <= _ID_LENGTH or not session_id.isprintable():
        raise SessionError(f"invalid session id {session_id!r}", "INVALID_SESSION_ID")


def not_found(session_id: str) -> SessionError:
    """Return the error for a session that is not in the store."""
    return SessionError(f'no session "{session_id}"', "SESSION_NOT_FOUND")


def unstored(session_id: str, length: int, stored: Sequence[str], events: Sequence[Event]) -> list[Event]:
    """Return the part of a batch that is yet to be stored.

    Args:
        session_id: whose batch it is.
        length: how many events are stored.
        stored: the lines that are stored from the batch's first ``seq`` on.
        events: the batch, contiguous.

    Raises:
        SessionError: ``SESSION_CONFLICT``: the batch leaves a gap, or other events are in its place.
    """
    first = events[0].seq
    if first > length:
        raise SessionError(
            f'session "{session_id}" has {length} events; cannot store number {first}', "SESSION_CONFLICT"
        )
    for event, line in zip(events, stored, strict=False):
        if encode_event(event) != line:
            raise SessionError(
                f'session "{session_id}" holds another event number {event.seq}: it has a second writer',
                "SESSION_CONFLICT",
            )
    if len(stored) > len(events):
        raise SessionError(
            f'session "{session_id}" has {length} events, more than its writer knows of', "SESSION_CONFLICT"
        )
    return list(events[len(stored) :])


def ends_waiting(event: Event | None) -> bool:
    """Whether this, the last ``turn/start`` or ``turn/end`` of a session, leaves it waiting for a person."""
    return event is not None and event.type == "turn/end" and event.data["reason"]["kind"] == "waiting"


def summary_title(event: Event | None) -> str:
    """Return the first line of a user message, cut to 80 characters."""
    if event is None:
        return ""
    try:
        message = as_message(event.data)
    except msgspec.ValidationError:
        return ""
    for block in message.content if isinstance(message, UserMessage) else ():
        if type(block) is TextBlock and block.text.strip():
            line = block.text.strip().splitlines()[0]
            return line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1] + "…"
    return ""
