"""Background jobs: work that outlives the call that started it.

Two plugins::

    ctx.plugin(JobsPlugin())
    ctx.plugin(JobToolsPlugin(), {"wait_timeout_ms": 30_000})

**Starting.** ``ctx.jobs.start(kind="bash", label="make test", owner=run.agent, run=…)`` calls ``run()`` once, which
returns a :class:`JobWork`: how to cancel it, what to await, and how to read its output. The answer is
a handle, ``{"kind": "background", "jobId": "bash-1"}``, fit to be a tool's value. :func:`task_work` makes a work of an
async function. The call's own signal plays no part any more once the job has its id (HOST-180).

**Owners.** A job belongs to the agent that started it, and only calls of the same session reach it: ids can be
guessed, the fence can't be climbed (HOST-174). Jobs without an owner are open to all. When an agent ends, its jobs
are cancelled and waited for (HOST-181). An owner has at most ``max_concurrent_jobs_per_owner`` jobs at once, and
there is no queue (HOST-172).

**Life.** ``running``, then ``stopping`` once somebody cancels, then ``completed``, ``killed`` or ``failed``,
whichever the work itself reports first (HOST-173, 177).

**For models.** :class:`JobToolsPlugin` mounts ``job_output``, ``job_list`` and ``job_cancel``, and tells an agent
when a job of its has ended that nobody has read: a busy agent at its next step, an idle one by a turn of its own,
though not more than ``max_consecutive_wakes`` times until a person has said something again (HOST-185).
"""

from __future__ import annotations

from .delivery import CompletionDelivery
from .plugin import Jobs, JobsConfig, JobsPlugin
from .records import (
    JOB_FINISHED,
    JOBS_CHANGE,
    JobHandle,
    JobInfo,
    JobOutcome,
    JobRead,
    JobStatus,
    JobWork,
)
from .service import JobService
from .tools import JobToolsConfig, JobToolsPlugin
from .work import JobOutput, JobRun, task_work

__all__ = [
    "JOBS_CHANGE",
    "JOB_FINISHED",
    "CompletionDelivery",
    "JobHandle",
    "JobInfo",
    "JobOutcome",
    "JobOutput",
    "JobRead",
    "JobRun",
    "JobService",
    "JobStatus",
    "JobToolsConfig",
    "JobToolsPlugin",
    "JobWork",
    "Jobs",
    "JobsConfig",
    "JobsPlugin",
    "task_work",
]
