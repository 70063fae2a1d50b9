"""Work whose every move a test decides."""

from __future__ import annotations

import asyncio

from dsh_tools.services.jobs import JobOutcome, JobWork


class ScriptedWork:
    """Work of a job: give it to ``start`` as ``run``."""

    def __init__(self, *, streams: bool = True) -> None:
        self.done: asyncio.Future[JobOutcome] = asyncio.get_running_loop().create_future()
        self.reasons: list[str | None] = []
        self.runs = 0
        self.pending = ""
        self.ends_on_cancel: JobOutcome | None = JobOutcome("killed")
        self.cancel_error: Exception | None = None
        self._streams = streams

    def __call__(self) -> JobWork:
        self.runs += 1
        return JobWork(self.cancel, self.done, self.read if self._streams else None)

    def cancel(self, reason: str | None) -> None:
        if self.cancel_error is not None:
            raise self.cancel_error
        self.reasons.append(reason)
        if self.ends_on_cancel is not None:
            self.end(self.ends_on_cancel)

    def read(self) -> str:
        text, self.pending = self.pending, ""
        return text

    def end(self, outcome: JobOutcome | None = None) -> None:
        if not self.done.done():
            self.done.set_result(outcome or JobOutcome())


async def settled() -> None:
    """Let everything that is ready happen."""
    for _ in range(5):
        await asyncio.sleep(0)
