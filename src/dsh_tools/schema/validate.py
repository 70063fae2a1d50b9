"""The contract's validator: every violation, in the contract's words and order (SCHEMA section D).

It walks with an explicit stack, so neither schema nor value can be too deep. Where the value is
known to be lossless, native verdicts tell which branches need no closer look.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from math import copysign
from typing import Any, TypeAlias, cast

from msgspec import UNSET

from ..json_value import FrozenDict, FrozenList, is_lossless
from . import issues
from .constraints import constraint_problems
from .native import NATIVE_FAULTS, follows_values, native_validator, shallow_nodes
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

__all__ = ["Validator", "fits_type", "phrase_of"]

_Steps: TypeAlias = "Generator[_Steps, None, None]"
_Fault: TypeAlias = "tuple[Callable[..., str], ValuePath, *tuple[Any, ...]]"
"""A violation that is not written yet: how to word it, where it is, and the rest. Most faults of union
branches are thrown away, and writing a deep path is as much work as walking to it."""
_Entry: TypeAlias = "tuple[str, type | None, type | None, Node]"

_RECORDS: frozenset[type] = frozenset({dict, FrozenDict})
_FROZEN: frozenset[type] = frozenset({FrozenDict, FrozenList})
_CONTAINERS: frozenset[type] = frozenset({ObjectNode, ArrayNode, UnionNode, MapNode})
_EXACT: dict[type[Any], type] = {
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


class Validator:
    """Validates values against one tree of nodes; keeps what it learns about the tree."""

    __slots__ = ("_entries", "_natives", "_node", "_shallow", "_superset", "definitions")

    def __init__(self, node: Node, definitions: Mapping[str, Node]) -> None:
        self.definitions = definitions
        self._node = node
        self._superset = follows_values(node, definitions)
        self._entries: dict[ObjectNode, tuple[_Entry, ...]] = {}
        self._natives: dict[Node, Callable[[Any], bool] | None] = {}
        self._shallow: frozenset[Node] | None = None

    def violations(self, value: object, path: str, *, lossless: bool) -> list[str]:
        """List what is wrong with a value.

        Args:
            value: anything; ``UNSET`` inside a record stands for a member that is there but undefined.
            path: what the value is called in the messages.
            lossless: the caller knows that the value is lossless JSON.
        """
        return [word(place, *rest) for word, place, *rest in self.faults(value, path, lossless=lossless)]

    def faults(self, value: object, path: ValuePath, *, lossless: bool) -> list[_Fault]:
        """List the same as :meth:`violations`, not written out yet."""
        if not lossless:
            lossless = type(value) in _FROZEN or is_lossless(value)
            if not lossless and self._superset:
                # A recursive schema could follow a cyclic value for ever.
                return [(issues.lossy_value, path)]
        out: list[_Fault] = []
        steps = _Pass(self, lossless).start(self._node, value, path, out)
        pending = [] if steps is None else [steps]
        while pending:
            child = next(pending[-1], None)
            if child is None:
                pending.pop()
            else:
                pending.append(child)
        return out

    def resolve(self, node: Node) -> Node:
        """Follow references to what they stand for; a loop of bare references stands for anything."""
        seen: set[str] = set()
        while isinstance(node, RefNode):
            if node.name in seen:
                return AnyNode()
            seen.add(node.name)
            node = self.definitions[node.name]
        return node

    def entries(self, node: ObjectNode) -> tuple[_Entry, ...]:
        """Return the properties of a record, each with the Python types that need no closer look."""
        known = self._entries.get(node)
        if known is None:
            known = tuple((key, *_quick_types(child), child) for key, child in node.properties.items())
            self._entries[node] = known
        return known

    def native(self, node: Node) -> Callable[[Any], bool] | None:
        """Return the native verdict on a container node; None where there is none."""
        if self._superset or type(node) not in _CONTAINERS:
            return None
        known = self._natives.get(node, UNSET)
        if known is UNSET:
            if self._shallow is None:
                self._shallow = shallow_nodes(self._node)
            known = native_validator(node, self.definitions) if node in self._shallow else None
            self._natives[node] = known
        return known


def _quick_types(node: Node) -> tuple[type | None, type | None]:
    """Return the exact types whose values a bare scalar node accepts: any of the first, lossless of the second."""
    exact = _EXACT.get(type(node))
    if exact is None or node.constraints:
        return None, None
    scalar = cast("ScalarNode", node)
    if scalar.enum is not None or scalar.const is not UNSET:
        return None, None
    return exact, float if type(node) is NumberNode else None


class _Pass:
    """One validation of one value."""

    __slots__ = ("lossless", "owner")

    def __init__(self, owner: Validator, lossless: bool) -> None:
        self.owner = owner
        self.lossless = lossless

    def start(self, node: Node, value: object, path: ValuePath, out: list[_Fault]) -> _Steps | None:
        """Judge a scalar at once; return the steps that a container takes."""
        kind = type(node)
        if kind in _EXACT:
            _scalar(cast("ScalarNode", node), value, path, out)
            return None
        if kind is RefNode:
            return self.start(self.owner.resolve(node), value, path, out)
        if isinstance(node, UnionNode):
            return self._union(node, value, path, out)
        if isinstance(node, AnyNode):
            if not self.lossless and not is_lossless(value):
                out.append((issues.lossy_value, path))
            elif node.constraints:
                out.extend(_constraint_faults(node, value, path))
            return None
        if isinstance(node, ArrayNode):
            if issubclass(type(value), list):
                return self._array(node, cast("list[Any]", value), path, out)
            out.append((issues.must_be, path, "an array"))
            return None
        if type(value) not in _RECORDS:
            out.append((issues.must_be, path, "an object"))
            return None
        record = cast("dict[Any, Any]", value)
        if isinstance(node, ObjectNode):
            return self._object(node, record, path, out)
        return self._map(cast("MapNode", node), record, path, out)

    def _verdict(self, node: Node, value: object) -> bool | None:
        """Return the native verdict on a lossless value; None where there is none."""
        native = self.owner.native(node) if self.lossless else None
        if native is None:
            return None
        try:
            return native(value)
        except NATIVE_FAULTS:
            return None

    def _object(self, node: ObjectNode, value: dict[Any, Any], path: ValuePath, out: list[_Fault]) -> _Steps:
        """Check a record in the contract's order (SCHEMA-D9)."""
        mark = len(out)
        lossless = self.lossless
        for name in node.required:
            if value.get(name, UNSET) is UNSET:
                out.append((issues.missing, (path, name)))
        for key, quick, lossless_quick, child in self.owner.entries(node):
            item = value.get(key, UNSET)
            kind = type(item)  # pyright: ignore[reportUnknownVariableType]
            if kind is quick or (kind is lossless_quick and lossless) or item is UNSET:
                continue
            if quick is None and self._verdict(child, item):
                continue
            steps = self.start(child, item, (path, key), out)
            if steps is not None:
                yield steps
        if not node.additional:
            for key in value:
                if type(key) is str and key not in node.properties:
                    out.append((issues.undeclared, (path, key)))
        if not lossless and len(out) == mark and not _rest_is_lossless(node.properties, value):
            out.append((issues.lossy_object, path))
        elif node.constraints:
            out.extend(_constraint_faults(node, value, path))

    def _map(self, node: MapNode, value: dict[Any, Any], path: ValuePath, out: list[_Fault]) -> _Steps:
        """Check a record of like values (D31)."""
        mark = len(out)
        quick, lossless_quick = _quick_types(node.values)
        for key, item in value.items():
            kind = type(item)  # pyright: ignore[reportUnknownVariableType]
            if kind is quick or (kind is lossless_quick and self.lossless) or type(key) is not str:
                continue
            steps = self.start(node.values, item, (path, key), out)
            if steps is not None:
                yield steps
        if not self.lossless and len(out) == mark and any(type(key) is not str for key in value):
            out.append((issues.lossy_object, path))
        elif node.constraints:
            out.extend(_constraint_faults(node, value, path))

    def _array(self, node: ArrayNode, value: list[Any], path: ValuePath, out: list[_Fault]) -> _Steps:
        """Check a list item by item (SCHEMA-D11)."""
        mark = len(out)
        items = node.items
        if items is not None:
            quick, lossless_quick = _quick_types(items)
            native = self.owner.native(items) if self.lossless else None
            # The base class's own iterator: a subclass may have ideas of its own.
            for index, item in enumerate(cast("Iterator[Any]", list.__iter__(value))):  # pyright: ignore[reportUnknownMemberType]
                kind = type(item)  # pyright: ignore[reportUnknownVariableType]
                if kind is quick or (kind is lossless_quick and self.lossless):
                    continue
                if native is not None:
                    try:
                        if native(item):
                            continue
                    except NATIVE_FAULTS:
                        pass
                steps = self.start(items, item, (path, index), out)
                if steps is not None:
                    yield steps
        if not self.lossless and len(out) == mark and not _list_is_lossless(value, items is not None):
            out.append((issues.lossy_array, path))
        elif node.constraints:
            out.extend(_constraint_faults(node, value, path))

    def _union(self, node: UnionNode, value: object, path: ValuePath, out: list[_Fault]) -> _Steps:
        """Count the branches that accept the value; each is tried, whatever the others said (SCHEMA-D12)."""
        matched = 0
        found: list[list[_Fault] | None] = []
        for branch in node.branches:
            verdict = self._verdict(branch, value)
            faults: list[_Fault] | None = None
            if verdict is None:
                faults = []
                steps = self.start(branch, value, path, faults)
                if steps is not None:
                    yield steps
                verdict = not faults
            found.append(faults)
            matched += verdict
        if node.mode == "oneOf" and matched != 1:
            out.append((issues.oneof_mismatch, path, matched))
        elif matched == 0:
            yield from self._explain(node, value, path, out, found)
        elif node.constraints:
            out.extend(_constraint_faults(node, value, path))

    def _explain(
        self, node: UnionNode, value: object, path: ValuePath, out: list[_Fault], found: list[list[_Fault] | None]
    ) -> _Steps:
        """Say why no branch of an ``anyOf`` fits: by the only branch of the right type, if there is one (D31).

        What a branch was found guilty of is not looked for again: under a recursive schema that
        would double the work with every level.
        """
        branches = [self.owner.resolve(branch) for branch in node.branches]
        fitting = [index for index, branch in enumerate(branches) if fits_type(branch, value)]
        if len(fitting) == 1:
            faults = found[fitting[0]]
            if faults is not None:
                out.extend(faults)
                return
            steps = self.start(branches[fitting[0]], value, path, out)
            if steps is not None:
                yield steps
            return
        phrases = [phrase_of(branch) for branch in branches]
        if fitting or None in phrases:
            out.append((issues.anyof_mismatch, path))
        else:
            out.append((issues.must_be, path, " or ".join(dict.fromkeys(cast("list[str]", phrases)))))


