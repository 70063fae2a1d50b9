"""Unions: which branch a value belongs to, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import LossyJsonError
from ...json_value import snapshot
from .codec import Codec, Convert, Fault, Shape
from .disjoint import json_kinds
from .guards import is_list

__all__ = ["Accepts", "UnionPlan", "union_shape"]

Accepts = Callable[[Any], bool]
"""A validator of one branch's schema."""

_KIND_OF: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
}


@dataclass(slots=True)
class UnionPlan:
    """A union whose branches are told apart once every definition is known.

    ``finish`` fills the tables that the codec reads; see :func:`union_shape`.
    """

    branches: list[Shape]
    by_kind: dict[str, list[int]]
    accepts: dict[int, Accepts]

    def finish(self, definitions: Mapping[str, Any], validator: Callable[[Any], Accepts]) -> None:
        """Sort the branches by the kind of JSON they admit; compile a validator only where two compete."""
        for index, branch in enumerate(self.branches):
            for kind in json_kinds(branch.document, definitions):
                self.by_kind.setdefault(kind, []).append(index)
        competing = {index for found in self.by_kind.values() if len(found) > 1 for index in found}
        for index in sorted(competing):
            self.accepts[index] = validator(self.branches[index].document)

    def load(self, value: Any) -> Any:
        """Convert a value by the first branch that admits it and whose type accepts it."""
        kind = _KIND_OF.get(value.__class__) or ("array" if is_list(value) else "object")
        found = self.by_kind.get(kind, ())
        if len(found) == 1:
            return _apply(self.branches[found[0]].codec.load, value)
        fault: Fault | None = None
        for index in self._preferred(found, value):
            if self.accepts[index](value):
                try:
                    return _apply(self.branches[index].codec.load, value)
                except Fault as refused:
                    fault = fault or refused
        if fault is not None:
            raise fault
        return value

    def _preferred(self, found: list[int] | tuple[int, ...], value: Any) -> list[int]:
        # Of int and float, 1.0 belongs to float and 1 to int, in whatever order they were written.
        wanted = "number" if type(value) is float else "integer"
        return sorted(found, key=lambda index: self.branches[index].document.get("type") != wanted)

    def dump(self, value: Any) -> Any:
        """Convert a Python value by the branch whose type it is."""
        found = [index for index, branch in enumerate(self.branches) if branch.codec.owns(value)]
        for index in found:
            if len(found) == 1:
                return _apply(self.branches[index].codec.dump, value)
            try:
                result = snapshot(_apply(self.branches[index].codec.dump, value))
            except (LossyJsonError, Fault):
                continue
            accepts = self.accepts.get(index)
            if accepts is None or accepts(result):
                return result
        return value

    def owns(self, value: object) -> bool:
        """Whether any branch's type has the value."""
        return any(branch.codec.owns(value) for branch in self.branches)


def _apply(convert: Convert | None, value: Any) -> Any:
    return value if convert is None else convert(value)


def union_shape(branches: list[Shape]) -> tuple[Shape, UnionPlan | None]:
    """Return the shape of a union, and the plan to finish, None where nothing needs telling apart."""
    document = {"anyOf": [branch.document for branch in branches]}
    loads = [branch.codec.load for branch in branches]
    dumps = [branch.codec.dump for branch in branches]
    plan = UnionPlan(branches, {}, {})
    if not any(loads) and not any(dumps):
        return Shape(document, Codec(None, None, plan.owns)), None
    optional = _optional(branches)
    if optional is not None:
        return Shape(document, _optional_codec(optional.codec)), None
    load = plan.load if any(loads) else None
    dump = plan.dump if any(dumps) else None
    return Shape(document, Codec(load, dump, plan.owns)), plan


def _optional(branches: list[Shape]) -> Shape | None:
    """Return X of ``X | None``."""
    if len(branches) != 2:
        return None
    kinds = [branch.document.get("type") for branch in branches]
    if kinds.count("null") != 1:
        return None
    return branches[1 - kinds.index("null")]


def _optional_codec(inner: Codec) -> Codec:
    return Codec(_unless_none(inner.load), _unless_none(inner.dump), lambda value: value is None or inner.owns(value))


def _unless_none(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)
