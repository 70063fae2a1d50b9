"""What a run may use: configuration, and the two clocks (CODE-130, 140 to 143)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, fields

import psutil

from ..errors import ConfigError
from ..json_value import js_number
from .seam import CodeRunError

__all__ = ["CpuMeter", "RuntimeConfig", "compute_exhausted", "wall_reached"]

_MAX_TIMER_MS = 2_147_483_647
_MAX_SAFE_INTEGER = 2**53 - 1
_SHORTEST_PAUSE = 0.025
_LONGEST_PAUSE = 0.25


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """The tunables of a runtime; a request cannot change them.

    Parameters:
        compute_ms: CPU time that one program may use, in milliseconds.
        max_wall_ms: the time that one run may take, in milliseconds, whatever it waits for.
        max_output_bytes: what logs and outcome may take together, as JSON in UTF-8.
        max_old_generation_size_mb: the heap of one program, in MiB. The process may hold 512 MiB more
            outside the heap: typed arrays, the engine itself.
        pool_size: how many workers stand ready; 0 starts each one when it is needed.
        max_idle_seconds: how long one may stand ready before it is replaced.

    Raises:
        ConfigError: a value is out of range; the message names it (CODE-140).
    """

    compute_ms: float = 60_000
    max_wall_ms: float = 600_000
    max_output_bytes: int = 67_108_864
    max_old_generation_size_mb: float = 512
    pool_size: int = 2
    max_idle_seconds: float = 600

    def __post_init__(self) -> None:
        for entry in fields(self):
            _check_number(entry.name, getattr(self, entry.name))
        if self.max_wall_ms > _MAX_TIMER_MS:
            raise ConfigError(f"max_wall_ms must be at most {_MAX_TIMER_MS}, got {self.max_wall_ms!r}")
        size = self.max_output_bytes
        if not isinstance(size, int) or not 4 <= size <= _MAX_SAFE_INTEGER:
            raise ConfigError(f"max_output_bytes must be a safe integer of at least 4, got {size!r}")
        if not isinstance(self.pool_size, int) or not 0 <= self.pool_size <= 64:
            raise ConfigError(f"pool_size must be an integer from 0 to 64, got {self.pool_size!r}")


def _check_number(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ConfigError(f"{name} must be a finite number, got {value!r}")
    if value <= 0 and name != "pool_size":
        raise ConfigError(f"{name} must be greater than 0, got {value!r}")


def compute_exhausted(config: RuntimeConfig) -> CodeRunError:
    """The failure of a program that computed for too long (CODE-141)."""
    return CodeRunError("timeout", f"compute budget exhausted ({js_number(config.compute_ms)}ms busy)")


def wall_reached(config: RuntimeConfig) -> CodeRunError:
    """The failure of a run that took too long (CODE-142)."""
    return CodeRunError("timeout", f"wall-clock ceiling reached ({js_number(config.max_wall_ms)}ms)")


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
