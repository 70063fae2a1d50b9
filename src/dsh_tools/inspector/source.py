"""Where the page's sessions come from: a live application, a store that others write, or an export."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ..errors import ConfigError, SessionError
from ..session import Event, MemoryStore, Sessions, SessionSummary, SqliteStore, StoredSession, read_jsonl

__all__ = ["LiveSource", "Source", "StoreSource", "open_source"]


class Source(Protocol):
    """Sessions to look at."""

    label: str
    """What the page calls it."""

    is_live: bool
    """Whether the application runs in this process, so that changes are told; otherwise they are looked for."""

    async def summaries(self) -> list[SessionSummary]:
        """Return the sessions, the most recently used first."""
        ...

    async def read(self, session_id: str) -> StoredSession:
        """Return one session as it is now.

        Raises:
            SessionError: ``SESSION_NOT_FOUND``, ``CORRUPT_LOG``, ``STORE_FAILED``.
        """
        ...

    async def events(self, session_id: str, start: int) -> Sequence[Event]:
        """Return a session's events from a place on; none where there is no such session."""
        ...

    async def close(self) -> None:
        """Let go of what was opened for looking."""
        ...


class LiveSource:
    """The sessions of the application that runs in this process."""

    is_live = True

    def __init__(self, sessions: Sessions, label: str = "live application") -> None:
        self.label = label
        self._sessions = sessions

    async def summaries(self) -> list[SessionSummary]:
        """Return the sessions in the application's store."""
        return await self._sessions.list()

    async def read(self, session_id: str) -> StoredSession:
        """Return one session; a live one from memory."""
        return await self._sessions.read(session_id)

    async def events(self, session_id: str, start: int) -> Sequence[Event]:
        """Return events; those of a live session from memory."""
        log = self._sessions.live(session_id)
        if log is not None:
            return log.events[start:]
        try:
            return (await self._sessions.read(session_id)).events[start:]
        except SessionError:
            return ()

    async def close(self) -> None:
        """Nothing was opened."""


class StoreSource:
    """The sessions in a file; only read, never changed."""

    is_live = False

    def __init__(self, store: SqliteStore | MemoryStore, label: str) -> None:
        self.label = label
        self._store = store

    async def summaries(self) -> list[SessionSummary]:
        """Return the sessions in the file."""
        return await self._store.list_sessions()

    async def read(self, session_id: str) -> StoredSession:
        """Return one session as it is now."""
        return await self._store.read(session_id)

    async def events(self, session_id: str, start: int) -> Sequence[Event]:
        """Return events that stand in the file now."""
        if isinstance(self._store, SqliteStore):
            return await self._store.read_from(session_id, start)
        try:
            return (await self._store.read(session_id)).events[start:]
        except SessionError:
            return ()

    async def close(self) -> None:
        """Close the file."""
        await self._store.close()


async def open_source(path: Path) -> StoreSource:
    """Open a file to look at: a session store, or one exported session (JSON lines).

    Raises:
        ConfigError: there is no such file.
        SessionError: ``CORRUPT_LOG``: an export that cannot be read.
    """
    if await asyncio.to_thread(_is_store, path):
        return StoreSource(SqliteStore(path, read_only=True), path.name)
    session = await asyncio.to_thread(read_jsonl, path)
    store = MemoryStore()
    writer = await store.create(session.header, session.events)
    await writer.close()
    return StoreSource(store, path.name)


def _is_store(path: Path) -> bool:
    if not path.is_file():
        raise ConfigError(f"{path}: is not a file")
    with path.open("rb") as file:
        return file.read(15) == b"SQLite format 3"
