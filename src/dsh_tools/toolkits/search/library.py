"""The engine that needs no other program."""

from __future__ import annotations

import codecs
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..processes import attend
from .engine import FileHits, Include, SearchFolder
from .errors import RawOutputOverflowError, SearchAbortedError
from .walk import open_regular_at, walk_files

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal
    from .patterns import LinePattern

__all__ = ["LibraryEngine"]

_BLOCK = 1 << 22


class LibraryEngine:
    """Walks and reads in a thread of its own.

    Parameters:
        max_raw_bytes: how much a search may find, in bytes.
    """

    name = "library"

    def __init__(self, max_raw_bytes: int) -> None:
        self._max_raw_bytes = max_raw_bytes

    async def list_files(self, folder: SearchFolder, include: Include | None, signal: AbortSignal) -> list[str]:
        """Return the files below a folder; see :class:`Engine`."""
        stop = threading.Event()
        budget = _Budget(self._max_raw_bytes)

        def work() -> list[str]:
            found: list[str] = []
            for path in walk_files(folder.fd, folder.real, _checker(stop)):
                shown = _text(path)
                if include is None or include.expression.match(shown) is not None:
                    budget.spend(len(path) + 3)
                    found.append(shown)
            found.sort()
            return found

        return await attend(work, stop.set, signal)

    async def search(
        self, folder: SearchFolder, pattern: LinePattern, include: Include | None, signal: AbortSignal
    ) -> list[FileHits]:
        """Return the matching lines; see :class:`Engine`."""
        stop = threading.Event()
        check = _checker(stop)
        budget = _Budget(self._max_raw_bytes)

        def work() -> list[FileHits]:
            found: list[FileHits] = []
            paths = walk_files(folder.fd, folder.real, check) if folder.only is None else iter((folder.only,))
            for path in paths:
                if include is None or include.expression.match(_text(path)) is not None:
                    hits = _search_file(folder.fd, path, pattern, check, budget)
                    if hits:
                        found.append((_text(path), hits))
            found.sort()
            return found

        return await attend(work, stop.set, signal)


class _Budget:
    """How much may still be found; counted as ripgrep's output would be."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._limit = limit

    def spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise RawOutputOverflowError(
                f"the search finds more than {self._limit} bytes; use a narrower pattern, path or include"
            )


def _checker(stop: threading.Event) -> Callable[[], None]:
    def check() -> None:
        if stop.is_set():
            raise SearchAbortedError("the search was aborted")

    return check


def _text(path: str) -> str:
    """Return a path as text; bytes that are no UTF-8 cannot be shown."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "replace")


def _search_file(
    top: int, path: str, pattern: LinePattern, check: Callable[[], None], budget: _Budget
) -> list[tuple[int, str]]:
    fd = open_regular_at(top, path)
    if fd is None:
        return []
    hits: list[tuple[int, str]] = []
    size = 0
    number = 0
    try:
        for block in _blocks(fd, check):
            if "\0" in block:
                return []
            if not pattern.may_be_in(block):
                number += block.count("\n")
                continue
            for line in block.split("\n")[: -1 if block.endswith("\n") else None]:
                number += 1
                if pattern.matches(line):
                    hits.append((number, line.removesuffix("\r")))
                    size += len(line) + len(path) + 12
    except OSError:
        return []
    finally:
        os.close(fd)
    budget.spend(size)
    return hits


def _blocks(fd: int, check: Callable[[], None]) -> Iterator[str]:
    """Yield a file's text in blocks of whole lines; what is not UTF-8 is replaced."""
    decoder: codecs.IncrementalDecoder | None = None
    begun = ""
    while True:
        check()
        data = os.read(fd, _BLOCK)
        if decoder is None:
            decoder, data = _decoder(data)
        text = decoder.decode(data, not data)
        if not data:
            if begun + text:
                yield begun + text
            return
        end = text.rfind("\n") + 1
        if "\0" in text:
            yield "\0"
            return
        if end:
            yield begun + text[:end]
            begun = text[end:]
        else:
            begun += text


def _decoder(head: bytes) -> tuple[codecs.IncrementalDecoder, bytes]:
    """Return the decoder that a file's first bytes ask for, and the bytes without their mark."""
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if head.startswith(mark):
            return codecs.getincrementaldecoder(name)("replace"), head[len(mark) :]
    return codecs.getincrementaldecoder("utf-8")("replace"), head
