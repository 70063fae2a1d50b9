"""Sessions in one SQLite file: the default store. Journals of programs stand in a folder beside it.

The file is in write-ahead mode: readers see the last committed batch and never wait for a writer.
Each batch is one transaction, so a process that dies leaves whole batches only. Writing and
reading have a thread each; the event loop never waits for the disk.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from ..errors import SessionError
from ..kernel.tasks import see_out
from .events import Event, SessionHeader
from .journal_file import FileJournal
from .lockfile import FileLock
from .sqlite_file import SqliteFile, Synchronous, as_session_error
from .store import SessionSummary, StoredSession, check_session_id

__all__ = ["SqliteStore"]

_T = TypeVar("_T")


class SqliteStore:
    """A :class:`SessionStore` in a SQLite file.

    Threads and connections start with the first use and end with :meth:`close`.

    Args:
        path: the file; it is made where it is missing. Lock files of open sessions stand beside it.
        synchronous: ``full`` (an acknowledged event survives a loss of power) or ``normal`` (it
            survives the death of the process; a loss of power may cost the last batches).
        read_only: never make or change the file, which must be there; for whoever only looks on.
    """

    def __init__(self, path: str | Path, *, synchronous: Synchronous = "full", read_only: bool = False) -> None:
        self._path = Path(path).absolute()
        self._writing = _Lane(self._path, synchronous, "dsh-session-write", read_only)
        self._reading = _Lane(self._path, synchronous, "dsh-session-read", read_only)
        self._writers: set[_SqliteWriter] = set()
        self._journal = None if read_only else FileJournal(self._path.with_name(self._path.name + ".programs"))

    def journal(self) -> FileJournal | None:
        """Return the journals of the sessions here; a store that only reads has none."""
        return self._journal

    async def create(self, header: SessionHeader, events: Sequence[Event] = ()) -> _SqliteWriter:
        """Keep a new session; see :meth:`SessionStore.create`."""
        check_session_id(header.id)
        writer = await self._take(header.id, lambda file: file.create(header, events))
        if writer is None:
            raise SessionError(f'session "{header.id}" exists already', "SESSION_ALREADY_EXISTS")
        return writer

    async def open(self, session_id: str) -> _SqliteWriter:
        """Take the right to append; see :meth:`SessionStore.open`."""
        writer = await self._take(session_id, lambda file: file.require(session_id))
        if writer is None:
            # A session that is not there is reported as such, even while somebody has its lock.
            await self._reading.run(lambda file: file.require(session_id))
            raise SessionError(f'session "{session_id}" has a writer', "SESSION_BUSY")
        return writer

    async def read(self, session_id: str) -> StoredSession:
        """Return a session as it is now; see :meth:`SessionStore.read`."""
        return await self._reading.run(lambda file: file.read(session_id))

    async def read_from(self, session_id: str, start: int) -> tuple[Event, ...]:
        """Return a session's events from the place ``start`` on, as they are now; for whoever follows it."""
        return await self._reading.run(lambda file: file.read_from(session_id, start))

    async def list_sessions(self) -> list[SessionSummary]:
        """Return all sessions, the most recently used first."""
        return await self._reading.run(lambda file: file.list_sessions())

    async def delete(self, session_id: str) -> None:
        """Remove a session; see :meth:`SessionStore.delete`."""
        writer = await self.open(session_id)
        try:
            await self._writing.run(lambda file: file.delete(session_id))
            if self._journal is not None:
                await self._journal.forget(session_id)
        finally:
            await writer.close()

    async def close(self) -> None:
        """Close the writers, the connections and the threads."""
        for writer in tuple(self._writers):
            await writer.close()
        if self._journal is not None:
            await self._journal.close()
        await self._reading.close()
        await self._writing.close()

    async def write(self, session_id: str, events: Sequence[Event]) -> None:
        """Store a writer's batch."""
        await self._writing.run(lambda file: file.append(session_id, events))

    def forget(self, writer: _SqliteWriter) -> None:
        """Stop keeping a writer that is closed."""
        self._writers.discard(writer)

    async def _take(self, session_id: str, prepare: Callable[[SqliteFile], None]) -> _SqliteWriter | None:
        """Lock a session and prepare it; None where somebody else has it."""
        name = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        lock = FileLock(self._path.with_name(f"{self._path.name}.{name}.lock"))
        with as_session_error(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not lock.acquire():
                return None
        try:
            await self._writing.run(prepare)
        except BaseException:
            lock.release()
            raise
        writer = _SqliteWriter(self, session_id, lock)
        self._writers.add(writer)
        return writer


class _SqliteWriter:
    """The right to append to one session of a :class:`SqliteStore`: a file lock."""

    def __init__(self, store: SqliteStore, session_id: str, lock: FileLock) -> None:
        self._store = store
        self._lock: FileLock | None = lock
        self.session_id = session_id

    async def append(self, events: Sequence[Event]) -> None:
        if self._lock is None:
            raise SessionError(f'session "{self.session_id}" is not open here', "SESSION_NOT_LIVE")
        if events:
            await self._store.write(self.session_id, events)

    async def close(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            self._store.forget(self)
            lock.release()


class _Lane:
    """A thread with a connection of its own; work is done in the order in which it came."""

    def __init__(self, path: Path, synchronous: Synchronous, name: str, read_only: bool) -> None:
        self._path = path
        self._read_only = read_only
        self._synchronous: Synchronous = synchronous
        self._name = name
        self._thread: ThreadPoolExecutor | None = None
        self._file: SqliteFile | None = None
        self._closed = False

    async def run(self, work: Callable[[SqliteFile], _T]) -> _T:
        """Run ``work(file)`` in the thread. A caller that is cancelled waits for the work to end."""
        if self._closed:
            raise SessionError(f"the session store {self._path} is closed", "STORE_FAILED")
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self._name)
        loop = asyncio.get_running_loop()
        return await see_out(loop.run_in_executor(self._thread, lambda: work(self._connected())))

    async def close(self) -> None:
        """Wait for the work that is queued, close the connection, end the thread."""
        self._closed = True
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._disconnect)
            thread.shutdown(wait=True)

    def _connected(self) -> SqliteFile:
        if self._file is None:
            self._file = SqliteFile(self._path, self._synchronous, read_only=self._read_only)
        return self._file

    def _disconnect(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
