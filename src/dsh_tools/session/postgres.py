"""Sessions in PostgreSQL, for several machines that share them. Needs the extra ``[postgres]``.

One connection writes and holds the writers' locks; reads have a connection each. The locks are
the server's advisory locks: they end with the connection, hence with the process.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ..errors import SessionError
from .codec import decode_event, decode_header, encode_event, encode_header
from .events import Event, SessionHeader
from .journal_postgres import PostgresJournal
from .store import (
    SessionSummary,
    StoredSession,
    check_session_id,
    ends_waiting,
    not_found,
    summary_title,
    unstored,
)

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["PostgresStore"]

_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE dsh_sessions (
            id TEXT PRIMARY KEY,
            created_at BIGINT NOT NULL,
            header TEXT NOT NULL
        )""",
        # Lines are TEXT and not JSONB: JSONB refuses escaped NULs and lone surrogates, which are data.
        """CREATE TABLE dsh_events (
            session TEXT NOT NULL REFERENCES dsh_sessions (id) ON DELETE CASCADE,
            seq BIGINT NOT NULL,
            time BIGINT NOT NULL,
            type TEXT NOT NULL,
            line TEXT NOT NULL,
            PRIMARY KEY (session, seq)
        )""",
    ),
    (
        """CREATE TABLE dsh_journal (
            entry BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            session TEXT NOT NULL REFERENCES dsh_sessions (id) ON DELETE CASCADE,
            call BIGINT NOT NULL,
            line TEXT NOT NULL
        )""",
        "CREATE INDEX dsh_journal_session ON dsh_journal (session, entry)",
    ),
)
"""One entry for each version of the schema, oldest first; further tables come as further entries."""

_SCHEMA_LOCK = 7_233_188_022_601
"""The advisory lock under which the schema is brought up to date."""

_LIST = """SELECT header,
    (SELECT MAX(seq) + 1 FROM dsh_events WHERE session = id),
    (SELECT time FROM dsh_events WHERE session = id ORDER BY seq DESC LIMIT 1),
    (SELECT line FROM dsh_events WHERE session = id AND type = 'user/message' ORDER BY seq LIMIT 1),
    (SELECT line FROM dsh_events WHERE session = id AND type IN ('turn/start', 'turn/end') ORDER BY seq DESC LIMIT 1)
FROM dsh_sessions"""


