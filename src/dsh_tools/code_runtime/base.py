"""What both runtimes share: take a worker, let it run one program, see it off (CODE-136, 147, 156, 174)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from ..errors import CodeRuntimeError
from ..kernel.tasks import see_out
from .bindings import check_bindings
from .budgets import RuntimeConfig
from .ledger import Ledger
from .pool import Poolable, WorkerPool, WorkerStartError
from .run import Run, abort_error
from .seam import CodeRunError, CodeRunRequest, CodeRunResult

__all__ = ["PooledRuntime", "Worker"]

_DISPOSED = CodeRunError("abort", "runtime disposed")
_CANCELLED = CodeRunError("abort", "cancelled")


class Worker(Poolable, Protocol):
    """A process that runs one program."""

    def begin(self, run: Run) -> None:
        """Hand the program over. What comes of it, its end included, goes to ``run``."""
        ...


_W = TypeVar("_W", bound=Worker)


class PooledRuntime(ABC, Generic[_W]):
    """A code runtime with a pool of single-use workers.

    Parameters:
        config: budgets and pool sizes; the defaults where None.
    """

    def __init__(self, config: RuntimeConfig | None = None) -> None:
        self.config = RuntimeConfig() if config is None else config
        self._pool = self._make_pool(self._start_worker)
        self._runs: dict[asyncio.Task[CodeRunResult], Run] = {}
        self._disposal: asyncio.Task[None] | None = None

    def prewarm(self) -> None:
        """Begin to start workers ahead of the first run, which starts its own otherwise. Needs an event loop.

        Raises:
            CodeRuntimeError: the runtime is disposed.
        """
        self._check_alive()
        self._pool.fill()

    async def warm(self) -> None:
        """Start workers ahead of the first run, and wait until they stand ready.

        Raises:
            CodeRuntimeError: the runtime is disposed.
        """
        self._check_alive()
        await self._pool.warm()

    async def run(self, request: CodeRunRequest) -> CodeRunResult:
        """Run one program to its end; see :meth:`CodeRuntime.run`.

        A cancelled caller gets its ``CancelledError`` after the program has been stopped.
        """
        self._check_alive()
        check_bindings(request.bindings)
        signal = request.signal
        if signal is not None and signal.aborted:
            return Ledger(self.config.max_output_bytes).failure(abort_error(signal.reason))
        run = Run(request, self.config)
        task = asyncio.ensure_future(self._execute(run))
        self._runs[task] = run
        task.add_done_callback(self._runs.pop)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            run.fail(_CANCELLED)
            await see_out(task)
            raise
        return task.result()

    async def dispose(self) -> None:
        """End every run, and wait until no process, pipe, task or folder of the runtime is left."""
        if self._disposal is None:
            self._disposal = asyncio.ensure_future(self._dispose())
        await see_out(self._disposal)

    @abstractmethod
    async def _start_worker(self) -> _W:
        """Start one worker and wait until it is ready for a program."""

    def _make_pool(self, start: Callable[[], Coroutine[Any, Any, _W]]) -> WorkerPool[_W]:
        return WorkerPool(start, self.config.pool_size, self.config.max_idle_seconds)

    def _pool_for(self, run: Run) -> WorkerPool[_W]:
        """Return the pool that a run takes its worker from; for subclasses with several."""
        return self._pool

    async def _release(self) -> None:
        """Let go of what is left after the last worker; for subclasses."""

    def _check_alive(self) -> None:
        if self._disposal is not None:
            raise CodeRuntimeError("run() after disposal")

    async def _dispose(self) -> None:
        for run in self._runs.values():
            run.fail(_DISPOSED)
        while self._runs:
            await asyncio.wait(list(self._runs))
        await self._pool.dispose()
        await self._release()

    async def _execute(self, run: Run) -> CodeRunResult:
        try:
            worker = await self._take_worker(run)
            if worker is not None:
                try:
                    worker.begin(run)
                    await asyncio.wait([run.outcome])
                finally:
                    await worker.close()
        except BaseException:
            await run.release()
            raise
        return await run.finish()

    async def _take_worker(self, run: Run) -> _W | None:
        """Wait for a worker; None when the run is over before there is one."""
        taking = asyncio.ensure_future(self._pool_for(run).take())
        try:
            await asyncio.wait((taking, run.outcome), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            run.fail(_CANCELLED)
        if not taking.done():
            taking.cancel()
            await asyncio.wait([taking])
        if taking.cancelled():
            return None
        error = taking.exception()
        if isinstance(error, WorkerStartError):
            run.fail(error.error)
            return None
        return taking.result()
