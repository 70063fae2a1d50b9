"""Taking an annotation apart: the type itself, its qualifiers, and its ``Annotated`` metadata."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass, field
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import typing_extensions

from .metadata import Metadata, needs_pydantic, read_metadata

__all__ = ["UNION_ORIGINS", "Unwrapped", "unwrap"]

UNION_ORIGINS = (Union, types.UnionType)

# typing and typing_extensions have each of these; on a given Python they may be the same object.
_QUALIFIERS: dict[Any, str] = {
    typing.Required: "required",
    typing.NotRequired: "not_required",
    typing_extensions.Required: "required",
    typing_extensions.NotRequired: "not_required",
    typing_extensions.ReadOnly: "read_only",
    typing.Final: "final",
}


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """An annotation taken apart.

    Parameters:
        tp: the type without qualifiers and metadata.
        metadata: what ``Annotated`` says, with descriptions and constraints.
        qualifiers: any of required, not_required, read_only, final.
        for_pydantic: the whole annotation, where its metadata holds validators only pydantic can run.
        may_be_unset: whether ``msgspec.UnsetType`` was a branch: the value may be absent.
    """

    tp: Any
    metadata: Metadata = field(default_factory=Metadata)
    qualifiers: frozenset[str] = frozenset()
    for_pydantic: Any = None
    may_be_unset: bool = False


def unwrap(annotation: Any) -> Unwrapped:
    """Take an annotation apart, however qualifiers and ``Annotated`` nest."""
    tp = annotation
    qualifiers: set[str] = set()
    layers: list[tuple[Any, ...]] = []
    while True:
        origin = get_origin(tp)
        if origin is Annotated:
            inner, *items = get_args(tp)
            layers.append(tuple(items))
        elif origin in _QUALIFIERS:
            qualifiers.add(_QUALIFIERS[origin])
            (inner,) = get_args(tp)
        else:
            break
        tp = inner
    items = tuple(item for layer in reversed(layers) for item in layer)
    tp, may_be_unset = _without_unset(tp)
    for_pydantic = Annotated[(tp, *items)] if needs_pydantic(items) else None
    return Unwrapped(tp, read_metadata(items), frozenset(qualifiers), for_pydantic, may_be_unset)


def _without_unset(tp: Any) -> tuple[Any, bool]:
    if get_origin(tp) not in UNION_ORIGINS or msgspec.UnsetType not in get_args(tp):
        return tp, False
    rest = tuple(branch for branch in get_args(tp) if branch is not msgspec.UnsetType)
    return Union[rest], True  # noqa: UP007 - the branches are data
