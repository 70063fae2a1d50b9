"""Lines that a person types, read without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

try:
    import termios
except ImportError:  # pragma: no cover - there is no such terminal on this platform
    termios = None

__all__ = ["LineReader"]

_CHUNK = 65_536


class LineReader:
    """Reads lines from a terminal, a pipe or a file, one reader at a time.

    Cancelling a read loses nothing: what had arrived stays for the next one. No thread waits
    behind, so a program can end while nobody has typed anything.

    Parameters:
        descriptor: what to read from; standard input by default.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._buffer = bytearray()
        self._at_end = False
        self._lock = asyncio.Lock()

    @property
    def is_terminal(self) -> bool:
        """Whether a person can be at the other end."""
        return os.isatty(self._descriptor)

    def forget_typed_ahead(self) -> None:
        """Drop what was typed before now, so that it can't answer a question its author had not seen.

        Only at a terminal: what comes through a pipe was written on purpose.
        """
        if self.is_terminal:
            self._buffer.clear()
            if termios is not None:
                with contextlib.suppress(OSError):
                    termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def read_line(self) -> str | None:
        """Return the next line without its line feed, or None at the end of the input."""
        async with self._lock:
            while b"\n" not in self._buffer and not self._at_end:
                await self._readable()
                chunk = os.read(self._descriptor, _CHUNK)
                self._buffer += chunk
                self._at_end = not chunk
            return self._take_line()

    def _take_line(self) -> str | None:
        line, feed, rest = self._buffer.partition(b"\n")
        if not feed and not line:
            # A terminal's end of input is not final: the person may go on typing.
            self._at_end = self._at_end and not self.is_terminal
            return None
        self._buffer = bytearray(rest)
        return line.decode("utf-8", errors="replace").rstrip("\r")

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(self._descriptor, _set, ready)
        except PermissionError:
            # A regular file can't be waited for, and never makes one wait.
            return
        try:
            await ready
        finally:
            loop.remove_reader(self._descriptor)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
