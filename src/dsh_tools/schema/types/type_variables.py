"""What the type variables of a generic class stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args, get_origin

from .guards import is_class

__all__ = ["bindings", "substitute"]


def bindings(tp: Any) -> dict[Any, Any]:
    """Return what each type variable means inside ``tp``, a class or a parametrised generic class."""
    origin = get_origin(tp)
    cls = tp if origin is None else origin
    bound: dict[Any, Any] = {}
    if origin is not None:
        bound.update(zip(getattr(cls, "__parameters__", ()), get_args(tp), strict=False))
    for base in getattr(cls, "__orig_bases__", ()):
        if get_origin(base) is not None:
            inherited = bindings(base)
            bound.update({name: substitute(value, bound) for name, value in inherited.items()})
    return bound


def substitute(hint: Any, bound: Mapping[Any, Any]) -> Any:
    """Return an annotation with its type variables replaced."""
    if not bound:
        return hint
    if isinstance(hint, TypeVar):
        return bound.get(hint, hint)
    free = getattr(hint, "__parameters__", ())
    if not free or is_class(hint):
        return hint
    return hint[tuple(bound.get(name, name) for name in free)]
