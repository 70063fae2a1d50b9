"""What a repeatable program in Monty gets where others ask the system: the time, and chance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from hashlib import shake_256
from typing import Any

from ..seam import Determinism

__all__ = ["REPEATABLE_POLICY", "Moment"]

REPEATABLE_POLICY: dict[str, Any] = {"datetime": "call_host", "random_start": "call_host"}
"""What the interpreter asks us for, so that :class:`Moment` can answer."""

# What the interpreter draws for a generator that has no seed. Programs have no other use of the call.
_GENERATOR_BYTES = 2496

# How far each reading moves the clock on. It takes longer than that, so the clock doesn't get ahead of the real one.
_READING_MICROSECONDS = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Moment:
    """A clock of the host's answers, and randomness that comes from a seed.

    Between two answers only reading it moves the clock on, by 0.1 ms each time: a loop that waits for a
    time to come sees it come.
    """

    def __init__(self, determinism: Determinism) -> None:
        self._seed = determinism.seed
        # In microseconds: whole numbers, so that nothing is lost in adding.
        self._start = determinism.started_at * 1000
        self._now = self._start
        self._draws = 0

    def move(self, at: float | None) -> None:
        """Show a time from now on, unless it is an earlier one; None is none."""
        if at is not None:
            self._now = max(self._now, round(at * 1000))

    def after(self, milliseconds: float) -> float:
        """The time, in milliseconds since the epoch, when so many more have passed."""
        return self._now / 1000 + milliseconds

    def _read(self) -> int:
        now = self._now
        self._now += _READING_MICROSECONDS
        return now

    def answer(self, function: str, arguments: tuple[Any, ...]) -> dict[str, Any] | None:
        """Answer a call of the system; None where it is not about time or chance."""
        if function == "os.urandom" and arguments == (_GENERATOR_BYTES,):
            self._draws += 1
            return {"return_value": shake_256(f"{self._seed}/{self._draws}".encode()).digest(_GENERATOR_BYTES)}
        if function == "time.time":
            running = arguments and arguments[0] in ("time.monotonic", "time.perf_counter")
            return {"return_value": (self._read() - (self._start if running else 0)) / 1_000_000}
        if function == "date.today":
            return {"return_value": self._date_time(None).date()}
        if function == "datetime.now":
            return {"return_value": self._date_time(arguments[0] if arguments else None)}
        return None

    def _date_time(self, zone: tzinfo | None) -> datetime:
        shown = (_EPOCH + timedelta(microseconds=self._read())).astimezone(zone or UTC)
        # The interpreter's own zone is UTC.
        return shown.replace(tzinfo=None) if zone is None else shown
