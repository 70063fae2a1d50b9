"""A window of a file's lines, collected while the text goes by; the rest is only counted."""

from __future__ import annotations

from typing import TypedDict

__all__ = ["Line", "LineWindow", "split_lines"]


class Line(TypedDict):
    """A line of a file with its number, counted from 1."""

    number: int
    text: str


class LineWindow:
    """Collects lines ``offset`` to ``offset + limit - 1`` within a byte cap, and counts all (HOST-207).

    A line ends with ``\\n``, ``\\r\\n`` or ``\\r``. Of a line that is longer than allowed only its beginning is
    ever held.

    Parameters:
        offset: the first line wanted, from 1.
        limit: how many lines at most.
        max_line_length: how many characters of a line are kept.
        max_bytes: how many UTF-8 bytes of lines are kept; the first line always is.
    """

    def __init__(self, offset: int, limit: int, max_line_length: int, max_bytes: int) -> None:
        self.lines: list[Line] = []
        self._first = offset
        self._last = offset + limit - 1
        self._max_line_length = max_line_length
        self._room = max_bytes
        self._closed = 0
        self._start = ""
        self._length = 0
        self._after_return = False
        self._full = False

    @property
    def total(self) -> int:
        """How many lines have gone by; a last one without an end counts where it is not empty."""
        return self._closed + (1 if self._length else 0)

    def feed(self, text: str) -> None:
        """Take the next piece of text."""
        if not text:
            return
        if self._after_return and text[0] == "\n":
            text = text[1:]
        self._after_return = text.endswith("\r") if text else False
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        if self._full:
            self._count(text)
            return
        *ended, rest = text.split("\n")
        for part in ended:
            self._grow(part)
            self._end_line()
        self._grow(rest)

    def finish(self) -> None:
        """Take the last line, where the file does not end with an end of line."""
        if self._length:
            self._end_line()

    def _count(self, text: str) -> None:
        ends = text.count("\n")
        self._closed += ends
        after = len(text) - text.rfind("\n") - 1 if ends else len(text)
        self._length = after if ends else self._length + after

    def _grow(self, part: str) -> None:
        self._length += len(part)
        room = self._max_line_length - len(self._start)
        if room > 0 and self._first <= self._closed + 1 <= self._last:
            self._start += part[:room]

    def _end_line(self) -> None:
        self._closed += 1
        if self._first <= self._closed <= self._last and not self._full:
            self._keep()
        self._start = ""
        self._length = 0
        if self._closed >= self._last:
            self._full = True

    def _keep(self) -> None:
        text = self._start
        if self._length > self._max_line_length:
            text += f"... (line truncated to {self._max_line_length} chars)"
        self._room -= len(text.encode()) + 1
        if self._room < 0 and self.lines:
            self._full = True
            return
        self.lines.append(Line(number=self._closed, text=text))


def split_lines(text: str) -> list[str]:
    """Return the lines of a text without their ends; what follows the last end counts where it is not empty."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines
