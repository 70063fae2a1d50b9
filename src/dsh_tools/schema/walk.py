"""Recursion without the Python stack.

A walk is written as generator functions that ``yield`` the sub-walk they need and get its
result back. :func:`run` keeps the pending ones on a list, so that depth costs memory only.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

__all__ = ["Walk", "run"]

T = TypeVar("T")
Walk: TypeAlias = "Generator[Walk[Any], Any, T]"
"""A walk that yields sub-walks and returns a ``T``."""


def run(walk: Walk[T]) -> T:
    """Run a walk to its end and return its result; exceptions come out as they are raised."""
    pending: list[Walk[Any]] = [walk]
    result: Any = None
    while True:
        try:
            child = pending[-1].send(result)
        except StopIteration as stop:
            result = stop.value
            pending.pop()
            if not pending:
                return result
        else:
            pending.append(child)
            result = None
