"""Making work: output that is read piece by piece, and async functions as jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ...errors import describe_exception
from ...kernel.abort import AbortController
from .records import JobOutcome, JobWork

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal

__all__ = ["JobOutput", "JobRun", "task_work"]


class JobOutput:
    """Output as it comes, read piece by piece; of what nobody reads in time the end is kept.

    Parameters:
        keep_chars: how many unread characters are kept.
    """

    def __init__(self, keep_chars: int = 1_000_000) -> None:
        self._keep = keep_chars
        self._pieces: list[str] = []
        self._size = 0
        self._dropped = 0

    def write(self, text: str) -> None:
        """Add output."""
        self._pieces.append(text)
        self._size += len(text)
        # Not at every piece, so that many small ones stay cheap.
        if self._size > 2 * self._keep:
            self._trim()

    def read_new(self) -> str:
        """Return what came since the last time, with a mark where the beginning of it was dropped."""
        self._trim()
        text, dropped = "".join(self._pieces), self._dropped
        self._pieces, self._size, self._dropped = [], 0, 0
        return f"[{dropped} characters dropped]\n{text}" if dropped else text

    def _trim(self) -> None:
        surplus = self._size - self._keep
        if surplus > 0:
            self._pieces = ["".join(self._pieces)[surplus:]]
            self._size -= surplus
            self._dropped += surplus


class JobRun:
    """What an async function that runs as a job gets: a signal, and somewhere to write."""

    def __init__(self, signal: AbortSignal, output: JobOutput) -> None:
        self.signal = signal
        self._output = output

    def write(self, text: str) -> None:
        """Add to the output that ``job_output`` reads."""
        self._output.write(text)


def task_work(body: Callable[[JobRun], Awaitable[str | None]], *, keep_chars: int = 1_000_000) -> Callable[[], JobWork]:
    """Make an async function the ``run`` of a job.

    The job is ``completed`` when it returns; a text that it returns is added to the output. When
    the job is cancelled, the signal fires and the function is cancelled at its next await; if it
    ends by that, the job is ``killed``. Anything that it raises makes the job ``failed``.

    Parameters:
        body: the function; gets a :class:`JobRun`.
        keep_chars: how many unread characters of output are kept.
    """

    def run() -> JobWork:
        output, controller = JobOutput(keep_chars), AbortController()
        task = asyncio.ensure_future(_run_body(body, JobRun(controller.signal, output), output))

        def cancel(reason: str | None) -> None:
            controller.abort(reason)
            task.cancel()

        return JobWork(cancel, _outcome_of(task, controller.signal), output.read_new)

    return run


async def _run_body(body: Callable[[JobRun], Awaitable[str | None]], run: JobRun, output: JobOutput) -> None:
    text = await body(run)
    if text:
        output.write(text)


async def _outcome_of(task: asyncio.Future[None], signal: AbortSignal) -> JobOutcome:
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        # Nobody waits for the outcome any more, so nobody would stop the task either.
        task.cancel()
        raise
    if task.cancelled():
        return JobOutcome("killed", str(signal.reason) if signal.reason else None)
    error = task.exception()
    return JobOutcome() if error is None else JobOutcome("failed", describe_exception(error))
