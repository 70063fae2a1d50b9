"""What the host does about a keeper that does not do its work, because somebody has stopped it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from .keeper import KILL_FOR, LEFTOVER_GRACE, descendants

__all__ = ["Insistence"]

_log = logging.getLogger("dsh_tools")

# How often the keeper is woken, in seconds: while a body runs, and when it is to end.
_WAKE_EVERY = 1.0
_WAKE_OFTEN = 0.1
# How much longer than the keeper's own longest time the host waits for it, in seconds.
_MARGIN = 1.0
# How long the host goes on killing in the keeper's place, in seconds.
_KILL_ITSELF_FOR = 1.0
_PAUSE = 0.02


class Insistence:
    """Wakes a keeper that was stopped, and does its work where it is kept from it.

    A signal to go on does nothing to a process that runs. One that is told to end and has not, long after the
    longest time that this may take, is killed with all that descends from it: nothing can keep that signal off.

    Parameters:
        keeper: the keeper, a child of this process.
        group: gives the worker's process group, as far as it is known.
    """

    def __init__(self, keeper: subprocess.Popen[bytes], group: Callable[[], int | None]) -> None:
        self._keeper = keeper
        self._group = group
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._ends_at: float | None = None
        self._kills_until: float | None = None
        self.survivors: tuple[int, ...] = ()

    @property
    def has_killed(self) -> bool:
        """Whether the host had to do the keeper's work."""
        return self._kills_until is not None

    def begin(self) -> None:
        """A body runs from now on, which may stop its keeper."""
        if self._timer is None:
            self._timer = self._loop.call_later(_WAKE_EVERY, self._look)

    def expect_end(self, grace: float) -> None:
        """The keeper has been told to end everything after ``grace`` seconds."""
        ends_at = self._loop.time() + max(grace, LEFTOVER_GRACE) + KILL_FOR + _MARGIN
        self._ends_at = ends_at if self._ends_at is None else min(ends_at, self._ends_at)
        self.close()
        self._look()

    def close(self) -> None:
        """The keeper is gone, or somebody else looks after it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        if self._ends_at is not None and self._loop.time() >= self._ends_at:
            self._kill_all()
            return
        with suppress(OSError):
            self._keeper.send_signal(signal.SIGCONT)
        self._timer = self._loop.call_later(_WAKE_EVERY if self._ends_at is None else _WAKE_OFTEN, self._look)

    def _kill_all(self) -> None:
        """Kill what descends from the keeper again and again, while it still adopts it; then the keeper."""
        now = time.monotonic()
        if self._kills_until is None:
            self._kills_until = now + _KILL_ITSELF_FOR
            _log.warning("the keeper of a tool's process does not answer; its processes are killed by the host")
        group = self._group()
        if group is not None:
            _kill(os.killpg, group)
        members = descendants(self._keeper.pid)
        for pid in members:
            _kill(os.kill, pid)
        if members and now < self._kills_until:
            self._timer = self._loop.call_later(_PAUSE, self._kill_all)
            return
        self.survivors = tuple(members)
        self._timer = None
        self._keeper.kill()


def _kill(how: Callable[[int, int], object], target: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        how(target, signal.SIGKILL)
