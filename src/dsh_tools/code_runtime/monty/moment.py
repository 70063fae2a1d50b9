"""What a repeatable program in Monty gets where others ask the system: the time, and chance."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from hashlib import shake_256
from typing import Any

from ..seam import Determinism

__all__ = ["REPEATABLE_POLICY", "Moment"]

REPEATABLE_POLICY: dict[str, Any] = {"datetime": "call_host", "random_start": "call_host"}
"""What the interpreter asks us for, so that :class:`Moment` can answer."""

# What the interpreter draws for a generator that has no seed. Programs have no other use of the call.
_GENERATOR_BYTES = 2496


class Moment:
    """A clock that stands still between two answers of the host, and randomness that comes from a seed."""

    def __init__(self, determinism: Determinism) -> None:
        self._seed = determinism.seed
        self._start = determinism.started_at
        self._now = determinism.started_at
        self._draws = 0

    def move(self, at: int | None) -> None:
        """Show a time from now on, unless it is an earlier one; None is none."""
        if at is not None and at > self._now:
            self._now = at

    def answer(self, function: str, arguments: tuple[Any, ...]) -> dict[str, Any] | None:
        """Answer a call of the system; None where it is not about time or chance."""
        if function == "os.urandom" and arguments == (_GENERATOR_BYTES,):
            self._draws += 1
            return {"return_value": shake_256(f"{self._seed}/{self._draws}".encode()).digest(_GENERATOR_BYTES)}
        if function == "time.time":
            running = arguments and arguments[0] in ("time.monotonic", "time.perf_counter")
            return {"return_value": (self._now - self._start if running else self._now) / 1000}
        if function == "date.today":
            return {"return_value": self._date_time(None).date()}
        if function == "datetime.now":
            return {"return_value": self._date_time(arguments[0] if arguments else None)}
        return None

    def _date_time(self, zone: tzinfo | None) -> datetime:
        shown = datetime.fromtimestamp(self._now / 1000, UTC if zone is None else zone)
        # The interpreter's own zone is UTC.
        return shown.replace(tzinfo=None) if zone is None else shown
