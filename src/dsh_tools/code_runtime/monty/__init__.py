"""Python programs in Monty; needs ``dsh-tools[code-python]``."""

from __future__ import annotations

from .runtime import PYTHON_SUBSET, MontyRuntime

__all__ = ["PYTHON_SUBSET", "MontyRuntime"]