class PostgresStore:
    """A :class:`SessionStore` in a PostgreSQL database.

    A connection that is lost is made again at the next use. The locks of open sessions are then
    taken again before anything is stored; a session that somebody else took meanwhile fails with
    ``SESSION_BUSY`` or ``SESSION_CONFLICT``.

    Args:
        conninfo: a libpq connection string or address. Tables are made where they are missing.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: AsyncConnection[Any] | None = None
        self._turn = asyncio.Lock()
        self._held: set[str] = set()
        self._writers: dict[str, _PostgresWriter] = {}
        self._closed = False
        self._journal = PostgresJournal(self._connect, self._prepare)

    def journal(self) -> PostgresJournal:
        """Return the journals of the sessions here."""
        return self._journal

    async def create(self, header: SessionHeader, events: Sequence[Event] = ()) -> _PostgresWriter:
        """Keep a new session; see :meth:`SessionStore.create`."""
        check_session_id(header.id)
        async with self._writing() as db:
            if not await self._lock(db, header.id):
                raise _exists(header.id)
            try:
                async with db.transaction():
                    added = await db.execute(
                        "INSERT INTO dsh_sessions VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                        (header.id, header.created_at, encode_header(header)),
                    )
                    if added.rowcount == 0:
                        raise _exists(header.id)
                    await _insert(db, header.id, unstored(header.id, 0, (), events) if events else [])
            except BaseException:
                await self._unlock(db, header.id)
                raise
            return self._writer(header.id)

    async def open(self, session_id: str) -> _PostgresWriter:
        """Take the right to append; see :meth:`SessionStore.open`."""
        async with self._writing() as db:
            await _read_header(db, session_id)
            if not await self._lock(db, session_id):
                raise _busy(session_id)
            return self._writer(session_id)

    async def read(self, session_id: str) -> StoredSession:
        """Return a session as it is now; see :meth:`SessionStore.read`."""
        async with self._reading() as db, db.transaction():
            await db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            header = await _read_header(db, session_id)
            cursor = await db.execute("SELECT line FROM dsh_events WHERE session = %s ORDER BY seq", (session_id,))
            lines = [line for (line,) in await cursor.fetchall()]
        return StoredSession(header, tuple(decode_event(line) for line in lines))

    async def list_sessions(self) -> list[SessionSummary]:
        """Return all sessions, the most recently used first."""
        async with self._reading() as db:
            rows = await (await db.execute(_LIST)).fetchall()
        found: list[SessionSummary] = []
        for line, length, updated, first, turn in rows:
            header = decode_header(line)
            title = summary_title(None if first is None else decode_event(first))
            waiting = ends_waiting(None if turn is None else decode_event(turn))
            found.append(SessionSummary(header, length or 0, updated or header.created_at, title, waiting))
        return sorted(found, key=lambda row: (-row.updated_at, row.header.id))

    async def delete(self, session_id: str) -> None:
        """Remove a session; see :meth:`SessionStore.delete`."""
        writer = await self.open(session_id)
        try:
            async with self._writing() as db:
                await db.execute("DELETE FROM dsh_sessions WHERE id = %s", (session_id,))
        finally:
            await writer.close()

    async def close(self) -> None:
        """Close the writers and the connection, which gives every lock back."""
        await self._journal.close()
        self._closed = True
        self._writers.clear()
        async with self._turn:
            connection, self._connection = self._connection, None
            self._held.clear()
            if connection is not None:
                await connection.close()

    async def write(self, writer: _PostgresWriter, events: Sequence[Event]) -> None:
        """Store a writer's batch, or the part of it that is missing."""
        session_id = writer.session_id
        if self._writers.get(session_id) is not writer:
            raise SessionError(f'session "{session_id}" is not open here', "SESSION_NOT_LIVE")
        async with self._writing() as db:
            # Gone with the connection, if that was made anew since the writer was opened.
            if session_id not in self._held and not await self._lock(db, session_id):
                raise _busy(session_id)
            async with db.transaction():
                length = await _length(db, session_id)
                stored = await _lines_from(db, session_id, events[0].seq) if events[0].seq < length else []
                await _insert(db, session_id, unstored(session_id, length, stored, events))

    async def release(self, writer: _PostgresWriter) -> None:
        """Give a writer's right back."""
        session_id = writer.session_id
        if self._writers.get(session_id) is not writer:
            return
        del self._writers[session_id]
        if session_id in self._held:
            async with self._writing() as db:
                await self._unlock(db, session_id)

    def _writer(self, session_id: str) -> _PostgresWriter:
        writer = self._writers[session_id] = _PostgresWriter(self, session_id)
        return writer

    async def _lock(self, db: AsyncConnection[Any], session_id: str) -> bool:
        # The server's lock admits its own connection twice, so ours comes first.
        if session_id in self._held:
            return False
        cursor = await db.execute("SELECT pg_try_advisory_lock(%s)", (_lock_key(session_id),))
        row = await cursor.fetchone()
        if row is None or not row[0]:
            return False
        self._held.add(session_id)
        return True

    async def _unlock(self, db: AsyncConnection[Any], session_id: str) -> None:
        self._held.discard(session_id)
        if not db.closed:
            await db.execute("SELECT pg_advisory_unlock(%s)", (_lock_key(session_id),))

    @asynccontextmanager
    async def _writing(self) -> AsyncGenerator[AsyncConnection[Any], None]:
        """Give out the one connection that writes, to one user at a time."""
        async with self._turn, _store_errors():
            if self._connection is None or self._connection.closed:
                self._held.clear()
                self._connection = await self._connect()
                await _migrate(self._connection)
            yield self._connection

    @asynccontextmanager
    async def _reading(self) -> AsyncGenerator[AsyncConnection[Any], None]:
        if self._connection is None:
            await self._prepare()
        async with _store_errors():
            db = await self._connect()
            try:
                yield db
            finally:
                await db.close()

    async def _prepare(self) -> None:
        """The first use of the store makes the tables."""
        async with self._writing():
            pass

    async def _connect(self) -> AsyncConnection[Any]:
        if self._closed:
            raise SessionError("the session store is closed", "STORE_FAILED")
        # Imported late: the package needs the extra.
        from psycopg import AsyncConnection

        return await AsyncConnection.connect(self._conninfo, autocommit=True)


