"""Workers that stand ready, so that a run need not wait for one to start."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from .seam import CodeRunError

__all__ = ["Poolable", "WorkerPool", "WorkerStartError"]

_log = logging.getLogger("dsh_tools")

# A program that has just been handed over gets the processor first; its successor can wait.
_REFILL_DELAY = 0.02


class WorkerStartError(Exception):
    """A worker could not be started, or ended before it was ready.

    ``error`` is what a run that needed the worker ends in; the message is for the **operator**.
    """

    def __init__(self, error: CodeRunError, details: str = "") -> None:
        super().__init__(f"{error.message}: {details}" if details else error.message)
        self.error = error


class Poolable(Protocol):
    """What a pool needs to know of a worker."""

    @property
    def alive(self) -> bool:
        """Whether it can still take a program."""
        ...

    async def close(self) -> None:
        """End it, and wait until nothing of it is left."""
        ...


_W = TypeVar("_W", bound=Poolable)


class WorkerPool(Generic[_W]):
    """Starts workers ahead of their use and hands each out once.

    The pool fills itself after the first use, or when :meth:`fill` says so. A worker that has
    stood ready for too long, or has died meanwhile, is replaced.

    Parameters:
        start: starts one worker.
        size: how many stand ready.
        max_idle_seconds: how long one may.
    """

    def __init__(self, start: Callable[[], Coroutine[Any, Any, _W]], size: int, max_idle_seconds: float) -> None:
        self._start = start
        self._size = size
        self._max_idle = max_idle_seconds
        self._ready: deque[asyncio.Task[_W]] = deque()
        self._closing: set[asyncio.Task[None]] = set()
        self._expiry: dict[asyncio.Task[_W], asyncio.TimerHandle] = {}
        self._refill: asyncio.TimerHandle | None = None
        self._disposed = False

    def fill(self) -> None:
        """Begin to start as many workers as are missing."""
        self._refill = None
        while not self._disposed and len(self._ready) < self._size:
            self._ready.append(self._begin())

    async def warm(self) -> None:
        """Fill the pool, and wait until its workers stand ready or have failed to start."""
        self.fill()
        if self._ready:
            await asyncio.wait(set(self._ready))

    async def take(self) -> _W:
        """Return a worker that is the caller's from now on; it stands ready, or is about to.

        Raises:
            Exception: what the start of a worker raised.
        """
        while True:
            task = self._ready.popleft() if self._ready else self._begin()
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                # Nobody has used it: it stays for the next one.
                self._ready.appendleft(task)
                raise
            self._forget_expiry(task)
            self._fill_soon()
            worker = task.result()
            if worker.alive:
                return worker
            self._discard(task)

    async def dispose(self) -> None:
        """End all workers that stand ready, and wait until nothing is left of them."""
        self._disposed = True
        if self._refill is not None:
            self._refill.cancel()
        while self._ready:
            self._discard(self._ready.popleft())
        while self._closing:
            await asyncio.wait(set(self._closing))

    def _fill_soon(self) -> None:
        if self._refill is None and not self._disposed:
            self._refill = asyncio.get_running_loop().call_later(_REFILL_DELAY, self.fill)

    def _begin(self) -> asyncio.Task[_W]:
        task = asyncio.ensure_future(self._start())
        task.add_done_callback(self._started)
        return task

    def _started(self, task: asyncio.Task[_W]) -> None:
        if self._disposed or task.cancelled() or task not in self._ready:
            return
        if task.exception() is not None:
            # The next run tries again, and gets the error if it persists.
            _log.warning("a code worker could not be started ahead: %s", task.exception())
            self._ready.remove(task)
            return
        loop = asyncio.get_running_loop()
        self._expiry[task] = loop.call_later(self._max_idle, self._expire, task)

    def _expire(self, task: asyncio.Task[_W]) -> None:
        self._expiry.pop(task, None)
        if task in self._ready:
            self._ready.remove(task)
            self._discard(task)
            self.fill()

    def _forget_expiry(self, task: asyncio.Task[_W]) -> None:
        timer = self._expiry.pop(task, None)
        if timer is not None:
            timer.cancel()

    def _discard(self, task: asyncio.Task[_W]) -> None:
        self._forget_expiry(task)
        closing = asyncio.ensure_future(self._close(task))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _close(self, task: asyncio.Task[_W]) -> None:
        if not task.done():
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None:
            await task.result().close()
