"""Where synchronous bodies run: a bounded set of worker threads that is waited for, never abandoned."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ..errors import ToolError
from ..kernel.abort import AbortController, AbortSignal
from .cancellation import finish_shielded

if TYPE_CHECKING:
    from ..tools.execution import ToolExecution
    from ..tools.registered import RegisteredTool

__all__ = ["BodyThreads", "NotBegun"]

_IN_BODY: contextvars.ContextVar[bool] = contextvars.ContextVar("dsh_tools_in_body_thread", default=False)
_MOST_NESTED = 1000


class NotBegun(asyncio.CancelledError):
    """The call was given up while it waited for a free thread; its body was never called."""


class BodyThreads:
    """Runs synchronous bodies.

    A body that waits in its thread for another call holds that thread. Calls that come out of a body's thread have
    threads of their own, or bodies that wait for each other would wait for a free one for ever.

    Parameters:
        max_threads: how many bodies run at once; further ones wait for a free thread.
    """

    def __init__(self, max_threads: int = 32) -> None:
        self._max_threads = max_threads
        self._pool: ThreadPoolExecutor | None = None
        self._nested_pool: ThreadPoolExecutor | None = None
        self._nested = 0

    async def run(self, entry: RegisteredTool, execution: ToolExecution) -> Any:
        """Run one body in a thread and return its value.

        The body polls ``execution.signal``, which also fires when the awaiting task is cancelled (D30).
        The wait goes on until the body has ended; then the cancellation goes out.

        Raises:
            NotBegun: the signal fired, or the task was cancelled, before a thread was free.
            ToolError: very many bodies wait for each other, as those of a tool that calls itself do.
        """
        if not _IN_BODY.get():
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._max_threads, thread_name_prefix="dsh-tools-body")
            return await self._run_in(self._pool, entry, execution)
        if self._nested_pool is None:
            self._nested_pool = ThreadPoolExecutor(_MOST_NESTED, thread_name_prefix="dsh-tools-nested-body")
        if self._nested >= _MOST_NESTED:
            raise ToolError(f"{_MOST_NESTED} synchronous tools wait for calls of their own; does one call itself?")
        self._nested += 1
        try:
            return await self._run_in(self._nested_pool, entry, execution)
        finally:
            self._nested -= 1

    async def _run_in(self, pool: ThreadPoolExecutor, entry: RegisteredTool, execution: ToolExecution) -> Any:
        context = contextvars.copy_context()
        context.run(_IN_BODY.set, True)
        native = AbortController()
        given = execution.signal
        cancelled: asyncio.CancelledError | None = None
        with AbortSignal.any((given, native.signal)) as fused:
            execution.signal = fused
            job = pool.submit(context.run, _outcome, entry, execution)
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
        pools = [pool for pool in (self._pool, self._nested_pool) if pool is not None]
        self._pool = self._nested_pool = None
        if not pools:
            return
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def wait() -> None:
            for pool in pools:
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