class _PostgresWriter:
    """The right to append to one session of a :class:`PostgresStore`: an advisory lock."""

    def __init__(self, store: PostgresStore, session_id: str) -> None:
        self._store = store
        self.session_id = session_id

    async def append(self, events: Sequence[Event]) -> None:
        if events:
            await self._store.write(self, events)

    async def close(self) -> None:
        await self._store.release(self)


@asynccontextmanager
async def _store_errors() -> AsyncGenerator[None, None]:
    """Turn the driver's errors into ours."""
    # Imported late: the package needs the extra.
    from psycopg import Error, IntegrityError

    try:
        yield
    except IntegrityError as error:
        raise SessionError(f"the session was changed by somebody else: {error}", "SESSION_CONFLICT") from error
    except Error as error:
        raise SessionError(f"the session store failed: {error}", "STORE_FAILED") from error


async def _migrate(db: AsyncConnection[Any]) -> None:
    async with db.transaction():
        await db.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
        await db.execute("CREATE TABLE IF NOT EXISTS dsh_schema (version INTEGER NOT NULL)")
        row = await (await db.execute("SELECT MAX(version) FROM dsh_schema")).fetchone()
        version: int = 0 if row is None or row[0] is None else row[0]
        if version > len(_MIGRATIONS):
            raise SessionError("the database was written by a newer version", "STORE_FAILED")
        for number, statements in enumerate(_MIGRATIONS[version:], version + 1):
            for statement in statements:
                await db.execute(statement.encode())
            await db.execute("INSERT INTO dsh_schema VALUES (%s)", (number,))


async def _read_header(db: AsyncConnection[Any], session_id: str) -> SessionHeader:
    cursor = await db.execute("SELECT header FROM dsh_sessions WHERE id = %s", (session_id,))
    row = await cursor.fetchone()
    if row is None:
        raise not_found(session_id)
    return decode_header(row[0])


async def _length(db: AsyncConnection[Any], session_id: str) -> int:
    cursor = await db.execute("SELECT MAX(seq) FROM dsh_events WHERE session = %s", (session_id,))
    row = await cursor.fetchone()
    return 0 if row is None or row[0] is None else row[0] + 1


async def _lines_from(db: AsyncConnection[Any], session_id: str, seq: int) -> list[str]:
    cursor = await db.execute(
        "SELECT line FROM dsh_events WHERE session = %s AND seq >= %s ORDER BY seq", (session_id, seq)
    )
    return [line for (line,) in await cursor.fetchall()]


async def _insert(db: AsyncConnection[Any], session_id: str, events: Sequence[Event]) -> None:
    rows = [(session_id, event.seq, event.time, event.type, encode_event(event)) for event in events]
    if rows:
        async with db.cursor() as cursor:
            await cursor.executemany("INSERT INTO dsh_events VALUES (%s, %s, %s, %s, %s)", rows)


def _lock_key(session_id: str) -> int:
    """Return the advisory lock's number: 63 bits of a digest of the id."""
    digest = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _exists(session_id: str) -> SessionError:
    return SessionError(f'session "{session_id}" exists already', "SESSION_ALREADY_EXISTS")


def _busy(session_id: str) -> SessionError:
    return SessionError(f'session "{session_id}" has a writer', "SESSION_BUSY")
