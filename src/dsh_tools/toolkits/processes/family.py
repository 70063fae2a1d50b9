"""A program and everything it has started: found, signalled, and seen to be gone."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import psutil

__all__ = ["MARK", "Family"]

MARK = "DSH_TOOLS_RUN"
"""The environment variable by which processes are recognised that have left their session."""


class Family:
    """The processes of one run: those in its session, and those that carry its mark.

    A shell's background jobs stay in the session; what detaches itself from it (``setsid``, a daemon)
    still has the mark in its environment.

    Parameters:
        leader: the pid of the first process, which leads a session of its own and is not reaped yet: so
            its number belongs to nobody else.
        mark: the value of :data:`MARK` in its environment.
        before: the pids that were there before it started; they are not looked at.
    """

    def __init__(self, leader: int, mark: str, before: frozenset[int]) -> None:
        self._leader = leader
        self._mark = mark
        self._before = before

    def members(self) -> list[psutil.Process]:
        """Return the processes that are alive now, without the leader."""
        return [process for pid in psutil.pids() if pid != self._leader and (process := self._member(pid))]

    def signal(self, number: int) -> None:
        """Send a signal to all of them, the leader included."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._leader, number)
        for process in self.members():
            with suppress(psutil.Error, OSError):
                if os.getpgid(process.pid) != self._leader:
                    process.send_signal(number)

    def kill(self) -> None:
        """End all of them at once."""
        self.signal(signal.SIGKILL)

    def _member(self, pid: int) -> psutil.Process | None:
        try:
            if os.getsid(pid) != self._leader and not self._carries_mark(pid):
                return None
            process = psutil.Process(pid)
            # What is dead but not reaped does nothing any more; its parent may never reap it.
            return None if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD) else process
        except (OSError, psutil.Error):
            return None

    def _carries_mark(self, pid: int) -> bool:
        if pid in self._before:
            return False
        return psutil.Process(pid).environ().get(MARK) == self._mark
