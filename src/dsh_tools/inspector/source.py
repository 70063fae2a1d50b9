"""Where the page's sessions come from: a live application, a store that others write, or an export."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ..errors import ConfigError, SessionError
from ..session import (
    Event,
    MemoryStore,
    Sessions,
    SessionStore,
    SessionSummary,
    SqliteStore,
    StoredSession,
    is_sqlite_store,
    read_jsonl,
)

__all__ = ["LiveSource", "Source", "StoreSource", "is_store", "open_source"]


class Source(Protocol):
    """Sessions to look at."""

    label: str
    """What the page calls it."""

    is_live: bool
    """Whether the application runs in this process, so that changes are told; otherwise they are looked for."""

    sessions: Sessions | None
    """The same sessions for writing, so that questions in them can be answered; None only looks on."""

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

    def how_to_go_on(self, session_id: str) -> str:
        """Say how a session that waits goes on, where nothing here can go on with it."""
        ...

    async def close(self) -> None:
        """Let go of what was opened for looking."""
        ...


class LiveSource:
    """The sessions of the application that runs in this process."""

    is_live = True

    def __init__(self, sessions: Sessions, label: str = "live application") -> None:
        self.label = label
        self.sessions: Sessions | None = sessions
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

    def how_to_go_on(self, session_id: str) -> str:
        """The application has to do it."""
        return "its application opens it and calls agent.resume()"

    async def close(self) -> None:
        """Nothing was opened."""


class StoreSource:
    """The sessions in a store that others write; only read here.

    Parameters:
        store: reads them; closed with this.
        label: what the page calls it.
        option: what tells the command ``session resume`` where they are, `` --store FILE`` or nothing; None where
            they cannot go on.
        sessions: the same sessions for writing, so that questions in them can be answered.
    """

    is_live = False

    def __init__(
        self,
        store: SessionStore,
        label: str,
        *,
        option: str | None = None,
        sessions: Sessions | None = None,
    ) -> None:
        self.label = label
        self.sessions = sessions
        self._store = store
        self._option = option

    async def summaries(self) -> list[SessionSummary]:
        """Return the sessions in the store."""
        return await self._store.list_sessions()

    async def read(self, session_id: str) -> StoredSession:
        """Return one session as it is now."""
        return await self._store.read(session_id)

    async def events(self, session_id: str, start: int) -> Sequence[Event]:
        """Return events that stand in the store now."""
        if isinstance(self._store, SqliteStore):
            return await self._store.read_from(session_id, start)
        try:
            return (await self._store.read(session_id)).events[start:]
        except SessionError:
            return ()

    def how_to_go_on(self, session_id: str) -> str:
        """The command that goes on with a session of the store."""
        if self._option is None:
            return "an exported session cannot go on; answer it where its store is"
        return f"dsh-tools session resume {session_id}{self._option} --model NAME"

    async def close(self) -> None:
        """Close the store."""
        await self._store.close()


async def open_source(path: Path, sessions: Sessions | None = None) -> StoreSource:
    """Open a file to look at: a session store, or one exported session (JSON lines).

    Parameters:
        path: the file.
        sessions: an application's own sessions where it keeps them in this store; questions can be answered then.

    Raises:
        ConfigError: there is no such file.
        SessionError: ``CORRUPT_LOG``: an export that cannot be read.
    """
    if await asyncio.to_thread(is_store, path):
        return StoreSource(SqliteStore(path, read_only=True), path.name, option=f" --store {path}", sessions=sessions)
    session = await asyncio.to_thread(read_jsonl, path)
    store = MemoryStore()
    writer = await store.create(session.header, session.events)
    await writer.close()
    return StoreSource(store, path.name)


def is_store(path: Path) -> bool:
    """Whether a file is a session store, and not an export.

    Raises:
        ConfigError: there is no such file.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: is not a file")
    return is_sqlite_store(path)
