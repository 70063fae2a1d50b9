"""The end of a log that is not stored yet, and the task that stores it."""

from __future__ import annotations

import asyncio
import logging

from ..errors import SessionError
from .events import Event
from .store import SessionWriter

__all__ = ["Tail"]

_log = logging.getLogger("dsh_tools")


class Tail:
    """Stores events behind a log's back, and lets it wait for them.

    Events of one tick of the loop go out as one batch, hence one transaction; while a batch is
    being written, the next one gathers. After a failure nothing is stored in the background any
    more: the events stay here, and every ``flush`` tries again and raises if it fails again, so
    that a loss cannot go unnoticed.

    Parameters:
        writer: where the events go.
        stored: how many events of the log are stored already.
    """

    def __init__(self, writer: SessionWriter, stored: int) -> None:
        self._writer = writer
        self._stored = stored
        self._waiting: list[Event] = []
        self._task: asyncio.Task[None] | None = None
        self._scheduled = False
        self._failure: SessionError | None = None
        self._flushes: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def stored(self) -> int:
        """How many events of the log are durable."""
        return self._stored

    @property
    def failure(self) -> SessionError | None:
        """Why storing stopped, if it did."""
        return self._failure

    def add(self, event: Event) -> None:
        """Take an event that was appended; it goes out at the end of this tick of the loop."""
        self._waiting.append(event)
        if self._scheduled or self._task is not None or self._failure is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # Without a loop there is nobody to write; flush() will, in the loop that calls it.
            return
        self._scheduled = True
        loop.call_soon(self._start)

    async def flush(self) -> None:
        """Wait until everything that was added before this call is stored.

        Being cancelled while waiting stops the waiting, not the storing.

        Raises:
            SessionError: the store refused; the events are still here, and the next call tries again.
        """
        target = self._stored + len(self._waiting)
        if target == self._stored:
            return
        self._failure = None
        stored = asyncio.get_running_loop().create_future()
        self._flushes.append((target, stored))
        self._start()
        await stored

    async def close(self) -> None:
        """Store what is left, then give the writer back, whether or not that worked.

        Raises:
            SessionError: the rest could not be stored.
        """
        try:
            await self.flush()
        finally:
            await self._writer.close()

    def _start(self) -> None:
        self._scheduled = False
        if self._task is None and self._waiting:
            self._task = asyncio.create_task(self._drain(), name="session-tail")

    async def _drain(self) -> None:
        try:
            while self._waiting:
                batch = tuple(self._waiting)
                await self._writer.append(batch)
                # Events that came in meanwhile stand behind the batch.
                del self._waiting[: len(batch)]
                self._stored += len(batch)
                self._answer()
        except SessionError as error:
            self._fail(error)
        except Exception as error:
            failure = SessionError(f"the session store failed: {error}", "STORE_FAILED")
            failure.__cause__ = error
            self._fail(failure)
        finally:
            self._task = None
            # Left over only if this task was cancelled: nobody would answer them any more.
            for _target, stored in self._flushes:
                stored.cancel()
            self._flushes.clear()

    def _answer(self) -> None:
        """Release the flushes whose events are stored."""
        for _target, stored in [entry for entry in self._flushes if entry[0] <= self._stored]:
            if not stored.done():
                stored.set_result(None)
        self._flushes = [entry for entry in self._flushes if entry[0] > self._stored]

    def _fail(self, failure: SessionError) -> None:
        self._failure = failure
        _log.error("session events are not stored: %s", failure)
        for _target, stored in self._flushes:
            if not stored.done():
                stored.set_exception(failure)
        self._flushes.clear()
