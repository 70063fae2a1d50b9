"""A file that entries are appended to in microseconds, and that a process which dies leaves whole.

The file is mapped into memory: an entry is a copy of bytes, without a system call. What was copied is
the kernel's from then on, so it survives the death of the process, kill -9 included; a loss of power
may cost what :meth:`EntryFile.sync` has not waited for. Whoever writes must be the only one who does.

An entry is its length, a check sum, a number and its text, in this order; the text is written first,
then zeros behind it, so that it is known where the entries end. Reading ends at the first entry that is
not whole; whole ones behind it say that it has been damaged. Entries are dropped all at once: a new age
begins, whose number goes into the check sums, so that older entries count for nothing.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from ..errors import SessionError

__all__ = ["EntryFile"]

_MAGIC = b"dshj"
_VERSION = 2
# Magic, version, age.
_HEADER = struct.Struct("<4sII")
_START = 64
# Length and check sum of the text, and the entry's number.
_FRAME = struct.Struct("<IIQ")
_NOTHING = bytes(_FRAME.size)
# What the check sum covers beside the text: the age, the length and the number.
_CHECKED = struct.Struct("<IIQ")
_FIRST_BYTES = 64 << 10


class EntryFile:
    """One such file.

    Args:
        path: the file; it is made where it is missing, readable by its owner only.

    Raises:
        SessionError: ``STORE_FAILED``: it was written by another version, or is something else.
        OSError: it cannot be opened, or the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(self._fd).st_size
            if size < _FIRST_BYTES:
                self._reserve(0, _FIRST_BYTES)
                size = _FIRST_BYTES
            self._map = mmap.mmap(self._fd, size)
        except BaseException:
            os.close(self._fd)
            raise
        try:
            self._age = self._read_header()
            self._end = _START
            for _ in self.read():
                pass
        except BaseException:
            self.close()
            raise

    def append(self, number: int, text: bytes) -> None:
        """Append an entry; it survives the process when this returns.

        Raises:
            OSError: the disk is full; nothing was appended.
        """
        start, length = self._end, len(text)
        begin = start + _FRAME.size
        end = begin + length
        # Aligned, so that no length lies across two pages.
        after = (end + 7) & ~7
        if after + _FRAME.size > len(self._map):
            self._grow(after + _FRAME.size)
        where = self._map
        where[begin:end] = text
        where[after : after + _FRAME.size] = _NOTHING
        _FRAME.pack_into(where, start, length, self._check(number, text), number)
        self._end = after

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Yield the entries of this age, each with its number."""
        at = _START
        while (entry := self._entry_at(at)) is not None:
            yield entry
            at = (at + _FRAME.size + len(entry[1]) + 7) & ~7
        self._end = at

    @property
    def is_damaged(self) -> bool:
        """Whether something of this age stands behind the place where reading has ended.

        A process that dies leaves its last entry unfinished at most, with nothing behind it.
        """
        at, where = self._end, self._map
        if where[at : at + _FRAME.size] == _NOTHING:
            return False
        return any(self._entry_at(place) is not None for place in range(at + 8, len(where), 8))

    def _entry_at(self, at: int) -> tuple[int, bytes] | None:
        """Return the entry at a place, if one is there and whole."""
        where, begin = self._map, at + _FRAME.size
        if begin > len(where):
            return None
        length, check, number = _FRAME.unpack_from(where, at)
        if not length or begin + length > len(where):
            return None
        text = where[begin : begin + length]
        return (number, text) if self._check(number, text) == check else None

    def _check(self, number: int, text: bytes) -> int:
        """The sum over all of an entry and its age; an entry that is not whole has another one."""
        return crc32(text, crc32(_CHECKED.pack(self._age, len(text), number)))

    def clear(self) -> None:
        """Drop all entries."""
        self._age = (self._age + 1) & 0xFFFFFFFF
        _HEADER.pack_into(self._map, 0, _MAGIC, _VERSION, self._age)
        self._map[_START : _START + _FRAME.size] = _NOTHING
        self._end = _START

    def sync(self) -> None:
        """Wait until the disk has everything; not for the event loop's thread."""
        self._map.flush()
        os.fsync(self._fd)

    def close(self) -> None:
        """Let go of the file; closing again does nothing."""
        if self._fd >= 0:
            self._map.close()
            os.close(self._fd)
            self._fd = -1

    def _read_header(self) -> int:
        magic, version, age = _HEADER.unpack_from(self._map, 0)
        if magic == bytes(4):
            _HEADER.pack_into(self._map, 0, _MAGIC, _VERSION, 1)
            return 1
        if magic != _MAGIC:
            raise SessionError(f"{self._path} is no journal", "STORE_FAILED")
        if version != _VERSION:
            raise SessionError(
                f"{self._path} is a journal of format {version}, and this version of dsh-tools reads format "
                f"{_VERSION}: go on with the version that wrote it, or delete the file to give up what waits in it",
                "STORE_FAILED",
            )
        return age

    def _grow(self, least: int) -> None:
        size = len(self._map)
        wanted = size
        while wanted < least:
            wanted *= 2
        self._reserve(size, wanted - size)
        self._map.close()
        self._map = mmap.mmap(self._fd, wanted)

    def _reserve(self, start: int, length: int) -> None:
        """Take the space from the disk now: a page that has none when it is written to ends the process."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._fd, start, length)
        else:
            os.pwrite(self._fd, bytes(length), start)
