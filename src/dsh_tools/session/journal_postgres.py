"""Journals in PostgreSQL, in a table beside the sessions' own.

Entries go out in batches over a connection of their own, in their order; the program is told when its
batch is committed. Commits do not wait for the server's disk, so a server that loses its power may lose
the last ones; a run that is suspended waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ..code_mode import JournalStep
from ..errors import SessionError
from .journal import JournalContents, JournalRun, OpenRun, ParkedCall
from .journal_entries import announced_entry, contents_of, parked_entry, run_entry, state_entry, step_entry

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["PostgresJournal"]

_INSERT = "INSERT INTO dsh_journal (session, call, line) VALUES (%s, %s, %s)"


class PostgresJournal:
    """A :class:`Journal` in the database of a :class:`PostgresStore`.

    Args:
        connect: makes a connection to the database.
        prepare: makes the tables where they are missing.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[AsyncConnection[Any]]], prepare: Callable[[], Awaitable[None]]
    ) -> None:
        self._connect = connect
        self._prepare = prepare
        self._connection: AsyncConnection[Any] | None = None
        self._using = asyncio.Lock()
        self._waiting: list[tuple[tuple[str, int, str], bool, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def load(self, session_id: str) -> JournalContents:
        """Return what is kept of a session."""
        rows = await self._fetch("SELECT call, line FROM dsh_journal WHERE session = %s ORDER BY entry", session_id)
        return contents_of(rows)

    async def known(self, session_id: str) -> set[int]:
        """Return the places of all calls that something is kept of."""
        rows = await self._fetch("SELECT DISTINCT call FROM dsh_journal WHERE session = %s", session_id)
        return {call for (call,) in rows}

    def announce(self, session_id: str, call_key: int) -> None:
        """Note that a program is about to be run; nobody waits for it."""
        self.append(session_id, call_key, announced_entry())

    async def begin_run(
        self, session_id: str, call_key: int, run: JournalRun, *, drop_others: bool = False
    ) -> _PostgresRun:
        """Begin the journal of a program; see :meth:`Journal.begin_run`."""
        if drop_others:
            await self._execute("DELETE FROM dsh_journal WHERE session = %s AND call <> %s", session_id, call_key)
        await self.append(session_id, call_key, run_entry(run))
        return _PostgresRun(self, session_id, call_key, run, {})

    async def reopen_run(
        self, session_id: str, call_key: int, run: JournalRun, logged: Mapping[str, object | None]
    ) -> _PostgresRun:
        """Go on with the journal of a program; see :meth:`Journal.reopen_run`."""
        await self.append(session_id, call_key, state_entry("running"))
        return _PostgresRun(self, session_id, call_key, run, logged)

    async def park(self, session_id: str, call: ParkedCall) -> None:
        """Keep a call that waits; see :meth:`Journal.park`."""
        await self.append(session_id, call.call_key, parked_entry(call), durable=True)

    async def forget(self, session_id: str) -> None:
        """Remove all that is kept of a session."""
        await self._execute("DELETE FROM dsh_journal WHERE session = %s", session_id)

    async def close(self) -> None:
        """Write what waits, and close the connection."""
        while self._writer is not None:
            await asyncio.wait([self._writer])
        async with self._using:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()

    def append(self, session_id: str, call_key: int, line: str, *, durable: bool = False) -> asyncio.Future[None]:
        """Add an entry; the future is done once it is committed, after those of all earlier entries.

        With ``durable`` the server's disk has them all by then.
        """
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # An announcement is waited for by nobody, and its failure is that of the entry that follows.
        kept.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        self._waiting.append(((session_id, call_key, line), durable, kept))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name="journal-writer")
        return kept

    async def _write(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                try:
                    async with self._using:
                        db = await self._connected()
                        async with db.transaction(), db.cursor() as cursor:
                            if any(durable for _, durable, _ in batch):
                                await cursor.execute("SET LOCAL synchronous_commit TO on")
                            await cursor.executemany(_INSERT, [row for row, _, _ in batch])
                except Exception as error:
                    failure = _as_session_error(error)
                    for *_, kept in batch:
                        if not kept.done():
                            kept.set_exception(failure)
                else:
                    for *_, kept in batch:
                        if not kept.done():
                            kept.set_result(None)
        finally:
            self._writer = None

    async def _fetch(self, query: str, *parameters: object) -> list[Any]:
        async with self._using:
            try:
                db = await self._connected()
                return await (await db.execute(query.encode(), parameters)).fetchall()
            except Exception as error:
                raise _as_session_error(error) from error

    async def _execute(self, query: str, *parameters: object) -> None:
        async with self._using:
            try:
                db = await self._connected()
                await db.execute(query.encode(), parameters)
            except Exception as error:
                raise _as_session_error(error) from error

    async def _connected(self) -> AsyncConnection[Any]:
        if self._connection is None or self._connection.closed:
            await self._prepare()
            self._connection = await self._connect()
            await self._connection.execute("SET synchronous_commit TO off")
        return self._connection


class _PostgresRun(OpenRun):
    """The journal of one program in a :class:`PostgresJournal`."""

    def __init__(
        self,
        journal: PostgresJournal,
        session_id: str,
        call_key: int,
        run: JournalRun,
        logged: Mapping[str, object | None],
    ) -> None:
        super().__init__(session_id, call_key, run, logged)
        self._journal = journal

    def write(self, step: JournalStep) -> asyncio.Future[None] | None:
        return self._journal.append(self.session_id, self.call_key, step_entry(step).decode())

    async def end(self, state: Literal["suspended", "done"]) -> None:
        durable = state == "suspended"
        await self._journal.append(self.session_id, self.call_key, state_entry(state), durable=durable)

    def close(self) -> None:
        """Nothing is held."""


def _as_session_error(error: Exception) -> SessionError:
    if isinstance(error, SessionError):
        return error
    failure = SessionError(f"the journal of a program failed: {error}", "STORE_FAILED")
    failure.__cause__ = error
    return failure
