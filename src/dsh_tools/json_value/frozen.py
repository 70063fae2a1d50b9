"""Containers that refuse mutation and are dict and list in every other respect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, TypeAlias, Union, cast

__all__ = ["CONTAINER_TYPES", "FrozenDict", "FrozenList", "JsonScalar", "JsonValue", "members"]

JsonScalar: TypeAlias = str | int | float | bool | None
# A Union, not a text: so `JsonValue | None` means something at run time as well.
JsonValue: TypeAlias = Union["dict[str, JsonValue]", "list[JsonValue]", JsonScalar]
"""What JSON can hold without loss: see :func:`snapshot` for the exact rule (SCHEMA-A1)."""


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    """Refuse every mutation; a snapshot is what its reader saw, for ever."""
    raise TypeError("frozen: this JSON value is an immutable snapshot; use thaw() for a copy you may change")


class FrozenDict(dict[str, Any]):
    """A dict whose mutators raise ``TypeError``. Equal to the plain dict, and serialisable like it.

    Only snapshots build these, so that holding one means: lossless, and frozen all the way down.
    """

    __slots__ = ()

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse  # pyright: ignore[reportAssignmentType]

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A list whose mutators raise ``TypeError``. Equal to the plain list, and serialisable like it."""

    __slots__ = ()

    __setitem__ = __delitem__ = append = extend = insert = pop = remove = _refuse  # pyright: ignore[reportAssignmentType]
    clear = sort = reverse = __iadd__ = __imul__ = _refuse  # pyright: ignore[reportAssignmentType]

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[type[FrozenList], tuple[list[Any]]]:
        return FrozenList, (list(self),)


CONTAINER_TYPES: frozenset[type] = frozenset({dict, list, FrozenDict, FrozenList})
"""The exact types that count as a record or a list; subclasses of others are refused (D26)."""


def members(container: object) -> Iterable[Any]:
    """Return what a record or list holds: a record's values, a list's items."""
    if isinstance(container, dict):
        return cast("dict[str, Any]", container).values()
    return cast("list[Any]", container)
