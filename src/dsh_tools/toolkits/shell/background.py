"""A command as a background job (HOST-200)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...kernel.abort import AbortController
from ...services.jobs import JobOutcome, JobOutput, JobWork

if TYPE_CHECKING:
    from .executor import Command, Executor, Finished

__all__ = ["command_work"]


def command_work(executor: Executor, command: Command) -> JobWork:
    """Start a command and return the work of its job."""
    output, controller = JobOutput(), AbortController()
    task = asyncio.ensure_future(executor.run(command, controller.signal, output.write))
    return JobWork(controller.abort, _outcome(task), output.read_new)


async def _outcome(task: asyncio.Future[Finished]) -> JobOutcome:
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        # Nobody waits for the outcome any more, so nobody would stop the command either.
        task.cancel()
        await asyncio.wait([task])
        raise
    ended = task.result().outcome
    how = f"killed by signal: {ended.signal}" if ended.signal is not None else f"exit code: {ended.exit_code}"
    if ended.stopped:
        return JobOutcome("killed", how)
    return JobOutcome("completed", f"timed out, {how}" if ended.timed_out else how)
