"""Python programs in Monty; needs ``dsh-tools[code-python]``."""

from __future__ import annotations

from .runtime import MontyRuntime

__all__ = ["MontyRuntime"]