def _constraint_faults(node: Node, value: object, path: ValuePath) -> list[_Fault]:
    return [(issues.must, path, problem) for problem in constraint_problems(node.constraints, value)]


def _scalar(node: ScalarNode, value: object, path: ValuePath, out: list[_Fault]) -> None:
    """Check a scalar: its type, then ``enum``, then ``const``; one message at most (SCHEMA-D5, D6)."""
    if not _has_type(type(node), value):
        if type(node) is NumberNode and type(value) is float:
            out.append((issues.not_finite, path))
        else:
            out.append((issues.must_be, path, phrase_of(node)))
    elif node.enum is not None and value not in node.enum:
        out.append((issues.not_enum, path, node.enum))
    elif node.const is not UNSET and value != node.const:
        out.append((issues.not_const, path, node.const))
    elif node.constraints:
        out.extend(_constraint_faults(node, value, path))


def _has_type(kind: type[Any], value: object) -> bool:
    given = type(value)
    if given is _EXACT[kind]:
        return True
    if given is not float or (kind is not NumberNode and kind is not IntegerNode):
        return False
    number = cast("float", value)
    finite = number - number == 0.0 and not (number == 0.0 and copysign(1.0, number) < 0)
    return finite and (kind is NumberNode or number.is_integer())


def _rest_is_lossless(declared: Mapping[str, Node], value: dict[Any, Any]) -> bool:
    """Whether what no declared node has judged is lossless: keys, undeclared members, undefined ones.

    Declared members that are clean are lossless already, cycles included, so nothing is walked twice (SCHEMA-D15).
    """
    for key, item in value.items():
        if type(key) is not str or item is UNSET:
            return False
        if key not in declared and not is_lossless(item):
            return False
    return True


def _list_is_lossless(value: list[Any], judged: bool) -> bool:
    """Whether a list is plain and, where no item schema has judged the items, holds only lossless ones."""
    if judged:
        return type(value) is list or type(value) is FrozenList
    return is_lossless(value)


def fits_type(node: Node, value: object) -> bool:
    """Whether a value has the JSON type that a node asks for; unions and unconstrained nodes take any."""
    if isinstance(node, (ObjectNode, MapNode)):
        return type(value) in _RECORDS
    if isinstance(node, ArrayNode):
        return isinstance(value, list)
    if isinstance(node, (AnyNode, UnionNode, RefNode)):
        return True
    return _has_type(type(node), value)


def phrase_of(node: Node) -> str | None:
    """Name what a node asks for (``a string``); None where no single type says it."""
    name = _PHRASES.get(type(node))
    return None if name is None else issues.TYPE_PHRASES[name]
