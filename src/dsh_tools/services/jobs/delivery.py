"""Telling an agent that a job of its has ended (HOST-185)."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import UNSET

from ...messages import MessageSource, UserMessage, user_message
from ..agents import inbox_of, session_of
from .records import FinishedJob

if TYPE_CHECKING:
    from ...tools.execution import AgentLike

__all__ = ["CompletionDelivery", "Delivery"]

_log = logging.getLogger("dsh_tools")

Delivery: TypeAlias = Literal["wakeup", "quiet"]
_SHOWN_CHARS = 4_000


class _Wakes:
    """How often an agent was woken since a person last said something to it."""

    def __init__(self) -> None:
        self.count = 0
        self.read = 0


class CompletionDelivery:
    """Hands completion notices to the owners of jobs.

    Parameters:
        mode: ``wakeup`` may start a turn of an idle agent, ``quiet`` never does.
        max_wakes: how many turns notices may start until a person has said something.
    """

    def __init__(self, mode: Delivery = "wakeup", max_wakes: int = 3) -> None:
        self._mode: Delivery = mode
        self._max_wakes = max_wakes
        self._wakes: weakref.WeakKeyDictionary[Any, _Wakes] = weakref.WeakKeyDictionary()

    def deliver(self, finished: FinishedJob) -> None:
        """Tell the owner, if there is one and nobody has told it yet."""
        owner = finished.owner
        inbox = None if owner is None else inbox_of(owner)
        if owner is None or inbox is None or not finished.claim():
            return
        message = _notice(finished)
        if self._may_wake(owner):
            inbox.steer(message)
        else:
            inbox.inject(message)

    def _may_wake(self, owner: AgentLike) -> bool:
        if self._mode == "quiet" or getattr(owner, "is_idle", None) is not True:
            return False
        wakes = self._wakes.setdefault(owner, _Wakes())
        log = session_of(owner)
        if log is not None:
            heard = log.events[wakes.read :]
            wakes.read = len(log.events)
            if any(event.type == "user/message" and event.data["source"]["kind"] == "user" for event in heard):
                wakes.count = 0
        if wakes.count >= self._max_wakes:
            return False
        wakes.count += 1
        return True


def _notice(finished: FinishedJob) -> UserMessage:
    job = finished.job
    detail = "" if job.detail is UNSET else f", {job.detail}"
    text = f"[Background job {job.id} ({job.label}) has ended: {job.status}{detail}]"
    if finished.output and len(finished.output) <= _SHOWN_CHARS:
        text += f"\n{finished.output}"
    else:
        text += f"\nIts output can be read with job_output and the id {job.id}."
    return user_message(text, MessageSource("job", plugin="jobs"))
