"""Answers of the host, on their way to a program in Monty."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TypeAlias

from .moment import Moment

if TYPE_CHECKING:
    from ..run import Run

__all__ = ["NOTHING", "Answers", "OrderedAnswers", "Settled", "StuckError"]

_CALLS_IN_FLIGHT = 512

Settled: TypeAlias = "dict[str, Any]"
"""What the interpreter resumes a call with: a value, or an exception."""

NOTHING: Settled = {"return_value": None}
"""The answer to a sleep."""


class StuckError(Exception):
    """The program waits for calls, and none of them is under way."""


class Answers:
    """Hands the program all answers there are whenever it waits for some of them."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._ready: dict[int, Settled] = {}
        self._news = asyncio.Event()

    def begin(self, call_id: int) -> None:
        """Note that the host owes an answer."""
        self._open.add(call_id)

    def refuse(self, call_id: int, answer: Settled) -> None:
        """Take an answer that the host has nothing to do with."""
        self.put(call_id, answer, None)

    def put(self, call_id: int, answer: Settled, at: float | None) -> None:
        """Take an answer of the host. The time is for repeatable programs."""
        self._open.discard(call_id)
        self._ready[call_id] = answer
        self._news.set()

    async def wait_for_room(self) -> None:
        """Wait until one call more may be under way."""
        while len(self._open) >= _CALLS_IN_FLIGHT:
            await self._wait_for_news()

    async def take(self, wanted: Collection[int]) -> dict[int, Settled]:
        """Wait for answers to some calls, and return all there are, in their order.

        Raises:
            StuckError: none of the calls is under way.
        """
        while not (ready := [call_id for call_id in self._ready if call_id in wanted]):
            if self._open.isdisjoint(wanted):
                raise StuckError
            await self._wait_for_news()
        return {call_id: self._ready.pop(call_id) for call_id in ready}

    async def _wait_for_news(self) -> None:
        self._news.clear()
        await self._news.wait()


class OrderedAnswers(Answers):
    """Hands a repeatable program one answer at a time, in the order in which the host gave them.

    What an answer does, it does when the program comes to take it, never when it happens to arrive: a
    call counts as open until then, and the program's clock moves only then.
    """

    def __init__(self, moment: Moment) -> None:
        super().__init__()
        self._moment = moment
        self._arrived: deque[tuple[int, Settled, float | None]] = deque()

    def refuse(self, call_id: int, answer: Settled) -> None:
        """Take an answer that the host has nothing to do with: its place is that of its call."""
        self._open.discard(call_id)
        self._ready[call_id] = answer

    def put(self, call_id: int, answer: Settled, at: float | None) -> None:
        """Take an answer of the host, with the time to show from when the program has it."""
        self._arrived.append((call_id, answer, at))
        self._news.set()

    def sleep(self, call_id: int, milliseconds: float, run: Run) -> None:
        """Let the host answer when the time is up. It has not seen the clock being read; no sleep is short for that."""
        due = self._moment.after(milliseconds)
        self.begin(call_id)
        run.sleep(milliseconds, lambda at: self.put(call_id, NOTHING, None if at is None else max(at, due)))

    async def wait_for_room(self) -> None:
        """Wait until one call more may be under way; answers taken meanwhile are the next to be handed over."""
        while len(self._open) >= _CALLS_IN_FLIGHT:
            await self._next()

    async def wait_for(self, call_id: int) -> None:
        """Wait for the answer to one call, and drop it; others taken meanwhile are the next to be handed over."""
        while call_id not in self._ready:
            await self._next()
        del self._ready[call_id]

    async def take(self, wanted: Collection[int]) -> dict[int, Settled]:
        """Wait for the next answer and return it.

        Raises:
            StuckError: there is none to come.
        """
        if not self._ready:
            if not self._open:
                raise StuckError
            await self._next()
        call_id = next(iter(self._ready))
        return {call_id: self._ready.pop(call_id)}

    async def _next(self) -> None:
        while not self._arrived:
            await self._wait_for_news()
        call_id, answer, at = self._arrived.popleft()
        self._open.discard(call_id)
        self._ready[call_id] = answer
        self._moment.move(at)
