"""What a program prints, from the interpreter's thread to the run's account."""

from __future__ import annotations

import asyncio
import re
from collections import deque

from ..run import Run

__all__ = ["Prints"]

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Prints:
    """Takes printed text in any pieces and in any thread, and logs one entry for each call of ``print``.

    The interpreter's ``print`` writes one line for each call, with line ends inside it escaped.

    Parameters:
        capacity: the run's output limit. Far beyond it nothing is kept: the run is over anyway.
    """

    def __init__(self, capacity: int) -> None:
        self._pieces: deque[str] = deque()
        # Escaping doubles a text at most, and one entry more than fits must get through.
        self._room = 4 * capacity + 1024
        self._tail = ""
        self._run: Run | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self, run: Run) -> None:
        """Say which run the text belongs to."""
        self._run = run
        self._loop = asyncio.get_running_loop()

    def unbind(self) -> None:
        """Log what has come in, and let go of the run: the client may keep this, and never call it again."""
        self.drain()
        self._room = 0
        self._run = self._loop = None

    def take(self, _stream: str, text: str) -> None:
        """Take text; called by the interpreter's client, in a thread of its own."""
        loop = self._loop
        if self._room <= 0 or loop is None:
            return
        self._room -= len(text)
        self._pieces.append(text)
        try:
            loop.call_soon_threadsafe(self.drain)
        except RuntimeError:
            self._room = 0  # the loop is closed: nobody will ever ask

    def drain(self) -> None:
        """Log what has come in so far; called in the event loop."""
        if self._run is None:
            return
        while self._pieces:
            *lines, self._tail = (self._tail + self._pieces.popleft()).split("\n")
            for line in lines:
                self._run.log(_ESCAPE.sub(_unescape, line))


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
