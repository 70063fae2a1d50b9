"""The clock of what a program computes (CODE-141, 142)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import psutil

__all__ = ["CpuMeter"]

_SHORTEST_PAUSE = 0.025
_LONGEST_PAUSE = 0.25


class CpuMeter:
    """Watches the CPU time of one process and calls back once when a budget is used up.

    Time that the process spends waiting costs nothing. What it used before the meter started, its
    warm-up, is not counted. A sample is due every 25 ms where the end is near, and at most every
    250 ms: the longest overshoot is one pause.

    Parameters:
        pid: the process.
        budget_ms: CPU time from now on, user and system together, of all its threads.
        on_exhausted: called once, in the event loop.
    """

    __slots__ = ("_baseline", "_budget", "_on_exhausted", "_process", "_timer")

    def __init__(self, pid: int, budget_ms: float, on_exhausted: Callable[[], None]) -> None:
        self._budget = budget_ms / 1000
        self._on_exhausted = on_exhausted
        self._process: psutil.Process | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._baseline = 0.0
        try:
            self._process = psutil.Process(pid)
            self._baseline = self._used()
        except psutil.Error:
            return  # it is gone already; whoever waits for its exit will say so
        self._schedule(self._budget)

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _used(self) -> float:
        if self._process is None:
            return 0.0
        times = self._process.cpu_times()
        return times.user + times.system

    def _schedule(self, remaining: float) -> None:
        # A process has more threads than one, so its clock may run faster than the wall's.
        pause = min(max(remaining / 8, _SHORTEST_PAUSE), _LONGEST_PAUSE)
        self._timer = asyncio.get_running_loop().call_later(pause, self._sample)

    def _sample(self) -> None:
        self._timer = None
        try:
            used = self._used() - self._baseline
        except psutil.Error:
            return
        if used >= self._budget:
            self._on_exhausted()
        else:
            self._schedule(self._budget - used)
