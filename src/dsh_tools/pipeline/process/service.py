"""Runs bodies in processes: one process for each call, so many at once, and nothing left of any of them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ...errors import LossyJsonError, ToolProcessError
from ...json_value import parse_json, to_json_text
from ...kernel.abort import AbortController, AbortSignal
from ...messages import UserMessage
from ...tools.imported import ImportedBody
from ..threads import NotBegun
from .frames import End, Failure, Job, error_of, pack
from .worker import WorkerProcess, importing, search_path

if TYPE_CHECKING:
    from ...tools.execution import ToolExecution
    from ...tools.registered import RegisteredTool

__all__ = ["BodyProcesses"]

_log = logging.getLogger("dsh_tools")

# A call that has just been handed over gets the processor first; its successor can wait.
_REFILL_DELAY = 0.02
_MAX_IDLE_SECONDS = 60.0
_DISPOSED = "the tool service was disposed while the tool was running; its process has been ended"


class BodyProcesses:
    """Runs bodies in processes of their own.

    Parameters:
        max_processes: how many run at once; further ones wait.
        spares: how many processes stand ready, from the first call on.
        grace: how many seconds a body has to end by itself before it is killed.
    """

    def __init__(self, max_processes: int = 8, spares: int = 1, grace: float = 2.0) -> None:
        self._max_processes = max_processes
        self._max_spares = spares
        self._grace = grace
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._calls: set[_Call] = set()
        self._spares: dict[WorkerProcess, asyncio.TimerHandle] = {}
        self._leaving: set[asyncio.Future[End]] = set()
        self._needed: dict[str, None] = {}
        self._refill: asyncio.TimerHandle | None = None
        self._disposed = False

    @property
    def running(self) -> int:
        """How many bodies run now."""
        return len(self._calls)

    async def run(self, entry: RegisteredTool, execution: ToolExecution) -> Any:
        """Run one body in a process and return its value, when nothing of the process is left.

        Where the execution's signal fires, or the awaiting task is cancelled, the process is asked to end,
        and killed after the grace with everything that it has started.

        Raises:
            NotBegun: that happened before there was a free place.
            asyncio.CancelledError: it happened later, or the body has raised it by itself.
            HarnessError: the body has raised it; or ``TOOL_PROCESS_FAILED``, its process ended before the body did.
            Exception: what the body raised, by its text.
        """
        body = entry.imported
        assert body is not None
        native = AbortController()
        given = execution.signal
        cancelled: asyncio.CancelledError | None = None
        with AbortSignal.any((given, execution.state.caller_signal, native.signal)) as fused:
            await self._enter(fused)
            call = _Call(execution, self._learn)
            self._calls.add(call)
            try:
                job = _job(body, execution)
                worker = self._take()
                worker.begin(job, call.take)
                call.worker = worker
                execution.state.note().begin()
                remove = fused.add_callback(lambda: worker.stop(self._grace))
                while not worker.gone.done():
                    try:
                        await asyncio.shield(worker.gone)
                    except asyncio.CancelledError as error:
                        if worker.gone.done():
                            break
                        cancelled = error
                        native.abort(error)
                remove()
            finally:
                self._calls.discard(call)
                self._leave()
        end = worker.gone.result()
        execution.state.note().killed = fused.aborted and end.killed
        if cancelled is not None:
            raise cancelled
        return call.outcome(end, stopped=fused.aborted)

    async def dispose(self) -> None:
        """End all processes, those of running bodies as well, and wait until nothing of them is left."""
        self._disposed = True
        if self._refill is not None:
            self._refill.cancel()
            self._refill = None
        for worker, timer in tuple(self._spares.items()):
            timer.cancel()
            self._retire(worker)
        self._spares.clear()
        for call in self._calls:
            if call.worker is not None:
                call.fault = call.fault or ToolProcessError(_DISPOSED)
                call.worker.stop(self._grace)
                self._keep(call.worker)
        cancelled: asyncio.CancelledError | None = None
        while self._leaving:
            try:
                await asyncio.wait(tuple(self._leaving))
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    # ── places ────────────────────────────────────────────────────────────────

    async def _enter(self, signal: AbortSignal) -> None:
        """Wait for a free place.

        Raises:
            NotBegun: the signal fired, or the task was cancelled, first.
        """
        if not self._waiting and self._inside < self._max_processes:
            self._inside += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        remove = signal.add_callback(place.cancel)
        try:
            await place
        except asyncio.CancelledError as error:
            if place.cancelled():
                self._waiting.remove(place)
                self._admit()
            else:
                # The place was given just before the cancellation came.
                self._leave()
            raise NotBegun from error
        finally:
            remove()

    def _leave(self) -> None:
        self._inside -= 1
        self._admit()

    def _admit(self) -> None:
        for place in tuple(self._waiting):
            if self._inside >= self._max_processes:
                return
            if not place.done():
                # It counts from now on, although its call goes on at the next turn of the loop only.
                self._inside += 1
                self._waiting.remove(place)
                place.set_result(None)

    # ── processes ─────────────────────────────────────────────────────────────

    def _take(self) -> WorkerProcess:
        if self._disposed:
            raise ToolProcessError(_DISPOSED)
        if importing:
            # Otherwise each process would start the next one, for ever.
            raise ToolProcessError(
                f'{importing[0]} calls a tool with isolation="process" while its process imports it; '
                'put what the program does under `if __name__ == "__main__":`'
            )
        if self._refill is None and self._max_spares:
            self._refill = asyncio.get_running_loop().call_later(_REFILL_DELAY, self._fill)
        while self._spares:
            worker, timer = self._spares.popitem()
            timer.cancel()
            if not worker.gone.done():
                return worker
        try:
            return WorkerProcess()
        except OSError as error:
            raise ToolProcessError(f"the tool's process could not be started: {error.strerror or error}") from error

    def _fill(self) -> None:
        self._refill = None
        loop = asyncio.get_running_loop()
        while len(self._spares) < self._max_spares:
            try:
                worker = WorkerProcess()
            except OSError as error:
                # The next call tries again, and gets the error if it persists.
                _log.warning("a process for tools could not be started ahead: %s", error)
                return
            if self._needed:
                worker.prepare(list(self._needed))
            self._spares[worker] = loop.call_later(_MAX_IDLE_SECONDS, self._expire, worker)

    def _learn(self, modules: list[str]) -> None:
        """Note what a body has needed, for those that wait; the next body probably needs it, too."""
        new = [name for name in modules if name not in self._needed]
        self._needed.update(dict.fromkeys(new))
        if new:
            for worker in self._spares:
                worker.prepare(new)

    def _expire(self, worker: WorkerProcess) -> None:
        if self._spares.pop(worker, None) is not None:
            self._retire(worker)

    def _retire(self, worker: WorkerProcess) -> None:
        worker.kill()
        self._keep(worker)

    def _keep(self, worker: WorkerProcess) -> None:
        if not worker.gone.done():
            self._leaving.add(worker.gone)
            worker.gone.add_done_callback(self._leaving.discard)


class _Call:
    """One body in a process: what it has said so far."""

    def __init__(self, execution: ToolExecution, learn: Callable[[list[str]], None]) -> None:
        self.worker: WorkerProcess | None = None
        self.fault: Exception | None = None
        self._execution = execution
        self._learn = learn
        self._value: bytes | None = None
        self._failure: Failure | None = None

    def take(self, letter: str, payload: bytes) -> None:
        """Take one frame. What is no frame of ours is passed over."""
        try:
            # A body may have forked, and both come back: the first counts.
            if letter == "v" and self._failure is None:
                self._value = self._value or payload
            elif letter == "e" and self._value is None and self._failure is None:
                self._failure = msgspec.json.decode(payload, type=Failure)
            elif letter == "n":
                self._learn(msgspec.json.decode(payload, type=list[str]))
            elif letter == "p":
                self._execution.progress(parse_json(payload))
            elif letter == "d":
                self._execution.defer_context(msgspec.json.decode(payload, type=str | UserMessage))
            elif letter == "t":
                self._execution.conclude_turn()
        except (msgspec.MsgspecError, LossyJsonError, TypeError, ValueError) as error:
            # Half a frame of a process that was killed, or a descriptor that the body took for its own.
            _log.debug('tool "%s" has sent what cannot be read: %s', self._execution.name, error)

    def outcome(self, end: End, *, stopped: bool) -> Any:
        """Return the value, or raise what came instead."""
        if end.leftovers and not stopped:
            _log.warning('tool "%s" has left %d processes, which were ended', self._execution.name, end.leftovers)
        # What a killed process has written may be half of it, and is late anyway.
        if self._value is not None and not (stopped and end.code != 0):
            try:
                return parse_json(self._value)
            except Exception as error:
                raise ToolProcessError(f"the tool's value cannot come out of its process: {error}") from error
        failure = self._failure
        if failure is not None and not failure.cancelled:
            raise error_of(failure)
        if self.fault is not None:
            raise self.fault
        if stopped or failure is not None:
            raise asyncio.CancelledError
        raise ToolProcessError(_describe(end))


def _job(body: ImportedBody, execution: ToolExecution) -> bytes:
    job = Job(
        body.place,
        execution.name,
        execution.call_id,
        execution.root_call_id,
        to_json_text(execution.arguments),
        os.getcwd(),
        search_path(),
        dict(os.environ),
    )
    return pack(job)


def _describe(end: End) -> str:
    if end.code is None:
        how = "was killed"
    elif end.code < 0:
        how = f"was ended by signal {-end.code}"
    else:
        how = f"exited with code {end.code}"
    return f"the tool's process {how} before the tool returned"
