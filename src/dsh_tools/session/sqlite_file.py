"""The SQL of the SQLite store: one connection, used in one thread, every change one transaction.

Nothing here opens the file itself. SQLite's locks are the process's: they all go when any descriptor of the file is
closed, and then another process that closes its last connection takes the write-ahead log for its own and deletes it.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from ..errors import SessionError
from .codec import decode_event, decode_header, encode_event, encode_header
from .events import Event, SessionHeader
from .held_files import hold
from .store import SessionSummary, StoredSession, ends_waiting, not_found, summary_title, unstored

__all__ = ["SqliteFile", "Synchronous", "as_session_error", "is_sqlite_store"]

Synchronous = Literal["full", "normal"]

_log = logging.getLogger("dsh_tools")

_BUSY_SECONDS = 10.0

_making = threading.Lock()
"""Held while a file is made and its descriptor is open; so no connection has been made to it by then."""

_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE sessions (
            id TEXT PRIMARY KEY,
            created_at INTEGER NOT NULL,
            header TEXT NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE events (
            session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            time INTEGER NOT NULL,
            type TEXT NOT NULL,
            line TEXT NOT NULL,
            PRIMARY KEY (session, seq)
        ) WITHOUT ROWID""",
    ),
)
"""One entry for each version of the schema, oldest first; ``user_version`` counts those applied.

Further tables of the store (a journal, say) come as further entries.
"""


