"""The journals of the stores that ship: what is written is read, in order, and goes with its session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.journals import JournalConformance, written

from dsh_tools.session import EventLog, Journal, MemoryStore, SessionHeader, SqliteStore, journal_of
from dsh_tools.session.entry_file import EntryFile
from dsh_tools.session.journal_entries import contents_of
from dsh_tools.testing.store_conformance import refused

HEADER = SessionHeader(id="s1", created_at=1)


class TestMemory(JournalConformance):
    @pytest.fixture
    def journal(self) -> Journal:
        return MemoryStore().journal()


class TestSqlite(JournalConformance):
    @pytest.fixture
    async def journal(self, tmp_path: Path, no_leaks: None) -> AsyncIterator[Journal]:
        store = SqliteStore(tmp_path / "sessions.sqlite")
        journal = journal_of(store)
        assert journal is not None
        yield journal
        await store.close()


async def test_a_store_that_only_reads_has_no_journal_and_any_other_may_have_none(tmp_path: Path):
    assert journal_of(SqliteStore(tmp_path / "none.sqlite", read_only=True)) is None
    assert journal_of(object()) is None


async def test_a_deleted_session_leaves_no_file(tmp_path: Path):
    store = SqliteStore(tmp_path / "sessions.sqlite")
    journal = journal_of(store)
    assert journal is not None
    log = EventLog(HEADER)
    log.keep(await store.create(HEADER), 0)
    await written(journal)
    folder = tmp_path / "sessions.sqlite.programs"
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    await log.close()
    await store.delete("s1")
    assert list(folder.iterdir()) == []
    await store.close()


# ── the file itself ────────────────────────────────────────────────────────────


def entries(path: Path) -> list[tuple[int, bytes]]:
    file = EntryFile(path)
    found = list(file.read())
    file.close()
    return found


def test_entries_survive_in_any_number_and_size(tmp_path: Path):
    path = tmp_path / "f"
    wanted = [(number, b"x" * (number * 977 % 5000 + 1)) for number in range(300)]
    file = EntryFile(path)
    for number, text in wanted:
        file.append(number, text)
    # Another reader sees them before anything is closed: they are the kernel's.
    assert entries(path) == wanted
    file.sync()
    file.close()
    file.close()
    file = EntryFile(path)
    file.append(2**63, b"more")
    file.close()
    assert entries(path) == [*wanted, (2**63, b"more")]


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_reading_ends_before_an_entry_that_is_not_whole(cut: int, tmp_path: Path):
    # What a loss of power, or a death between two bytes, can leave.
    path = tmp_path / "f"
    file = EntryFile(path)
    file.append(1, b"first")
    file.append(2, b"y" * 50)
    file.close()
    data = bytearray(path.read_bytes())
    start = data.index(b"y" * 50) - 16
    for at in range(start + cut, start + 66):
        data[at] = 0
    path.write_bytes(data)
    assert entries(path) == [(1, b"first")]
    file = EntryFile(path)
    file.append(3, b"third")
    file.close()
    assert entries(path) == [(1, b"first"), (3, b"third")]


def test_a_new_age_begins_with_nothing(tmp_path: Path):
    path = tmp_path / "f"
    file = EntryFile(path)
    for number in range(5):
        file.append(number, b"of the old age")
    file.clear()
    assert list(file.read()) == []
    file.append(9, b"of the new one")
    file.close()
    assert entries(path) == [(9, b"of the new one")]
    # An entry of the same length does not bring those behind it back.


def test_another_file_is_refused(tmp_path: Path):
    path = tmp_path / "f"
    path.write_bytes(b"SQLite format 3\0" + bytes(70_000))
    with refused("STORE_FAILED") as caught:
        EntryFile(path)
    assert "is no journal" in str(caught.value)


def test_a_full_disk_is_an_error_and_no_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import errno
    import os

    path = tmp_path / "f"
    file = EntryFile(path)
    file.append(1, b"fits")

    def full(*_args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        file.append(2, bytes(200_000))
    file.append(3, b"fits, too")
    file.close()
    monkeypatch.undo()
    assert entries(path) == [(1, b"fits"), (3, b"fits, too")]


@pytest.mark.parametrize("bit", range(8 * 21))
def test_no_bit_of_an_entry_can_flip_unnoticed(bit: int, tmp_path: Path):
    # D34: length, check sum, number and text; what is damaged is not read as something else.
    path = tmp_path / "f"
    file = EntryFile(path)
    for number in (1, 2, 3):
        file.append(number, b"entry")
    file.close()
    data = bytearray(path.read_bytes())
    data[64 + 24 + bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    file = EntryFile(path)
    assert list(file.read()) == [(1, b"entry")]
    assert file.is_damaged
    file.close()


def test_only_what_is_lost_is_damage(tmp_path: Path):
    path = tmp_path / "f"
    file = EntryFile(path)
    for size in (2000, 1, 300):
        file.append(size, b"x" * size)
        assert not file.is_damaged
    file.clear()
    for size in (40, 900):
        assert not file.is_damaged
        file.append(size, b"y" * size)
    file.close()
    # Half of an entry, in the place of older ones.
    data = bytearray(path.read_bytes())
    data[data.index(b"y" * 900) + 500] = 0
    path.write_bytes(data)
    file = EntryFile(path)
    assert [number for number, _ in file.read()] == [40]
    assert not file.is_damaged
    file.append(7, b"goes on")
    file.close()
    assert entries(path)[1:] == [(7, b"goes on")]


def test_a_file_of_another_format_is_refused(tmp_path: Path):
    path = tmp_path / "f"
    for version in (1, 3):
        path.write_bytes(b"dshj" + version.to_bytes(4, "little") + bytes(70_000))
        with refused("STORE_FAILED") as caught:
            EntryFile(path)
        assert f"a journal of format {version}, and this version of dsh-tools reads format 2" in str(caught.value)


async def test_a_damaged_journal_is_refused_and_its_file_is_let_go(tmp_path: Path, no_leaks: None):
    store = SqliteStore(tmp_path / "sessions.sqlite")
    journal = journal_of(store)
    assert journal is not None
    log = EventLog(HEADER)
    log.keep(await store.create(HEADER), 0)
    await written(journal)
    (path,) = (tmp_path / "sessions.sqlite.programs").iterdir()
    data = bytearray(path.read_bytes())
    data[64 + 8] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        with refused("CORRUPT_LOG") as caught:
            await journal.load("s1")
        assert 'the journal of session "s1" is damaged' in str(caught.value)
    await log.close()
    await store.close()


RUN = '[0,"python","monty 1","abc",{"pay":"def"},"00",17]'


@pytest.mark.parametrize(
    "lines",
    [
        ["7"],
        ["[]"],
        ["{}"],
        ["[9]"],
        ['["run"]'],
        ["[[]]"],
        ["[4,1]"],
        ['[1,"suspended"]'],
        ['[2,1,"call","pay","abc","started"]'],
        [RUN[:-4] + "]"],
        [RUN.replace("17", '"17"')],
        [RUN.replace('{"pay":"def"}', "null")],
        [RUN, '[1,"asleep"]'],
        [RUN, '[2,"1","call","pay","abc","started"]'],
        [RUN, '[2,1,"call","pay","abc","value",1]'],
        [RUN, '[2,1,"call","pay","abc","value",1,17,-0.0,null]'],
        [RUN, '[2,1,"call","pay","abc"]'],
        ['[3,"pay",{},"abc","def","done"]'],
        ['[3,"pay",{},"abc"'],
    ],
)
def test_an_entry_that_is_none_is_refused(lines: list[str]):
    # Whoever reads a journal is told that it is damaged, not by a KeyError.
    with refused("CORRUPT_LOG"):
        contents_of([(5, line.encode()) for line in lines])
