"""Journals in a SQLite file of their own, beside the file of the sessions.

Every entry is one transaction that is made at once, on the event loop's thread: it costs some ten
microseconds, where a detour over a thread would cost several times that, and the sessions' own file is
locked while its writer waits for the disk. Entries survive the death of the process, kill -9 included;
a loss of power may cost the last ones, since the disk is waited for only when a run is suspended, and
never on the loop's thread.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..code_mode import JournalStep, ProgramFacts
from ..errors import SessionError
from ..json_value import to_json_text
from .codec import read_line
from .journal import JournalRun, ParkedCall, RunState
from .sqlite_file import as_session_error

__all__ = ["SqliteJournal"]

_BUSY_SECONDS = 10.0
_VERSION = 1
# Small pages: an entry rewrites one, and most entries are short.
_PAGE_BYTES = 1024
# After so many entries they are moved from the write-ahead log into the file.
_CHECKPOINT_ENTRIES = 20_000

_TABLES = (
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY,
        session TEXT NOT NULL,
        call INTEGER NOT NULL,
        facts TEXT NOT NULL,
        seed TEXT NOT NULL,
        started_at INTEGER NOT NULL,
        state TEXT NOT NULL,
        UNIQUE (session, call)
    )""",
    # The key is the run's id in the upper 32 bits, and the step's number in the lower ones.
    """CREATE TABLE steps (
        key INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        arguments TEXT NOT NULL,
        state TEXT NOT NULL,
        delivery INTEGER,
        at INTEGER,
        outcome TEXT,
        inherited TEXT
    )""",
    """CREATE TABLE parked (
        session TEXT NOT NULL,
        call INTEGER NOT NULL,
        line TEXT NOT NULL,
        PRIMARY KEY (session, call)
    ) WITHOUT ROWID""",
)
_WRITE = "INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_READ = """SELECT key, kind, name, arguments, state, delivery, at, outcome, inherited FROM steps
    WHERE key >= ? AND key < ? ORDER BY key"""


class SqliteJournal:
    """A :class:`Journal` in a SQLite file; used on one event loop's thread.

    Args:
        path: the file; it is made at the first use.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._since_checkpoint = 0
        self._checkpointing: asyncio.Future[None] | None = None

    async def open_run(
        self, session_id: str, call_key: int, run: JournalRun, logged: Mapping[str, object | None]
    ) -> _SqliteRun:
        """Begin or open the journal of a program; see :meth:`Journal.open_run`."""
        with as_session_error(self._path):
            found = self._run_row(session_id, call_key)
            if found is None:
                cursor = self._connected().execute(
                    "INSERT INTO runs (session, call, facts, seed, started_at, state) VALUES (?, ?, ?, ?, ?, ?)",
                    (session_id, call_key, _text(run.facts), run.seed, run.started_at, "running"),
                )
                run_id = cursor.lastrowid
                assert run_id is not None
            else:
                run_id, run = found
                self._connected().execute("UPDATE runs SET state = 'running' WHERE id = ?", (run_id,))
                run = msgspec.structs.replace(run, steps=self._steps(run_id))
        return _SqliteRun(self, self._connected(), run_id, run, logged)

    async def find_run(self, session_id: str, call_key: int) -> JournalRun | None:
        """Return what is known of a program."""
        with as_session_error(self._path):
            found = self._run_row(session_id, call_key)
            return None if found is None else msgspec.structs.replace(found[1], steps=self._steps(found[0]))

    async def park(self, session_id: str, call: ParkedCall) -> None:
        """Keep a call that waits; see :meth:`Journal.park`."""
        line = to_json_text(
            [call.name, call.arguments, call.arguments_digest, call.schema, call.state]  # pyright: ignore[reportArgumentType]
        )
        with as_session_error(self._path):
            self._connected().execute(
                "INSERT OR REPLACE INTO parked VALUES (?, ?, ?)", (session_id, call.call_key, line)
            )
        await self.checkpoint()

    async def parked(self, session_id: str) -> list[ParkedCall]:
        """Return the parked calls of a session."""
        with as_session_error(self._path):
            rows = self._connected().execute(
                "SELECT call, line FROM parked WHERE session = ? ORDER BY call", (session_id,)
            )
            return [ParkedCall(call, *_values(line)) for call, line in rows]

    async def known(self, session_id: str) -> set[int]:
        """Return the places of all calls that are known."""
        with as_session_error(self._path):
            rows = self._connected().execute(
                "SELECT call FROM runs WHERE session = ? UNION SELECT call FROM parked WHERE session = ?",
                (session_id, session_id),
            )
            return {call for (call,) in rows}

    async def forget(self, session_id: str) -> None:
        """Remove all that is kept of a session."""
        if not self._path.exists():
            return
        with as_session_error(self._path):
            db = self._connected()
            db.execute("BEGIN IMMEDIATE")
            try:
                for (run_id,) in db.execute("SELECT id FROM runs WHERE session = ?", (session_id,)).fetchall():
                    db.execute("DELETE FROM steps WHERE key >= ? AND key < ?", (run_id << 32, (run_id + 1) << 32))
                for table in ("runs", "parked"):
                    db.execute(f"DELETE FROM {table} WHERE session = ?", (session_id,))
                db.execute("COMMIT")
            except BaseException:
                db.execute("ROLLBACK")
                raise

    async def checkpoint(self) -> None:
        """Wait until the disk has everything; in a thread, so that the loop goes on."""
        while self._checkpointing is not None:
            # One that runs already may have begun before our entry.
            await asyncio.wait([self._checkpointing])
        await asyncio.shield(self._begin_checkpoint())

    async def close(self) -> None:
        """Close the file, and wait for the disk."""
        while self._checkpointing is not None:
            await asyncio.wait([self._checkpointing])
        db, self._db = self._db, None
        if db is not None:
            # The last connection moves its entries into the file: not on the loop's thread.
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, db.close))

    def wrote(self) -> None:
        """Count an entry, and begin to move the entries into the file where there are many."""
        self._since_checkpoint += 1
        if self._since_checkpoint >= _CHECKPOINT_ENTRIES and self._checkpointing is None:
            self._begin_checkpoint()

    def _begin_checkpoint(self) -> asyncio.Future[None]:
        self._since_checkpoint = 0
        running = asyncio.get_running_loop().run_in_executor(None, _checkpoint, self._path)
        self._checkpointing = running
        running.add_done_callback(self._checkpointed)
        return running

    def _checkpointed(self, running: asyncio.Future[None]) -> None:
        self._checkpointing = None
        if not running.cancelled():
            running.exception()

    def _run_row(self, session_id: str, call_key: int) -> tuple[int, JournalRun] | None:
        row = (
            self._connected()
            .execute(
                "SELECT id, facts, seed, started_at, state FROM runs WHERE session = ? AND call = ?",
                (session_id, call_key),
            )
            .fetchone()
        )
        if row is None:
            return None
        run_id, facts, seed, started_at, state = row
        found: RunState = state
        return run_id, JournalRun(_facts(facts), seed, started_at, found)

    def _steps(self, run_id: int) -> list[JournalStep]:
        rows = self._connected().execute(_READ, (run_id << 32, (run_id + 1) << 32))
        return [
            JournalStep(
                key & 0xFFFFFFFF, kind, _name_of(name), arguments, state, delivery, at, _value(outcome), _value(inherited)
            )
            for key, kind, name, arguments, state, delivery, at, outcome, inherited in rows
        ]

    def _connected(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = _connect(self._path)
        return self._db


class _SqliteRun:
    """The journal of one program in a :class:`SqliteJournal`."""

    def __init__(
        self,
        journal: SqliteJournal,
        db: sqlite3.Connection,
        run_id: int,
        run: JournalRun,
        logged: Mapping[str, object | None],
    ) -> None:
        self._journal = journal
        self._db = db
        self._id = run_id
        self._base = run_id << 32
        self.seed = run.seed
        self.started_at = run.started_at
        self.steps: Sequence[JournalStep] = run.steps
        self.logged = logged

    def write(self, step: JournalStep) -> asyncio.Future[None] | None:
        outcome, inherited = step.outcome, step.inherited
        try:
            self._db.execute(
                _WRITE,
                (
                    self._base | step.number,
                    step.kind,
                    _name_column(step.name),
                    step.arguments,
                    step.state,
                    step.delivery,
                    step.at,
                    None if outcome is None else to_json_text(outcome),
                    None if inherited is None else to_json_text(inherited),
                ),
            )
        except sqlite3.Error as error:
            raise SessionError(f"the journal of a program could not be kept: {error}", "STORE_FAILED") from error
        self._journal.wrote()
        return None

    async def end(self, state: Literal["suspended", "done"]) -> None:
        try:
            self._db.execute("UPDATE runs SET state = ? WHERE id = ?", (state, self._id))
        except sqlite3.Error as error:
            raise SessionError(f"the journal of a program could not be kept: {error}", "STORE_FAILED") from error
        if state == "suspended":
            await self._journal.checkpoint()


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Made by us rather than by SQLite, because it may hold what others should not read.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    # It is closed in another thread than the one that uses it, once that one has finished.
    db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        _make_tables(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _make_tables(db: sqlite3.Connection, path: Path) -> None:
    if _version(db) == _VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have made them.
        version = _version(db)
        if version > _VERSION:
            raise SessionError(f"{path} was written by a newer version", "STORE_FAILED")
        if version == 0:
            for statement in _TABLES:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {_VERSION}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _version(db: sqlite3.Connection) -> int:
    return db.execute("PRAGMA user_version").fetchone()[0]


def _checkpoint(path: Path) -> None:
    """Move the entries into the file and wait for the disk; over a connection of this thread's own."""
    db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    finally:
        db.close()


def _text(facts: ProgramFacts) -> str:
    return to_json_text([facts.language, facts.runtime, facts.program, dict(facts.tools)])


def _facts(line: str) -> ProgramFacts:
    return ProgramFacts(*_values(line))


def _value(column: str | None) -> Any:
    return None if column is None else read_line(column)


def _values(line: str) -> Sequence[Any]:
    values: Any = read_line(line)
    return values


def _name_column(name: str) -> str:
    """A name as the file takes it: one with other than plain characters, half ones say, as JSON text."""
    return name if name.isascii() and not name.startswith('"') else to_json_text(name)


def _name_of(column: str) -> str:
    name: Any = read_line(column) if column.startswith('"') else column
    return name
