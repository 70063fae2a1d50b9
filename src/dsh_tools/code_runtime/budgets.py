"""What a run may use, and what is said when it has used it up (CODE-130, 140 to 143)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from ..errors import ConfigError
from ..json_value import js_number
from .seam import CodeRunError

__all__ = ["RuntimeConfig", "compute_exhausted", "wall_reached"]

_MAX_TIMER_MS = 2_147_483_647
_MAX_SAFE_INTEGER = 2**53 - 1


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
