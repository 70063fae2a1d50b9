"""Where synchronous bodies run: a bounded set of worker threads that is waited for, never abandoned."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ..kernel.abort import AbortController, AbortSignal
from .cancellation import finish_shielded

if TYPE_CHECKING:
    from ..tools.execution import ToolExecution
    from ..tools.registered import RegisteredTool

__all__ = ["BodyThreads", "NotBegun"]


class NotBegun(asyncio.CancelledError):
    """The call was given up while it waited for a free thread; its body was never called."""


class BodyThreads:
    """Runs synchronous bodies.

    Parameters:
        max_threads: how many bodies run at once; further ones wait for a free thread.
    """

    def __init__(self, max_threads: int = 32) -> None:
        self._max_threads = max_threads
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, entry: RegisteredTool, execution: ToolExecution) -> Any:
        """Run one body in a thread and return its value.

        The body polls ``execution.signal``, which also fires when the awaiting task is cancelled (D30).
        The wait goes on until the body has ended; then the cancellation goes out.

        Raises:
            NotBegun: the signal fired, or the task was cancelled, before a thread was free.
        """
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._max_threads, thread_name_prefix="dsh-tools-body")
        native = AbortController()
        given = execution.signal
        cancelled: asyncio.CancelledError | None = None
        with AbortSignal.any((given, native.signal)) as fused:
            execution.signal = fused
            job = self._pool.submit(contextvars.copy_context().run, _outcome, entry, execution)
            future = asyncio.wrap_future(job)
            forget = fused.add_callback(job.cancel)  # works only as long as no thread has taken it
            while not future.done():
                try:
                    await asyncio.shield(future)
                except asyncio.CancelledError as error:
                    if future.done():
                        break
                    cancelled = error
                    native.abort(error)
            forget()
            execution.signal = given
        if future.cancelled():
            raise NotBegun
        if cancelled is not None:
            raise cancelled
        value, error = future.result()
        try:
            if error is not None:
                raise error
            return value
        finally:
            error = None  # its traceback holds this frame

    async def dispose(self) -> None:
        """Wait for running bodies and end the threads."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def wait() -> None:
            pool.shutdown(wait=True)
            loop.call_soon_threadsafe(ended.set_result, None)

        # A thread of its own: the loop's default pool would keep one for good.
        waiter = threading.Thread(target=wait, name="dsh-tools-shutdown")
        waiter.start()
        await finish_shielded(_wait_for(ended))
        waiter.join()


def _outcome(entry: RegisteredTool, execution: ToolExecution) -> tuple[Any, BaseException | None]:
    """Call the body. What it raises is handed over as a value: no future can carry a StopIteration."""
    execution.state.note().begin()
    try:
        return entry.execute(execution.arguments, execution), None
    except BaseException as error:
        return None, error


async def _wait_for(ended: asyncio.Future[None]) -> None:
    await ended
