"""Waiting on the event loop for work in a thread, which is told to stop and then waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal

__all__ = ["attend"]

T = TypeVar("T")


async def attend(work: Callable[[], T], stop: Callable[[], object], signal: AbortSignal) -> T:
    """Run ``work`` in a thread of its own and return its result.

    When the signal fires, or the waiting task is cancelled, ``stop`` is called; the wait goes on until the
    work has ended, and then the cancellation goes out. So nothing is ever left running.

    Parameters:
        work: called in the thread.
        stop: tells the work to end soon; called on the event loop's thread, perhaps several times.
        signal: the caller's.

    Raises:
        asyncio.CancelledError: the task was cancelled; the work has ended first.
        BaseException: whatever the work raised.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def body() -> None:
        try:
            result = work()
        except BaseException as error:
            loop.call_soon_threadsafe(done.set_exception, error)
        else:
            loop.call_soon_threadsafe(done.set_result, result)

    thread = threading.Thread(target=body, name="dsh-tools-process")
    thread.start()
    remove = signal.add_callback(stop)
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError as error:
            cancelled = error
            stop()
        except BaseException:
            break
    remove()
    thread.join()
    failure = done.exception()
    if cancelled is not None:
        raise cancelled
    if failure is not None:
        raise failure
    return done.result()
