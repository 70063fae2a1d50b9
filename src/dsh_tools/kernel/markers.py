"""What a listener says of itself, so that it may be consulted, or passed over, without a dispatch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, Literal, TypeAlias, TypeVar

__all__ = ["Effects", "effect_free", "effects_of", "hands_on"]

_F = TypeVar("_F", bound=Callable[..., Any])
_MARK = "__dsh_tools_effects__"

Effects: TypeAlias = Literal["free", "hands-on", "unknown"]
"""``free``: may be asked at any time. ``hands-on``: never has an opinion. ``unknown``: says nothing of itself."""


def effect_free(listener: _F) -> _F:
    """Declare that a listener only looks and answers: it changes nothing, tells nobody and waits for nobody.

    It may then be consulted about a call that is not going to run; ``ctx.tools.explain`` does that. The promise
    is the author's: nothing checks it. A method is marked where it is defined. The mark is that of this function
    alone: a wrapper around it, also one made with ``functools.wraps``, has to be marked itself.
    """
    return _marked(listener, "free")


def hands_on(listener: _F) -> _F:
    """Declare that a waterfall's listener always returns what ``next()`` gave it: it measures, notes or counts.

    It has no say in the outcome, so that whoever wants to foresee one may leave it out.
    """
    return _marked(listener, "hands-on")


def effects_of(listener: Callable[..., Any]) -> Effects:
    """Return what a listener declares of itself."""
    while (declared := _mark_of(listener)) is None:
        if isinstance(listener, MethodType):
            listener = listener.__func__
        elif isinstance(listener, functools.partial):
            listener = listener.func
        else:
            # An object with __call__ is marked at that method.
            return _mark_of(type(listener).__call__) or "unknown"
    return declared


def _marked(listener: _F, effects: Effects) -> _F:
    setattr(listener, _MARK, (effects, id(listener)))
    return listener


def _mark_of(listener: object) -> Effects | None:
    """Return the mark of this very object.

    Whoever wraps a function copies its attributes, the mark among them. What is marked lives at least until then, so
    that the wrapper has another id.
    """
    mark: tuple[Effects, int] | None = getattr(listener, _MARK, None)
    return mark[0] if mark is not None and mark[1] == id(listener) else None
