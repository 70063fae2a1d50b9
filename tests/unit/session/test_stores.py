"""The shipped conformance suite against the memory store and the SQLite store."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from dsh_tools.errors import SessionError
from dsh_tools.session import MemoryStore, SessionHeader, SessionStore, SqliteStore
from dsh_tools.session.lockfile import FileLock
from dsh_tools.testing.store_conformance import StoreConformance, refused, sample_events


class TestMemory(StoreConformance):
    durable = False

    @pytest.fixture
    def make_store(self) -> Callable[[], SessionStore]:
        return MemoryStore


class TestSqlite(StoreConformance):
    @pytest.fixture
    async def make_store(self, no_leaks: None, tmp_path: Path) -> AsyncIterator[Callable[[], SessionStore]]:
        stores: list[SqliteStore] = []

        def make() -> SqliteStore:
            stores.append(SqliteStore(tmp_path / "deep" / "sessions.sqlite"))
            return stores[-1]

        yield make
        for store in stores:
            await store.close()
        # Closed stores leave the database and nothing else: no locks, no write-ahead log.
        assert [path.name for path in (tmp_path / "deep").glob("*")] in ([], ["sessions.sqlite"])


@pytest.fixture
async def path(no_leaks: None, tmp_path: Path) -> Path:
    return tmp_path / "s.sqlite"


HEADER = SessionHeader(id="s1", created_at=1)


async def test_the_file_is_private(path: Path):
    store = SqliteStore(path)
    await (await store.create(HEADER, sample_events(1))).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await store.close()


@pytest.mark.parametrize(("level", "number"), [("full", 2), ("normal", 1)])
async def test_synchronous_is_what_was_asked_for(path: Path, level: str, number: int):
    store = SqliteStore(path, synchronous=level)
    writer = await store.create(HEADER)
    found = await store._writing.run(lambda file: file._db.execute("PRAGMA synchronous").fetchone())
    assert found == (number,)
    assert await store._writing.run(lambda file: file._db.execute("PRAGMA journal_mode").fetchone()) == ("wal",)
    await writer.close()
    await store.close()


async def test_a_file_that_is_no_database_is_named(path: Path):
    path.write_bytes(b"this is not a database, but it is long enough to be looked at" * 20)
    store = SqliteStore(path)
    with pytest.raises(SessionError, match="s.sqlite failed: file is not a database"):
        await store.list_sessions()
    await store.close()


async def test_a_newer_file_is_refused(path: Path):
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    store = SqliteStore(path)
    with pytest.raises(SessionError, match="s.sqlite was written by a newer version"):
        await store.read("s1")
    await store.close()
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (99,)
    db.close()


async def test_a_damaged_line_is_reported_and_not_guessed(path: Path):
    store = SqliteStore(path)
    await (await store.create(HEADER, sample_events(2))).close()
    db = sqlite3.connect(path)
    db.execute('UPDATE events SET line = \'{"seq": 1, "time"\' WHERE seq = 1')
    db.commit()
    db.close()
    with refused("CORRUPT_LOG"):
        await store.read("s1")
    await store.close()


async def test_a_damaged_session_does_not_hide_the_others(path: Path, caplog: pytest.LogCaptureFixture):
    store = SqliteStore(path)
    await (await store.create(HEADER, sample_events(2))).close()
    await (await store.create(SessionHeader(id="s2", created_at=1), sample_events(1))).close()
    db = sqlite3.connect(path)
    db.execute("UPDATE sessions SET header = '{' WHERE id = 's1'")
    db.commit()
    db.close()
    assert [summary.header.id for summary in await store.list_sessions()] == ["s2"]
    assert 'session "s1" is left out of the list' in caplog.text
    await store.close()


async def test_the_key_is_the_second_wall(path: Path):
    # Somebody who writes past the lock is noticed at the next batch.
    store = SqliteStore(path)
    writer = await store.create(HEADER, sample_events(1))
    db = sqlite3.connect(path)
    db.execute("INSERT INTO events VALUES ('s1', 1, 0, 'note', '{}')")
    db.commit()
    db.close()
    with refused("SESSION_CONFLICT"):
        await writer.append(sample_events(1, start=1))
    await store.close()


async def test_a_cancelled_batch_is_whole_or_absent(path: Path):
    store = SqliteStore(path)
    writer = await store.create(HEADER)
    task = asyncio.ensure_future(writer.append(sample_events(500)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len((await store.read("s1")).events) in (0, 500)
    await writer.append(sample_events(500))
    assert len((await store.read("s1")).events) == 500
    await store.close()


async def test_a_reader_does_not_wait_for_a_writer(path: Path):
    store, reader = SqliteStore(path), SqliteStore(path)
    writer = await store.create(HEADER, sample_events(3))
    await reader.list_sessions()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO events VALUES ('s1', 3, 0, 'note', '{}')")
    # A transaction is open, and what it has not committed is not seen.
    assert len((await asyncio.wait_for(reader.read("s1"), 2)).events) == 3
    db.execute("ROLLBACK")
    db.close()
    await writer.close()
    await store.close()
    await reader.close()


async def test_a_read_only_store_makes_and_changes_nothing(path: Path):
    missing = SqliteStore(path, read_only=True)
    with refused("STORE_FAILED"):
        await missing.list_sessions()
    await missing.close()
    assert not path.exists()
    store, looker = SqliteStore(path), SqliteStore(path, read_only=True)
    writer = await store.create(HEADER, sample_events(3))
    assert len((await looker.read("s1")).events) == 3
    await writer.append(sample_events(2, start=3))
    assert await looker.read_from("s1", 2) == tuple(sample_events(3, start=2))
    assert await looker.read_from("s1", 5) == await looker.read_from("nobody", 0) == ()
    with refused("STORE_FAILED"):
        await looker.create(SessionHeader(id="s2", created_at=1))
    assert [row.header.id for row in await store.list_sessions()] == ["s1"]
    await looker.close()
    await store.close()


async def test_a_closed_writer_is_forgotten(path: Path):
    store = SqliteStore(path)
    for number in range(3):
        await (await store.create(SessionHeader(id=f"s{number}", created_at=1))).close()
    assert store._writers == set()
    await store.close()


async def test_a_closed_store_says_so(path: Path):
    store = SqliteStore(path)
    await store.list_sessions()
    await store.close()
    await store.close()
    with refused("STORE_FAILED"):
        await store.list_sessions()


def test_a_lock_is_exclusive_and_leaves_no_file(tmp_path: Path):
    one, two = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert one.acquire()
    assert not two.acquire()
    one.release()
    one.release()
    assert list(tmp_path.iterdir()) == []
    assert two.acquire()
    two.release()


def test_a_lock_on_a_removed_file_guards_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # The holder removes the file between the other's open and its lock: the other starts over.
    one, two = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert one.acquire()
    real, opened = os.open, []

    def open_late(*args: object) -> int:
        fd = real(*args)
        if not opened:
            one.release()
        opened.append(fd)
        return fd

    monkeypatch.setattr(os, "open", open_late)
    assert two.acquire()
    assert len(opened) == 2
    third = FileLock(tmp_path / "lock")
    assert not third.acquire()
    two.release()


@pytest.mark.parametrize("place", ["", "file/s.sqlite"], ids=["a folder", "below a file"])
async def test_a_place_that_cannot_be_a_file_is_named(no_leaks: None, tmp_path: Path, place: str):
    (tmp_path / "file").touch()
    store = SqliteStore(tmp_path / place)
    for attempt in (store.list_sessions, lambda: store.create(HEADER)):
        with pytest.raises(SessionError, match=f"the session store {tmp_path / place} failed: ") as caught:
            await attempt()
        assert caught.value.code == "STORE_FAILED"
    await store.close()


async def test_no_session_is_called_half_a_character(path: Path):
    store = SqliteStore(path)
    for attempt in (store.read, store.open):
        with refused("SESSION_NOT_FOUND"):
            await attempt("\udcff")
    await store.close()


async def test_damage_is_named(path: Path):
    store = SqliteStore(path)
    await (await store.create(HEADER, sample_events(3))).close()
    damage(path, "UPDATE events SET line = '{' WHERE seq = 2")
    for attempt in (store.read("s1"), store.read_from("s1", 1)):
        with pytest.raises(SessionError, match='s.sqlite: session "s1", event 2: not JSON'):
            await attempt
    damage(path, "UPDATE sessions SET header = '{'")
    with pytest.raises(SessionError, match='s.sqlite: session "s1": not JSON'):
        await store.read("s1")
    await store.close()


def damage(path: Path, statement: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(statement)
    db.close()
