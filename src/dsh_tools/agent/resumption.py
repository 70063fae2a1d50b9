"""A turn that waits, on its way to go on: until something of it has run, whatever stops it leaves it waiting."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from ..session import DurableModelCall, EventLog
from ..session.events import TurnEnd, Waiting
from .resume import PendingCall

__all__ = ["Resumption"]


class Resumption:
    """What a turn goes on with, and how far it has come.

    Parameters:
        log: the session's log, at the end of the turn that waits.
        calls: its calls, in the model's order.
    """

    def __init__(self, log: EventLog, calls: Sequence[PendingCall]) -> None:
        self.calls = calls
        self._interrupted = _was_interrupted(log)
        self._followed: list[DurableModelCall] = []
        self._begun = False
        self._over = False

    def begin(self) -> None:
        """Note that the calls are handed to their lane; from now on each of them ends, or waits by itself."""
        self._begun = True

    def follow(self, call: DurableModelCall) -> None:
        """Watch whether a call begins."""
        self._followed.append(call)

    def end(self) -> None:
        """Note that the calls have their results."""
        self._over = True

    @property
    def waits(self) -> bool:
        """Whether the turn still waits, whatever ends it: its calls have not been looked at yet."""
        return not self._begun

    @property
    def may_be_left(self) -> bool:
        """Whether the turn can be left waiting: nothing of its calls has run since."""
        return not self._over and not any(call.has_begun for call in self._followed)

    @property
    def reason(self) -> Waiting:
        """The end of a turn that is left waiting. What a process that died has left is no more complete than before."""
        return Waiting(interrupted=True if self._interrupted and self.may_be_left else UNSET)


def _was_interrupted(log: EventLog) -> bool:
    for event in reversed(log.events):
        if event.type == TurnEnd.event_type:
            return event.data["reason"].get("interrupted") is True
    return False
