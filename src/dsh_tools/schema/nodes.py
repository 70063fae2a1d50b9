"""Schema nodes: the one form that validators, code generators and dialects read.

Every way to write a schema (the DSL, the JSON Schema subset, Python types, raw JSON Schema)
is lowered to these records. Nobody but the lowering code looks at a schema document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

__all__ = [
    "NO_CONSTRAINTS",
    "AnyNode",
    "ArrayNode",
    "BooleanNode",
    "IntegerNode",
    "MapNode",
    "Node",
    "NodeBase",
    "NullNode",
    "NumberNode",
    "ObjectNode",
    "RefNode",
    "ScalarNode",
    "StringNode",
    "UnionNode",
    "children_of",
    "find_circle",
    "is_set",
]

NO_CONSTRAINTS: Mapping[str, Any] = {}
"""What most nodes carry; shared, and never changed."""

NO_PROPERTIES: Mapping[str, Any] = {}
"""The properties of a record that declares none."""


class NodeBase(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What every node carries.

    Nodes compare by identity: comparing deep trees field by field would recurse.

    Attributes:
        description, title: texts for the reader of the schema.
        default, examples: lossless JSON, ``UNSET`` when absent; never applied to values (SCHEMA-B19, D14).
        constraints: keywords beyond the contract's subset, by their JSON Schema names
            (``minimum``, ``maxLength``, ``pattern``, ``uniqueItems``, …; D31).
    """

    description: str | None = None
    title: str | None = None
    default: Any = UNSET
    examples: Any = UNSET
    constraints: Mapping[str, Any] = NO_CONSTRAINTS


class _Enumerable(NodeBase, frozen=True, kw_only=True, eq=False):
    """A scalar that may be narrowed to listed values; ``const`` wins over ``enum`` where one is printed."""

    enum: tuple[Any, ...] | None = None
    const: Any = UNSET


class StringNode(_Enumerable, frozen=True, kw_only=True, eq=False):
    """A string."""


class NumberNode(_Enumerable, frozen=True, kw_only=True, eq=False):
    """A finite number."""


class IntegerNode(_Enumerable, frozen=True, kw_only=True, eq=False):
    """A number without a fraction; ``1.0`` is one (SCHEMA-A4)."""


class BooleanNode(_Enumerable, frozen=True, kw_only=True, eq=False):
    """A boolean; never a number."""


class NullNode(_Enumerable, frozen=True, kw_only=True, eq=False):
    """Null."""


class AnyNode(NodeBase, frozen=True, kw_only=True, eq=False):
    """Any JSON value."""


class ArrayNode(NodeBase, frozen=True, kw_only=True, eq=False):
    """A list; ``items`` None means items of any kind."""

    items: Node | None = None


class ObjectNode(NodeBase, frozen=True, kw_only=True, eq=False):
    """A record with declared properties, in declaration order (D2).

    Attributes:
        properties: the declared properties by name.
        required: the names that must be present, in the order of the schema's own list, repeats kept.
        additional: whether undeclared keys are allowed.
        declared: False when the schema has no ``properties`` keyword at all.
    """

    properties: Mapping[str, Node] = NO_PROPERTIES
    required: tuple[str, ...] = ()
    additional: bool = True
    declared: bool = True


class MapNode(NodeBase, frozen=True, kw_only=True, eq=False):
    """A record with arbitrary keys whose values share one node (D31)."""

    values: Node


class UnionNode(NodeBase, frozen=True, kw_only=True, eq=False):
    """Alternatives: exactly one must match (``oneOf``), or at least one (``anyOf``, D31)."""

    branches: tuple[Node, ...]
    mode: Literal["oneOf", "anyOf"] = "oneOf"


class RefNode(NodeBase, frozen=True, kw_only=True, eq=False):
    """A reference to a named definition of the schema it belongs to; what recursion is made of (D31)."""

    name: str


ScalarNode: TypeAlias = StringNode | NumberNode | IntegerNode | BooleanNode | NullNode
Node: TypeAlias = ScalarNode | ArrayNode | ObjectNode | UnionNode | AnyNode | MapNode | RefNode


def children_of(node: Node) -> Iterator[Node]:
    """Yield the nodes right below a node, in schema order; a reference has none."""
    if isinstance(node, ArrayNode):
        if node.items is not None:
            yield node.items
    elif isinstance(node, ObjectNode):
        yield from node.properties.values()
    elif isinstance(node, MapNode):
        yield node.values
    elif isinstance(node, UnionNode):
        yield from node.branches


def find_circle(definitions: Mapping[str, Node]) -> list[str] | None:
    """Return the names of definitions that lead back to themselves without a step into the value; None if none do."""
    try:
        TopologicalSorter({name: _named_in_place(node) for name, node in definitions.items()}).prepare()
    except CycleError as error:
        return list(dict.fromkeys(error.args[1]))
    return None


def _named_in_place(node: Node) -> set[str]:
    """Return the definitions that judge the same place as a node."""
    names: set[str] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, RefNode):
            names.add(current.name)
        elif isinstance(current, UnionNode):
            pending.extend(current.branches)
    return names


def is_set(value: object) -> bool:
    """Whether an optional field was given; None is a value."""
    return not isinstance(value, UnsetType)
