"""A gate that lets through so many at once, and so many in a time; the others wait in line."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..kernel.abort import AbortSignal

__all__ = ["Gate"]


class _GaveUp(Exception):
    """Whoever waited gave up: out of time, or aborted."""


class Gate:
    """Counts who is inside and who came in lately.

    Whoever gives up waiting, or is cancelled, leaves the line without a trace; a place that was
    given at that very moment goes to the next one.

    Parameters:
        max_inside: how many may be inside at once; None for any number.
        max_entries: how many may enter within ``seconds``; None for any number.
        seconds: the time that ``max_entries`` is about.
    """

    def __init__(self, max_inside: int | None, max_entries: int | None, seconds: float) -> None:
        self._max_inside = max_inside
        self._max_entries = max_entries
        self._seconds = seconds
        self._inside = 0
        self._entries: deque[float] = deque()
        self._line: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._open = False

    @property
    def inside(self) -> int:
        """How many are inside now."""
        return self._inside

    @property
    def waiting(self) -> int:
        """How many wait in line."""
        return len(self._line)

    def try_enter(self, *, again: bool = False) -> bool:
        """Enter, if nobody waits and there is room; ``again`` is for those inside already, who need no place."""
        if (self._line and not again) or not self._has_room(again=again):
            return False
        self._let_in()
        return True

    def seconds_until_entry(self) -> float | None:
        """How long the entries of late keep the gate shut; None where only those inside do."""
        now = asyncio.get_running_loop().time()
        self._forget_old(now)
        if self._max_entries is None or len(self._entries) < self._max_entries:
            return None
        return self._entries[0] + self._seconds - now

    async def enter(self, signal: AbortSignal, max_wait: float | None, *, again: bool = False) -> bool:
        """Enter, waiting in line if need be; False if the signal fired or ``max_wait`` seconds were over first."""
        if self.try_enter(again=again):
            return True
        if signal.aborted:
            return False
        if again:
            return await self._enter_again(signal, max_wait)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        self._admit()
        return await self._wait(place, signal, max_wait)

    async def _enter_again(self, signal: AbortSignal, max_wait: float | None) -> bool:
        """Wait for the rate alone, past the line: those in it wait for somebody who waits for this one."""
        loop = asyncio.get_running_loop()
        ends = None if max_wait is None else loop.time() + max_wait
        while not self._has_room(again=True):
            pause = self.seconds_until_entry() or 0.0
            if ends is not None:
                pause = min(pause, ends - loop.time())
            if pause <= 0 and ends is not None and loop.time() >= ends:
                return False
            try:
                async with asyncio.timeout(max(pause, 0.001)):
                    await signal.wait()
                return False
            except TimeoutError:
                continue
        self._let_in()
        return True

    async def _wait(self, place: asyncio.Future[None], signal: AbortSignal, max_wait: float | None) -> bool:
        def give_up() -> None:
            if not place.done():
                place.set_exception(_GaveUp())

        timer = None if max_wait is None else asyncio.get_running_loop().call_later(max_wait, give_up)
        remove = signal.add_callback(give_up)
        try:
            await place
        except _GaveUp:
            return False
        except asyncio.CancelledError:
            if not place.cancelled():
                # The place was given just before the cancellation came.
                self._give_back()
            raise
        finally:
            remove()
            if timer is not None:
                timer.cancel()
            if place in self._line:
                self._line.remove(place)
                self._admit()
        return True

    def _give_back(self) -> None:
        if self._entries:
            self._entries.pop()
        self.leave()

    def leave(self) -> None:
        """Leave, and let the next ones in."""
        self._inside -= 1
        self._admit()

    def open(self) -> None:
        """Let everybody in who waits, now and from now on."""
        self._open = True
        self._admit()

    def _has_room(self, *, again: bool = False) -> bool:
        if self._open:
            return True
        if not again and self._max_inside is not None and self._inside >= self._max_inside:
            return False
        if self._max_entries is None:
            return True
        self._forget_old(asyncio.get_running_loop().time())
        return len(self._entries) < self._max_entries

    def _forget_old(self, now: float) -> None:
        while self._entries and self._entries[0] + self._seconds <= now:
            self._entries.popleft()

    def _let_in(self) -> None:
        self._inside += 1
        if self._max_entries is not None:
            self._entries.append(asyncio.get_running_loop().time())

    def _admit(self) -> None:
        """Let in from the front of the line; set the clock where only time is missing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._line and (self._line[0].done() or self._has_room()):
            place = self._line.popleft()
            if not place.done():
                self._let_in()
                place.set_result(None)
        pause = self.seconds_until_entry() if self._line else None
        if pause is not None:
            self._timer = asyncio.get_running_loop().call_later(max(pause, 0.001), self._admit)
