"""Where one task waits for work, and goes on in the very moment it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

__all__ = ["Doorway"]

T = TypeVar("T")
_NOTHING: Any = object()


class Doorway(Generic[T]):
    """Hands one item after the other to the one task that awaits it: ``item = await doorway``.

    A future wakes its task one turn of the event loop later. This runs the task on within :meth:`put`, where
    that is called outside of any task, as by a transport; inside a task it has to wait for its turn.
    """

    # What asyncio asks of everything that a task may wait for.
    _asyncio_future_blocking = False

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._item: T = _NOTHING
        self._wakeup: Callable[[Any], object] | None = None
        self._context: Context | None = None
        self._cancelled = False

    def put(self, item: T) -> None:
        """Hand an item over; the one before must have been taken."""
        self._item = item
        wakeup, context = self._wakeup, self._context
        self._wakeup = None
        if wakeup is None or context is None:
            return
        if asyncio.current_task(self._loop) is None:
            context.run(wakeup, self)
        else:
            self.get_loop().call_soon(wakeup, self, context=context)

    def __await__(self) -> Generator[Any, None, T]:
        if self._item is _NOTHING:
            self._asyncio_future_blocking = True
            yield self
        item, self._item = self._item, _NOTHING
        return item

    # ── what a task asks of what it waits for ─────────────────────────────────

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the task."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Context | None = None) -> None:
        """Keep the task's own wake-up."""
        self._wakeup, self._context = callback, context

    def cancel(self, msg: object = None) -> bool:
        """End the waiting by a cancellation."""
        if self._wakeup is None:
            return False
        self._cancelled = True
        wakeup, self._wakeup = self._wakeup, None
        self.get_loop().call_soon(wakeup, self, context=self._context)
        return True

    def result(self) -> None:
        """Say whether the waiting ended in order."""
        if self._cancelled:
            self._cancelled = False
            raise asyncio.CancelledError