class SqliteFile:
    """A connection to a store's file; every method runs in the thread that made it.

    Args:
        path: the file; it and its folder are made where they are missing, readable by their owner only.
        synchronous: ``full`` survives a loss of power, ``normal`` only a loss of the process.
        read_only: make and change nothing; the file must be there.
    """

    def __init__(self, path: Path, synchronous: Synchronous, *, read_only: bool = False) -> None:
        self._path = path
        self._release = hold(path)
        try:
            self._db = self._connected(path, synchronous, read_only)
        except BaseException:
            self._release()
            raise

    @staticmethod
    def _connected(path: Path, synchronous: Synchronous, read_only: bool) -> sqlite3.Connection:
        with as_session_error(path):
            if read_only:
                _check_access(path, os.R_OK)
                return _connect_to_read(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            _make(path)
            db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
            try:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute(f"PRAGMA synchronous = {'FULL' if synchronous == 'full' else 'NORMAL'}")
                db.execute("PRAGMA foreign_keys = ON")
                _migrate(db, path)
            except BaseException:
                db.close()
                raise
            return db

    def close(self) -> None:
        """Close the connection; the last one folds the write-ahead log into the file."""
        self._db.close()
        self._release()

    def create(self, header: SessionHeader, events: Sequence[Event]) -> None:
        """Store a new session with its first events."""
        with self._transaction():
            try:
                self._db.execute(
                    "INSERT INTO sessions VALUES (?, ?, ?)",
                    (header.id, header.created_at, encode_header(header)),
                )
            except sqlite3.IntegrityError:
                raise SessionError(f'session "{header.id}" exists already', "SESSION_ALREADY_EXISTS") from None
            self._insert(header.id, unstored(header.id, 0, (), events) if events else events)

    def append(self, session_id: str, events: Sequence[Event]) -> None:
        """Store a batch, or the part of it that is missing."""
        with self._transaction():
            length = self._length(session_id)
            first = events[0].seq
            stored: list[str] = []
            if first < length:
                rows = self._db.execute(
                    "SELECT line FROM events WHERE session = ? AND seq >= ? ORDER BY seq", (session_id, first)
                )
                stored = [line for (line,) in rows]
            try:
                self._insert(session_id, unstored(session_id, length, stored, events))
            except sqlite3.IntegrityError as error:
                raise SessionError(
                    f'session "{session_id}" was changed by somebody else: {error}', "SESSION_CONFLICT"
                ) from error

    def require(self, session_id: str) -> None:
        """Raise ``SESSION_NOT_FOUND`` unless the session is there."""
        self._header(session_id)

    def read(self, session_id: str) -> StoredSession:
        """Return a session, header and events of one moment."""
        with self._transaction("DEFERRED"):
            header = self._header(session_id)
            rows = self._db.execute("SELECT line FROM events WHERE session = ? ORDER BY seq", (session_id,)).fetchall()
        return StoredSession(header, self._events(session_id, 0, rows))

    def read_from(self, session_id: str, start: int) -> tuple[Event, ...]:
        """Return the events of a session from the place ``start`` on; none where there is no such session."""
        with self._transaction("DEFERRED"):
            rows = self._db.execute(
                "SELECT line FROM events WHERE session = ? AND seq >= ? ORDER BY seq", (session_id, start)
            ).fetchall()
        return self._events(session_id, start, rows)

    def list_sessions(self) -> list[SessionSummary]:
        """Return a summary of each session, the most recently used first; one that cannot be read is logged."""
        with self._transaction("DEFERRED"):
            rows = self._db.execute(
                """SELECT id, header,
                    (SELECT MAX(seq) + 1 FROM events WHERE session = id),
                    (SELECT time FROM events WHERE session = id ORDER BY seq DESC LIMIT 1),
                    (SELECT line FROM events WHERE session = id AND type = 'user/message'
                     ORDER BY seq LIMIT 1),
                    (SELECT line FROM events WHERE session = id AND type IN ('turn/start', 'turn/end')
                     ORDER BY seq DESC LIMIT 1)
                FROM sessions"""
            ).fetchall()
        found: list[SessionSummary] = []
        for session_id, line, length, updated, first, turn in rows:
            try:
                header = decode_header(line)
                title = summary_title(None if first is None else decode_event(first))
                waiting = ends_waiting(None if turn is None else decode_event(turn))
            except SessionError as error:
                _log.warning('%s: session "%s" is left out of the list: %s', self._path, session_id, error)
                continue
            found.append(SessionSummary(header, length or 0, updated or header.created_at, title, waiting))
        return sorted(found, key=lambda row: (-row.updated_at, row.header.id))

    def delete(self, session_id: str) -> None:
        """Remove a session; its events go with it."""
        with self._transaction():
            if self._db.execute("DELETE FROM sessions WHERE id = ?", (session_id,)).rowcount == 0:
                raise not_found(session_id)

    def _header(self, session_id: str) -> SessionHeader:
        with as_session_error(self._path):
            try:
                row = self._db.execute("SELECT header FROM sessions WHERE id = ?", (session_id,)).fetchone()
            except UnicodeEncodeError:
                row = None  # half a character: no session is called that
        if row is None:
            raise not_found(session_id)
        with self._damage(session_id):
            return decode_header(row[0])

    def _events(self, session_id: str, start: int, rows: Sequence[tuple[str]]) -> tuple[Event, ...]:
        events: list[Event] = []
        for place, (line,) in enumerate(rows, start):
            with self._damage(session_id, f", event {place}"):
                events.append(decode_event(line))
        return tuple(events)

    @contextmanager
    def _damage(self, session_id: str, place: str = "") -> Generator[None, None, None]:
        """Name the session whose record cannot be read."""
        try:
            yield
        except SessionError as error:
            raise SessionError(f'{self._path}: session "{session_id}"{place}: {error}', error.code) from error

    def _length(self, session_id: str) -> int:
        row = self._db.execute("SELECT MAX(seq) FROM events WHERE session = ?", (session_id,)).fetchone()
        return 0 if row[0] is None else row[0] + 1

    def _insert(self, session_id: str, events: Sequence[Event]) -> None:
        self._db.executemany(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
            [(session_id, event.seq, event.time, event.type, encode_event(event)) for event in events],
        )

    @contextmanager
    def _transaction(self, kind: Literal["IMMEDIATE", "DEFERRED"] = "IMMEDIATE") -> Generator[None, None, None]:
        with as_session_error(self._path):
            self._db.execute(f"BEGIN {kind}")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring the file's schema up to date."""
    if _version(db) == len(_MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have brought the file up to date.
        version = _version(db)
        if version > len(_MIGRATIONS):
            raise SessionError(f"{path} was written by a newer version", "STORE_FAILED")
        for statements in _MIGRATIONS[version:]:
            for statement in statements:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def as_session_error(path: Path) -> Generator[None, None, None]:
    """Turn what SQLite and the file system raise into ``STORE_FAILED``."""
    try:
        yield
    except sqlite3.Error as error:
        raise SessionError(f"the session store {path} failed: {error}", "STORE_FAILED") from error
    except OSError as error:
        raise SessionError(f"the session store {path} failed: {error.strerror or error}", "STORE_FAILED") from error


def is_sqlite_store(path: Path) -> bool:
    """Whether a file is a session store, and not an exported session (JSON lines).

    Raises:
        SessionError: ``STORE_FAILED``: the file is not there, or cannot be read.
    """
    path = path.absolute()
    with as_session_error(path):
        _check_access(path, os.R_OK)
        db = _connect_to_read(path)
        try:
            return bool(db.execute("PRAGMA schema_version").fetchone()[0])
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname == "SQLITE_NOTADB":
                return False
            raise
        finally:
            db.close()


def _connect_to_read(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS, isolation_level=None)


def _make(path: Path) -> None:
    """Make the file where it is missing. By us rather than by SQLite: a log may hold what others should not read.

    Raises:
        OSError: it cannot be made, or not be written.
    """
    with _making:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            _check_access(path, os.R_OK | os.W_OK)


def _check_access(path: Path, mode: int) -> None:
    """Say better than SQLite what is wrong with a file, without opening it."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.stat()
    if not os.access(path, mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
