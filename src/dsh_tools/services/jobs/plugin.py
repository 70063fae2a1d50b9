"""``ctx.jobs``: the service as each context sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pydantic

from ...kernel.abort import NEVER
from .records import CancelOutcome, JobHandle, JobInfo, JobRead, JobWork
from .service import JobService

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal
    from ...kernel.context import Context
    from ...kernel.effect import Disposer
    from ...tools.execution import AgentLike

__all__ = ["Jobs", "JobsConfig", "JobsPlugin"]


class JobsConfig(pydantic.BaseModel):
    """Configuration of the jobs service.

    Parameters:
        max_concurrent_jobs_per_owner: how many jobs of one agent may be alive at once (HOST-172).
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    max_concurrent_jobs_per_owner: int = pydantic.Field(default=10, ge=1, strict=True)


class Jobs:
    """The jobs service bound to one context.

    Wherever a ``caller`` is asked for, it is the agent on whose behalf something is done; None
    reaches only the jobs that have no owner.
    """

    def __init__(self, service: JobService, context: Context) -> None:
        self._service = service
        self._context = context

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
        """Start a job and return its handle.

        Parameters:
            kind: what sort of work it is; ids are ``<kind>-<n>``.
            label: what a person reads about it.
            run: called once, when all checks have passed; returns the work. What it raises goes out,
                and nothing is left of the job.
            owner: the agent that the job belongs to.
            output_limit_bytes: how long the text may be that ``job_output`` gives a model at a time.
            signal: the starting call's signal; where it has fired no job is started. Later it plays no part.

        Raises:
            JobError: nobody looks after jobs here, something is wrong with the parameters, or the
                owner has too many jobs; the code says which.
            AbortError: the signal has fired.
        """
        return self._service.start(
            kind=kind, label=label, run=run, owner=owner, output_limit_bytes=output_limit_bytes, signal=signal
        )

    def get(self, job_id: str, caller: AgentLike | None = None) -> JobInfo:
        """Return a snapshot of a job; consumes nothing (HOST-175).

        Raises:
            JobError: there is no such job, or it belongs to another session.
        """
        return self._service.get(job_id, caller)

    def list(self, caller: AgentLike | None = None) -> list[JobInfo]:
        """Return snapshots of all jobs that the caller may see, oldest first."""
        return self._service.list(caller)

    def read(self, job_id: str, caller: AgentLike | None = None) -> JobRead:
        """Return output and a snapshot (HOST-176).

        Of work with output to read it is what came since the last read, whoever read; of other
        work nothing until its end, and then the whole, each time. Reading a job that is over
        counts as having learned of its end.
        """
        return self._service.read(job_id, caller)

    async def wait(
        self, job_id: str, caller: AgentLike | None = None, *, timeout_ms: float, signal: AbortSignal = NEVER
    ) -> JobInfo:
        """Wait until a job is over or ``timeout_ms`` milliseconds are, and return a snapshot (HOST-178).

        Raises:
            JobError: the time is no positive finite number, or the job is out of reach.
            AbortError: ``wait aborted``: the signal fired first; the job goes on.
        """
        return await self._service.wait(job_id, caller, timeout_ms, signal)

    def cancel(self, job_id: str, caller: AgentLike | None = None, reason: str | None = None) -> CancelOutcome:
        """Ask a job to stop; how it ends is what its work reports (HOST-177).

        What the work's own ``cancel`` raises goes out, and changes nothing.
        """
        return self._service.cancel(job_id, caller, reason)

    def look_after(self) -> Disposer:
        """Say that this context looks after the jobs of its scope's agents, or of everybody.

        Without anybody who does, no job can be started: nobody could ever read or stop it (HOST-170, 183).
        """
        service, scope = self._service, self._context.scope
        return self._context.effect(lambda: service.add_controller(scope), "job controller")


class _Bound(JobService):
    """The service as the kernel keeps it: every context gets its own face."""

    def for_context(self, context: Context) -> Jobs:
        """Return the face for one context."""
        return Jobs(self, context)


class JobsPlugin:
    """Provides ``ctx.jobs``."""

    name = "jobs"
    Config = JobsConfig

    def apply(self, ctx: Context, config: JobsConfig) -> None:
        """Provide the service; on disposal cancel all jobs and wait for them."""
        service = _Bound(ctx, config.max_concurrent_jobs_per_owner)
        ctx.effect(lambda: service.dispose, "background jobs")
        ctx.provide("jobs", service)
