"""A file that entries are appended to in microseconds, and that a process which dies leaves whole.

The file is mapped into memory: an entry is a copy of bytes, without a system call. What was copied is
the kernel's from then on, so it survives the death of the process, kill -9 included; a loss of power
may cost what :meth:`EntryFile.sync` has not waited for. Whoever writes must be the only one who does.

An entry is its length, a check sum, a number and its text, in this order; the text is written first.
Reading ends at the first entry that is not whole. Entries are dropped all at once: a new age begins,
whose number goes into the check sums, so that older entries count for nothing.
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
_VERSION = 1
# Magic, version, age.
_HEADER = struct.Struct("<4sII")
_START = 64
# Length and check sum of the text, and the entry's number.
_FRAME = struct.Struct("<IIQ")
_FIRST_BYTES = 64 << 10


class EntryFile:
    """One such file.

    Args:
        path: the file; it is made where it is missing, readable by its owner only.

    Raises:
        SessionError: ``STORE_FAILED``: it was written by a newer version, or is something else.
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
        end = start + _FRAME.size + length
        if end + _FRAME.size > len(self._map):
            self._grow(end + _FRAME.size)
        where = self._map
        where[start + _FRAME.size : end] = text
        _FRAME.pack_into(where, start, length, self._check(number, text), number)
        # Aligned, so that no length lies across two pages.
        self._end = (end + 7) & ~7

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Yield the entries of this age, each with its number."""
        at, where = _START, self._map
        while at + _FRAME.size <= len(where):
            length, check, number = _FRAME.unpack_from(where, at)
            end = at + _FRAME.size + length
            if not length or end > len(where):
                break
            text = where[at + _FRAME.size : end]
            if self._check(number, text) != check:
                break
            yield number, text
            at = (end + 7) & ~7
        self._end = at

    def _check(self, number: int, text: bytes) -> int:
        """The sum over an entry, its number and its age; an entry that is not whole has another one."""
        return crc32(text, (self._age + number) & 0xFFFFFFFF)

    def clear(self) -> None:
        """Drop all entries."""
        self._age = (self._age + 1) & 0xFFFFFFFF
        _HEADER.pack_into(self._map, 0, _MAGIC, _VERSION, self._age)
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
        if magic != _MAGIC or version > _VERSION:
            raise SessionError(f"{self._path} was written by a newer version, or is no journal", "STORE_FAILED")
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
