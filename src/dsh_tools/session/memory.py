"""Sessions in memory: for tests, and for runs that nobody wants to keep."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import SessionError
from .codec import encode_event
from .events import Event, SessionHeader
from .journal_memory import MemoryJournal
from .store import SessionSummary, StoredSession, check_session_id, ends_waiting, not_found, summary_title, unstored

__all__ = ["MemoryStore"]


class MemoryStore:
    """A :class:`SessionStore` that lasts as long as it is referred to."""

    def __init__(self) -> None:
        self._headers: dict[str, SessionHeader] = {}
        self._events: dict[str, list[Event]] = {}
        self._writers: dict[str, _MemoryWriter] = {}
        self._journal = MemoryJournal()

    def journal(self) -> MemoryJournal:
        """Return the journals of the sessions here."""
        return self._journal

    async def create(self, header: SessionHeader, events: Sequence[Event] = ()) -> _MemoryWriter:
        """Keep a new session; see :meth:`SessionStore.create`."""
        check_session_id(header.id)
        if header.id in self._headers:
            raise SessionError(f'session "{header.id}" exists already', "SESSION_ALREADY_EXISTS")
        kept = unstored(header.id, 0, (), events) if events else []
        self._headers[header.id] = header
        self._events[header.id] = kept
        return self._take(header.id)

    async def open(self, session_id: str) -> _MemoryWriter:
        """Take the right to append; see :meth:`SessionStore.open`."""
        self._require(session_id)
        return self._take(session_id)

    async def read(self, session_id: str) -> StoredSession:
        """Return a session as it is now; see :meth:`SessionStore.read`."""
        self._require(session_id)
        return StoredSession(self._headers[session_id], tuple(self._events[session_id]))

    async def list_sessions(self) -> list[SessionSummary]:
        """Return all sessions, the most recently used first."""
        rows = [self._summary(header) for header in self._headers.values()]
        return sorted(rows, key=lambda row: (-row.updated_at, row.header.id))

    async def delete(self, session_id: str) -> None:
        """Remove a session; see :meth:`SessionStore.delete`."""
        self._require(session_id)
        if session_id in self._writers:
            raise SessionError(f'session "{session_id}" has a writer', "SESSION_BUSY")
        del self._headers[session_id], self._events[session_id]
        await self._journal.forget(session_id)

    async def close(self) -> None:
        """Close the writers; the sessions stay, so that a test can look at them."""
        self._writers.clear()

    def put(self, writer: _MemoryWriter, events: Sequence[Event]) -> None:
        """Append a writer's batch."""
        session_id = writer.session_id
        if self._writers.get(session_id) is not writer:
            raise SessionError(f'session "{session_id}" is not open here', "SESSION_NOT_LIVE")
        kept = self._events[session_id]
        stored = [encode_event(event) for event in kept[events[0].seq :]]
        kept.extend(unstored(session_id, len(kept), stored, events))

    def release(self, writer: _MemoryWriter) -> None:
        """Give a writer's right back."""
        if self._writers.get(writer.session_id) is writer:
            del self._writers[writer.session_id]

    def _take(self, session_id: str) -> _MemoryWriter:
        if session_id in self._writers:
            raise SessionError(f'session "{session_id}" has a writer', "SESSION_BUSY")
        writer = self._writers[session_id] = _MemoryWriter(self, session_id)
        return writer

    def _require(self, session_id: str) -> None:
        if session_id not in self._headers:
            raise not_found(session_id)

    def _summary(self, header: SessionHeader) -> SessionSummary:
        events = self._events[header.id]
        first = next((event for event in events if event.type == "user/message"), None)
        updated = events[-1].time if events else header.created_at
        turn = next((event for event in reversed(events) if event.type in ("turn/start", "turn/end")), None)
        return SessionSummary(header, len(events), updated, summary_title(first), ends_waiting(turn))


class _MemoryWriter:
    """The right to append to one session of a :class:`MemoryStore`."""

    def __init__(self, store: MemoryStore, session_id: str) -> None:
        self._store = store
        self.session_id = session_id

    async def append(self, events: Sequence[Event]) -> None:
        if events:
            self._store.put(self, events)

    async def close(self) -> None:
        self._store.release(self)
