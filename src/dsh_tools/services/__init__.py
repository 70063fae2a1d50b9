"""Plugins around the registry: time limits, approval, prompt assembly, jobs and the rest.

None of them is needed to use the registry alone. Each one is a module or folder of its own, with
its documentation at the top. Public names only.
"""

from __future__ import annotations

from .timeout import TimeoutConfig, TimeoutPlugin

__all__ = [
    "TimeoutConfig",
    "TimeoutPlugin",
]
