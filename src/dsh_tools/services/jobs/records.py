"""The values of the jobs service, and its hook points."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from ...kernel.hooks import EmitHook

if TYPE_CHECKING:
    from ...tools.execution import AgentLike

__all__ = [
    "JOBS_CHANGE",
    "JOB_FINISHED",
    "CancelOutcome",
    "FinishedJob",
    "JobHandle",
    "JobInfo",
    "JobOutcome",
    "JobRead",
    "JobStatus",
    "JobWork",
]

JobStatus: TypeAlias = Literal["running", "stopping", "completed", "killed", "failed"]
"""Where a job is in its life; the last three are final (HOST-173)."""

CancelOutcome: TypeAlias = Literal["cancellation-requested", "already-finished"]


class JobHandle(msgspec.Struct, frozen=True, tag_field="kind", tag="background", rename="camel"):
    """What starting a job gives; its JSON form is a tool's value (HOST-196)."""

    job_id: str


class JobOutcome(msgspec.Struct, frozen=True):
    """How a job ended, in the words of its own work.

    Parameters:
        status: ``completed``, ``killed`` or ``failed``.
        detail: more about it on one line, such as ``exit code: 1``.
        output: the whole output, of work that has none to read while it runs.
    """

    status: Literal["completed", "killed", "failed"] = "completed"
    detail: str | None = None
    output: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class JobWork:
    """What does a job (HOST-171).

    Parameters:
        cancel: asks the work to stop, with a reason or None; returns at once.
        done: awaited once; gives the outcome. What it raises makes the job ``failed``.
        read_output: returns what came since the last call; None for work whose output comes at its end.
    """

    cancel: Callable[[str | None], object]
    done: Awaitable[JobOutcome]
    read_output: Callable[[], str] | None = None


class JobInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A snapshot of a job (HOST-175).

    Parameters:
        started_at, finished_at: milliseconds since the epoch; the latter only of a job that is over.
        output_limit_bytes: how long the text may be that a model reads of it.
        owner_session: the session it belongs to, if it belongs to one.
        reported: whether somebody has learned of its end.
    """

    id: str
    kind: str
    label: str
    status: JobStatus
    started_at: int
    reported: bool
    detail: str | UnsetType = UNSET
    finished_at: int | UnsetType = UNSET
    output_limit_bytes: int | UnsetType = UNSET
    owner_session: str | UnsetType = UNSET

    @property
    def is_over(self) -> bool:
        """Whether the status is final."""
        return self.finished_at is not UNSET


class JobRead(msgspec.Struct, frozen=True):
    """Output that was read, and the job at that moment."""

    text: str
    job: JobInfo


class FinishedJob(msgspec.Struct, frozen=True, eq=False):
    """A job that is over, for completion listeners.

    ``claim()`` answers True to the first that asks and False to all others, so that one
    completion is told once, however many listeners there are (HOST-183).
    """

    job: JobInfo
    owner: AgentLike | None
    output: str
    claim: Callable[[], bool]


JOBS_CHANGE: EmitHook[()] = EmitHook("jobs/change")
"""Observe that some job began, changed its status or was forgotten."""

JOB_FINISHED: EmitHook[FinishedJob] = EmitHook("jobs/finished")
"""Observe the end of a job; dispatched by the owner's scope, after everything else (HOST-179)."""
