"""The way back: from what a model sent under an exported schema to what the tool's own schema means.

Export may rename keys, wrap the arguments, or ask for null where a key may be absent. Each of these leaves
a plan, and a plan turns the arguments back. Values that do not fit the plan pass unchanged: judging them is
the validator's work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ..compiled import Schema
from ..raw import compile_raw

__all__ = ["ArrayPlan", "ObjectPlan", "Plan", "RefPlan", "UnionPlan", "restore"]

_MAX_DEPTH: Final = 100
"""Containers below this depth are passed on as they were sent; no provider nests schemas as deep."""


@dataclass(frozen=True, slots=True)
class ObjectPlan:
    """How to turn an object back.

    Attributes:
        renamed: own key by wire key, where they differ.
        optional: own keys for which null was asked to mean absent.
        fields: plans of properties, by own key.
    """

    renamed: Mapping[str, str]
    optional: frozenset[str]
    fields: Mapping[str, Plan]


@dataclass(frozen=True, slots=True)
class ArrayPlan:
    """How to turn each item of a list back."""

    items: Plan


@dataclass(frozen=True, slots=True)
class RefPlan:
    """Refers to the plan of a named definition; recursion is made of these."""

    name: str


@dataclass(slots=True)
class UnionPlan:
    """Alternatives: the first whose wire schema takes the value says how to turn it back."""

    branches: tuple[tuple[Mapping[str, Any], Plan | None], ...]
    definitions: Mapping[str, Any]
    _compiled: tuple[Schema, ...] | None = field(default=None, init=False)

    def pick(self, value: object) -> Plan | None:
        """Return the plan of the branch the value was written for, None when no branch takes it."""
        if self._compiled is None:
            documents = ({**branch, "$defs": self.definitions} for branch, _ in self.branches)
            self._compiled = tuple(compile_raw(document) for document in documents)
        for schema, (_, plan) in zip(self._compiled, self.branches, strict=True):
            if schema.accepts(value):
                return plan
        return None


Plan: TypeAlias = ObjectPlan | ArrayPlan | RefPlan | UnionPlan


def restore(plan: Plan | None, value: Any, definitions: Mapping[str, Plan | None], depth: int = 0) -> Any:
    """Return the value in the tool's own form; the value given is not changed.

    Args:
        plan: what export did here, None for nothing.
        value: a lossless JSON value.
        definitions: plans by definition name, for references.
        depth: how many containers are open already.
    """
    # Bounded, because a definition may do nothing but refer to itself.
    for _ in range(_MAX_DEPTH):
        if isinstance(plan, RefPlan):
            plan = definitions.get(plan.name)
        elif isinstance(plan, UnionPlan):
            plan = plan.pick(value)
    if plan is None or isinstance(plan, (RefPlan, UnionPlan)) or depth >= _MAX_DEPTH:
        return value
    if isinstance(plan, ArrayPlan):
        if not isinstance(value, list):
            return value
        return [restore(plan.items, item, definitions, depth + 1) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for wire_key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
        key: str = plan.renamed.get(wire_key, wire_key)  # pyright: ignore[reportUnknownArgumentType]
        if item is None and key in plan.optional:
            continue
        child = plan.fields.get(key)
        result[key] = item if child is None else restore(child, item, definitions, depth + 1)
    return result
