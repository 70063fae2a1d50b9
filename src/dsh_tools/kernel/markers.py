"""What a listener says of itself, so that it may be consulted, or passed over, without a dispatch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

__all__ = ["Effects", "effect_free", "effects_of", "hands_on"]

_F = TypeVar("_F", bound=Callable[..., Any])
_MARK = "__dsh_tools_effects__"

Effects: TypeAlias = Literal["free", "hands-on", "unknown"]
"""``free``: may be asked at any time. ``hands-on``: never has an opinion. ``unknown``: says nothing of itself."""


def effect_free(listener: _F) -> _F:
    """Declare that a listener only looks and answers: it changes nothing, tells nobody and waits for nobody.

    It may then be consulted about a call that is not going to run; ``ctx.tools.explain`` does that. The promise
    is the author's: nothing checks it. A method is marked where it is defined.
    """
    setattr(listener, _MARK, "free")
    return listener


def hands_on(listener: _F) -> _F:
    """Declare that a waterfall's listener always returns what ``next()`` gave it: it measures, notes or counts.

    It has no say in the outcome, so that whoever wants to foresee one may leave it out.
    """
    setattr(listener, _MARK, "hands-on")
    return listener


def effects_of(listener: Callable[..., Any]) -> Effects:
    """Return what a listener declares of itself."""
    while isinstance(listener, functools.partial):
        listener = listener.func
    declared = getattr(listener, _MARK, None)
    if declared is None and not hasattr(listener, "__qualname__"):
        # An object with __call__ is marked at that method.
        declared = getattr(type(listener).__call__, _MARK, None)
    return declared if declared in ("free", "hands-on") else "unknown"
