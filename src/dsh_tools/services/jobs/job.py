"""One job: its work, its status, and whoever waits for it."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from msgspec import UNSET

from ...errors import AbortError, describe_exception
from ..agents import session_of
from .records import FinishedJob, JobInfo, JobOutcome, JobStatus, JobWork

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal
    from ...tools.execution import AgentLike

__all__ = ["Job"]

_log = logging.getLogger("dsh_tools")


class Job:
    """The service's own record of a job."""

    def __init__(
        self, job_id: str, kind: str, label: str, work: JobWork, owner: AgentLike | None, limit: int | None
    ) -> None:
        self.id = job_id
        self.kind = kind
        self.label = label
        self.work = work
        self.owner = owner
        self.limit = limit
        self.status: JobStatus = "running"
        self.reported = False
        log = session_of(owner)
        self.owner_session = None if log is None else log.id
        self._detail: str | None = None
        self._started_at = time.time_ns() // 1_000_000
        self._finished_at: int | None = None
        self._output = ""
        self._told = False
        self._waiters: set[asyncio.Future[None]] = set()
        self.watcher: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the status is final."""
        return self._finished_at is not None

    def info(self) -> JobInfo:
        """Return a fresh snapshot."""
        return JobInfo(
            self.id,
            self.kind,
            self.label,
            self.status,
            self._started_at,
            self.reported,
            UNSET if self._detail is None else self._detail,
            UNSET if self._finished_at is None else self._finished_at,
            UNSET if self.limit is None else self.limit,
            UNSET if self.owner_session is None else self.owner_session,
        )

    def finished(self) -> FinishedJob:
        """Return what completion listeners get; only work that has its output at the end shows it there."""
        output = self._output if self.work.read_output is None else ""
        return FinishedJob(self.info(), self.owner, output, self._claim)

    def _claim(self) -> bool:
        first = not self._told and not self.reported
        self._told = True
        return first

    def read(self) -> str:
        """Return new output, or the final output where there is no other (HOST-176)."""
        text = self._output if self.work.read_output is None else self.work.read_output()
        if self.is_over:
            self.reported = True
        return text

    def cancel(self, reason: str | None) -> bool:
        """Ask the work to stop; False where it has ended. What its ``cancel`` raises changes nothing (HOST-177)."""
        if self.is_over:
            return False
        self.work.cancel(reason)
        # The cancellation may have ended the work on the spot.
        if not self.is_over:
            self.status = "stopping"
        self.reported = True
        return True

    async def outcome(self) -> JobOutcome:
        """Await the work; what it raises is a failure of the job (HOST-173)."""
        try:
            return await self.work.done
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return JobOutcome("killed")
        except Exception as error:
            return JobOutcome("failed", describe_exception(error))

    def settle(self, outcome: JobOutcome) -> bool:
        """Record the end and release the waiters; False where it has been recorded already (HOST-179)."""
        if self.is_over:
            return False
        self.status = outcome.status
        self._detail = outcome.detail
        self._output = outcome.output
        self._finished_at = time.time_ns() // 1_000_000
        # A waiter that was aborted before this is done already, and learns nothing (HOST-178).
        waiting = [waiter for waiter in self._waiters if not waiter.done()]
        if waiting:
            self.reported = True
        for waiter in waiting:
            waiter.set_result(None)
        return True

    async def wait(self, seconds: float, signal: AbortSignal) -> JobInfo:
        """Wait until the job is over or the time is up, and return a snapshot (HOST-178).

        Raises:
            AbortError: the signal fired first; the job goes on.
        """
        if self.is_over:
            self.reported = True
            return self.info()
        signal_error = AbortError("wait aborted")
        if signal.aborted:
            raise signal_error
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.add(waiter)

        def give_up() -> None:
            if not waiter.done():
                waiter.set_exception(signal_error)

        def time_is_up() -> None:
            if not waiter.done():
                waiter.set_result(None)

        timer = loop.call_later(seconds, time_is_up)
        remove = signal.add_callback(give_up)
        try:
            await waiter
        finally:
            timer.cancel()
            remove()
            self._waiters.discard(waiter)
        return self.info()
