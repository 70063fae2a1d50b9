"""The service: starts jobs, finds them for those who may see them, and ends them."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from ...errors import AbortError, InactiveEffectError, JobError
from ...kernel.abort import NEVER
from ...kernel.tasks import outlast
from ..agents import session_of
from .job import Job
from .records import JOB_FINISHED, JOBS_CHANGE, CancelOutcome, JobHandle, JobInfo, JobOutcome, JobRead, JobWork

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal
    from ...kernel.context import Context
    from ...kernel.effect import Disposer
    from ...kernel.scope import Scope
    from ...tools.execution import AgentLike

__all__ = ["JobService"]

_log = logging.getLogger("dsh_tools")
_MAX_SAFE = 2**53 - 1


class JobService:
    """All jobs of an application.

    Parameters:
        context: the context that provides the service.
        max_per_owner: how many jobs of one owner may be alive; those without an owner count together (HOST-172).
    """

    def __init__(self, context: Context, max_per_owner: int = 10) -> None:
        self._context = context
        self._max_per_owner = max_per_owner
        self._jobs: dict[str, Job] = {}
        self._numbers: dict[str, int] = {}
        self._controllers: list[Scope | None] = []
        self._owners: dict[AgentLike, Disposer] = {}
        self._closed = False

    # ── starting ──────────────────────────────────────────────────────────────

    def start(
        self,
        *,
        kind: str,
        label: str,
        run: Callable[[], JobWork],
        owner: AgentLike | None = None,
        output_limit_bytes: int | None = None,
        signal: AbortSignal = NEVER,
    ) -> JobHandle:
        """Start a job and return its handle; see :meth:`Jobs.start`. Checks come in the contract's order (HOST-170)."""
        if signal.aborted:
            raise AbortError("aborted before the job could start")
        if self._closed or not self._is_controlled(owner):
            raise JobError("background jobs are not available: nobody here could look after one", "NO_JOB_CONTROLLER")
        if not kind:
            raise JobError("a job's kind cannot be empty", "INVALID_JOB")
        if not label:
            raise JobError("a job's label cannot be empty", "INVALID_JOB")
        limit: object = output_limit_bytes
        if limit is not None and (type(limit) is not int or not 0 < limit <= _MAX_SAFE):
            raise JobError(f"outputLimitBytes must be a positive integer, got {limit!r}", "INVALID_JOB")
        self._check_owner(owner)
        alive = sum(1 for job in self._jobs.values() if job.owner is owner and not job.is_over)
        if alive >= self._max_per_owner:
            raise JobError(
                f"{alive} background jobs are running already, the most there may be; wait for one or cancel one",
                "TOO_MANY_JOBS",
            )
        if owner is not None:
            self._attend(owner)
        work = run()
        number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
        job = Job(f"{kind}-{number}", kind, label, work, owner, output_limit_bytes)
        self._jobs[job.id] = job
        job.watcher = asyncio.get_running_loop().create_task(self._watch(job))
        self._changed()
        return JobHandle(job.id)

    def add_controller(self, scope: Scope | None) -> Callable[[], None]:
        """Say that somebody looks after the jobs of this scope's agents, or of everybody; return what ends it."""
        self._controllers.append(scope)
        return lambda: self._controllers.remove(scope)

    def _is_controlled(self, owner: AgentLike | None) -> bool:
        scope = None if owner is None else owner.scope
        chain = () if scope is None else scope.chain()
        return any(key is None or key in chain for key in self._controllers)

    def _check_owner(self, owner: AgentLike | None) -> None:
        agents = cast("Iterable[object] | None", self._context.get("agents"))
        if owner is not None and agents is not None and not any(agent is owner for agent in agents):
            raise JobError("the owner of a job must be an agent that is alive", "INVALID_JOB_OWNER")

    def _attend(self, owner: AgentLike) -> None:
        """Make the owner's end the end of its jobs, if it has a context that ends."""
        context = cast("Context | None", getattr(owner, "ctx", None))
        if owner in self._owners or context is None:
            return
        try:
            self._owners[owner] = context.effect(lambda: lambda: self._owner_ended(owner), "background jobs")
        except InactiveEffectError as error:
            raise JobError("the owner of a job must be an agent that is alive", "INVALID_JOB_OWNER") from error

    async def _watch(self, job: Job) -> None:
        outcome = await job.outcome()
        if job.settle(outcome):
            self._changed()
            if not self._closed:
                scope = None if job.owner is None else job.owner.scope
                self._context.bus.emit(JOB_FINISHED, job.finished(), scope=scope)

    # ── looking ───────────────────────────────────────────────────────────────

    def get(self, job_id: str, caller: AgentLike | None) -> JobInfo:
        """Return a snapshot; consumes nothing (HOST-175)."""
        return self._find(job_id, caller).info()

    def list(self, caller: AgentLike | None) -> list[JobInfo]:
        """Return snapshots of the jobs that the caller may see, oldest first."""
        return [job.info() for job in self._jobs.values() if _may_see(job, caller)]

    def read(self, job_id: str, caller: AgentLike | None) -> JobRead:
        """Return output that nobody has read, or the final output; see :meth:`Jobs.read`."""
        job = self._find(job_id, caller)
        text = job.read()
        return JobRead(text, job.info())

    async def wait(
        self, job_id: str, caller: AgentLike | None, timeout_ms: float, signal: AbortSignal = NEVER
    ) -> JobInfo:
        """Wait for the end of a job; see :meth:`Jobs.wait`."""
        limit: Any = timeout_ms
        if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not math.isfinite(limit) or limit <= 0:
            raise JobError(f"the time to wait must be a positive number of milliseconds, got {limit!r}", "INVALID_WAIT")
        return await self._find(job_id, caller).wait(limit / 1000, signal)

    def cancel(self, job_id: str, caller: AgentLike | None, reason: str | None = None) -> CancelOutcome:
        """Ask a job to stop; see :meth:`Jobs.cancel`."""
        if not self._find(job_id, caller).cancel(reason):
            return "already-finished"
        self._changed()
        return "cancellation-requested"

    def _find(self, job_id: str, caller: AgentLike | None) -> Job:
        job = self._jobs.get(job_id)
        if job is None:
            raise JobError(f"unknown job {job_id}", "UNKNOWN_JOB")
        if not _may_see(job, caller):
            raise JobError(f"job {job_id} belongs to another session", "FOREIGN_JOB")
        return job

    def _changed(self) -> None:
        self._context.bus.emit(JOBS_CHANGE)

    # ── ending ────────────────────────────────────────────────────────────────

    async def _owner_ended(self, owner: AgentLike) -> None:
        """Cancel an owner's jobs, wait for them, and forget them and their owner (HOST-181)."""
        self._owners.pop(owner, None)
        await self._end([job for job in self._jobs.values() if job.owner is owner], "its agent has ended")

    async def dispose(self) -> None:
        """Cancel everything and wait for it; nobody is told of completions any more (HOST-182)."""
        self._closed = True
        await self._end(list(self._jobs.values()), "the jobs service ends")
        owners, self._owners = self._owners, {}
        for detach in owners.values():
            await detach()

    async def _end(self, jobs: list[Job], reason: str) -> None:
        for job in jobs:
            job.reported = True
            try:
                job.cancel(reason)
            except Exception:
                _log.warning("job %s could not be cancelled and may go on without anybody", job.id, exc_info=True)
                job.settle(JobOutcome("failed", "could not be cancelled"))
                if job.watcher is not None:
                    job.watcher.cancel()
        for job in jobs:
            if job.watcher is not None:
                await outlast(job.watcher)
            self._jobs.pop(job.id, None)
        if jobs:
            self._changed()


def _may_see(job: Job, caller: AgentLike | None) -> bool:
    """Whether a caller is on the job's side of the fence (HOST-174)."""
    if job.owner is None or job.owner is caller:
        return True
    log = session_of(caller)
    return log is not None and log.id == job.owner_session
