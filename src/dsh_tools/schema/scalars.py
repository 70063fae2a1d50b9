"""Judging what needs no walk: scalars, the JSON type of any value, and constraints."""

from __future__ import annotations

from collections.abc import Callable
from math import copysign
from typing import Any, TypeAlias, cast

from msgspec import UNSET

from ..json_value import FrozenDict
from . import issues
from .constraints import constraint_problems
from .nodes import (
    AnyNode,
    ArrayNode,
    BooleanNode,
    IntegerNode,
    MapNode,
    Node,
    NullNode,
    NumberNode,
    ObjectNode,
    RefNode,
    ScalarNode,
    StringNode,
    UnionNode,
)
from .paths import ValuePath

__all__ = [
    "EXACT_TYPES",
    "RECORDS",
    "Fault",
    "check_scalar",
    "constraint_faults",
    "discriminates",
    "fits_type",
    "phrase_of",
    "quick_types",
]

Fault: TypeAlias = "tuple[Callable[..., str], ValuePath, Any]"
"""A violation that is not written yet: how to word it, where it is, and a detail (``UNSET``: none). Most faults of
union branches are thrown away, and writing a deep path is as much work as walking to it."""

RECORDS: frozenset[type] = frozenset({dict, FrozenDict})
"""What counts as a record."""

EXACT_TYPES: dict[type[Any], type] = {
    StringNode: str,
    IntegerNode: int,
    NumberNode: int,
    BooleanNode: bool,
    NullNode: type(None),
}
_PHRASES: dict[type[Any], str] = {
    StringNode: "string",
    NumberNode: "number",
    IntegerNode: "integer",
    BooleanNode: "boolean",
    NullNode: "null",
    ArrayNode: "array",
    ObjectNode: "object",
    MapNode: "object",
}


def quick_types(node: Any) -> tuple[type | None, type | None]:
    """Return the exact types whose values a bare scalar node accepts: any of the first, lossless of the second."""
    kind: type[Any] = type(node)  # pyright: ignore[reportUnknownVariableType]
    exact = EXACT_TYPES.get(kind)
    if exact is None or node.constraints:
        return None, None
    if node.enum is not None or node.const is not UNSET:
        return None, None
    return exact, float if type(node) is NumberNode else None


def constraint_faults(node: Node, value: object, path: ValuePath) -> list[Fault]:
    """List the constraints that a value of the right type breaks (D31)."""
    return [(issues.must, path, problem) for problem in constraint_problems(node.constraints, value)]


def check_scalar(node: ScalarNode, value: Any, path: ValuePath, out: list[Fault]) -> None:
    """Check a scalar: its type, then ``enum``, then ``const``; one message at most (SCHEMA-D5, D6)."""
    if not _has_type(type(node), value):
        if type(node) is NumberNode and type(value) is float:
            out.append((issues.not_finite, path, UNSET))
        else:
            out.append((issues.must_be, path, phrase_of(node)))
    elif node.enum is not None and value not in node.enum:
        out.append((issues.not_enum, path, node.enum))
    elif node.const is not UNSET and value != node.const:
        out.append((issues.not_const, path, node.const))
    elif node.constraints:
        out.extend(constraint_faults(node, value, path))


def _has_type(kind: type[Any], value: Any) -> bool:
    given = type(value)  # pyright: ignore[reportUnknownVariableType]
    if given is EXACT_TYPES[kind]:
        return True
    if given is not float or (kind is not NumberNode and kind is not IntegerNode):
        return False
    finite = value - value == 0.0 and not (value == 0.0 and copysign(1.0, value) < 0)
    return finite and (kind is NumberNode or value.is_integer())


def fits_type(node: Node, value: object) -> bool:
    """Whether a value has the JSON type that a node asks for; unions and unconstrained nodes take any."""
    if isinstance(node, (ObjectNode, MapNode)):
        return type(value) in RECORDS
    if isinstance(node, ArrayNode):
        return isinstance(value, list)
    if isinstance(node, (AnyNode, UnionNode, RefNode)):
        return True
    return _has_type(type(node), value)


def phrase_of(node: Node) -> str | None:
    """Name what a node asks for (``a string``); None where no single type says it."""
    name = _PHRASES.get(type(node))
    return None if name is None else issues.TYPE_PHRASES[name]


def discriminates(node: Node, value: Any) -> bool:
    """Whether a record names its branch: every constant property of the branch is there and equal."""
    if not isinstance(node, ObjectNode) or not isinstance(value, dict):
        return False
    constants = {
        key: child for key, child in node.properties.items() if isinstance(child, StringNode) and _options(child)
    }
    record = cast("dict[str, Any]", value)
    return bool(constants) and all(record.get(key) in _options(child) for key, child in constants.items())


def _options(node: StringNode) -> tuple[Any, ...]:
    """Return the values that a string is narrowed to; empty when it is free."""
    if isinstance(node.const, str):
        return (node.const,)
    return node.enum or ()
