"""Cutting a worker's output into lines, in bounded memory, whatever it writes."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["LineCutter"]


class LineCutter:
    """Hands on the lines that begin with a prefix, and forgets all other bytes as they come.

    A line that does not begin with it, or grows longer than the limit, is dropped up to its end
    without being kept. So a worker's noise costs time, but never memory.

    Parameters:
        prefix: what a line must begin with; it is cut off.
        limit: the most bytes a line may have, prefix included.
        on_line: called for each complete line.
    """

    __slots__ = ("_held", "_limit", "_on_line", "_prefix", "_skipping")

    def __init__(self, prefix: bytes, limit: int, on_line: Callable[[bytes], None]) -> None:
        self._prefix = prefix
        self._limit = limit
        self._on_line = on_line
        self._held = bytearray()
        self._skipping = False

    @property
    def held(self) -> int:
        """Bytes kept of a line that has not ended yet."""
        return len(self._held)

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        end = data.find(b"\n")
        if end == len(data) - 1 and not self._held and not self._skipping and data:
            # One whole line, as each call of a program that waits for it comes.
            if end <= self._limit and data.startswith(self._prefix):
                self._on_line(data[len(self._prefix) : end])
            return
        start = 0
        while True:
            if end < 0:
                self._hold(data[start:] if start else data)
                return
            self._end_line(data[start:end])
            start = end + 1
            end = data.find(b"\n", start)

    def _hold(self, piece: bytes) -> None:
        if self._skipping or not piece:
            return
        self._held += piece
        if len(self._held) > self._limit or not self._may_be_ours():
            self._skipping = True
            # A new one, because a cleared bytearray keeps its memory.
            self._held = bytearray()

    def _may_be_ours(self) -> bool:
        known = min(len(self._held), len(self._prefix))
        return self._held.startswith(self._prefix[:known])

    def _end_line(self, piece: bytes) -> None:
        if self._skipping:
            self._skipping = False
            return
        if self._held:
            self._held += piece
            piece = bytes(self._held)
            self._held = bytearray()
        if len(piece) <= self._limit and piece.startswith(self._prefix):
            self._on_line(piece[len(self._prefix) :])
