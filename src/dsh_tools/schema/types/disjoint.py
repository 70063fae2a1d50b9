"""Whether two schemas can never admit the same value: then ``anyOf`` says no more than ``oneOf`` (D31)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from .guards import is_dict, is_list

__all__ = ["ALL_KINDS", "disjoint", "json_kinds", "pairwise_disjoint"]

Documents: TypeAlias = Mapping[str, Any]

ALL_KINDS = frozenset({"null", "boolean", "number", "string", "array", "object"})
_MAX_DEPTH = 16


def json_kinds(document: Any, definitions: Documents, depth: int = 0) -> frozenset[str]:
    """Return the kinds of JSON value a schema may admit; an integer counts as a number.

    May name too many, never too few.
    """
    if not is_dict(document) or depth > _MAX_DEPTH:
        return ALL_KINDS
    target = _target(document, definitions)
    if target is not document:
        return json_kinds(target, definitions, depth + 1)
    kinds = _declared(document)
    for union in ("anyOf", "oneOf"):
        branches = document.get(union)
        if is_list(branches):
            kinds &= frozenset[str]().union(*(json_kinds(branch, definitions, depth + 1) for branch in branches))
    return kinds


def _declared(document: Documents) -> frozenset[str]:
    kind = document.get("type")
    names = [kind] if isinstance(kind, str) else kind
    if not is_list(names):
        values = _values(document)
        return ALL_KINDS if values is None else frozenset(_kind_of(value) for value in values)
    return frozenset("number" if name == "integer" else str(name) for name in names)


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if is_list(value) else "object"


def pairwise_disjoint(documents: Sequence[Any], definitions: Documents) -> bool:
    """Whether no value can match two of the schemas."""
    return all(
        disjoint(first, second, definitions)
        for index, first in enumerate(documents)
        for second in documents[index + 1 :]
    )


def disjoint(first: Any, second: Any, definitions: Documents, depth: int = 0) -> bool:
    """Whether it is provable that no value matches both schemas; False where it is merely likely."""
    if not is_dict(first) or not is_dict(second) or depth > _MAX_DEPTH:
        return False
    first, second = _target(first, definitions), _target(second, definitions)
    common = json_kinds(first, definitions) & json_kinds(second, definitions)
    if not common:
        return True
    for one, other in ((first, second), (second, first)):
        for union in ("anyOf", "oneOf"):
            branches = one.get(union)
            if is_list(branches):
                return all(disjoint(branch, other, definitions, depth + 1) for branch in branches)
    if _values_disjoint(first, second):
        return True
    return common == frozenset({"object"}) and _objects_disjoint(first, second, definitions, depth)


def _values_disjoint(first: Documents, second: Documents) -> bool:
    ours, theirs = _values(first), _values(second)
    if ours is None or theirs is None:
        return False
    return not any(_kind_of(a) == _kind_of(b) and a == b for a in ours for b in theirs)


def _values(document: Documents) -> list[Any] | None:
    if "const" in document:
        return [document["const"]]
    values = document.get("enum")
    return values if is_list(values) else None


def _objects_disjoint(first: Documents, second: Documents, definitions: Documents, depth: int) -> bool:
    """Two objects exclude each other by a property both need, or one needs and the other forbids."""
    mine, theirs = _properties(first), _properties(second)
    needed, also_needed = _required(first), _required(second)
    for name in needed & also_needed:
        if name in mine and name in theirs and disjoint(mine[name], theirs[name], definitions, depth + 1):
            return True
    return _forbids(second, theirs, needed) or _forbids(first, mine, also_needed)


def _properties(document: Documents) -> Documents:
    properties = document.get("properties")
    return properties if is_dict(properties) else {}


def _required(document: Documents) -> set[str]:
    required = document.get("required")
    return set(required) if is_list(required) else set()


def _forbids(document: Documents, properties: Documents, needed: set[str]) -> bool:
    closed = document.get("additionalProperties") is False and "patternProperties" not in document
    return closed and any(name not in properties for name in needed)


def _target(document: Documents, definitions: Documents) -> Documents:
    seen = 0
    while isinstance(reference := document.get("$ref"), str) and seen < _MAX_DEPTH:
        name = reference.removeprefix("#/$defs/")
        target = definitions.get(name)
        if not is_dict(target):
            return document
        document = target
        seen += 1
    return document
