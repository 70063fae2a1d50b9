"""The contract's validator: every violation, in the contract's words and order (SCHEMA section D).

It walks with an explicit stack, so neither schema nor value can be too deep. Where the value is
known to be lossless, native verdicts tell which branches need no closer look.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias, cast

from msgspec import UNSET

from ..json_value import FrozenDict, FrozenList, is_lossless
from . import issues
from .faults import BoundedFaults, EnoughFaults
from .native import NATIVE_FAULTS, follows_values, native_validator, reads_as_it_is, shallow_nodes
from .nodes import (
    ArrayNode,
    MapNode,
    Node,
    ObjectNode,
    RefNode,
    UnionNode,
)
from .paths import ValuePath
from .scalars import (
    EXACT_TYPES,
    RECORDS,
    Fault,
    check_scalar,
    constraint_faults,
    discriminates,
    fits_type,
    phrase_of,
    quick_types,
)

__all__ = ["Validator"]

_Steps: TypeAlias = "Generator[_Steps, None, None]"
_Native: TypeAlias = "Callable[[Any], bool] | None"
_Entry: TypeAlias = "tuple[str, type | None, type | None, str | None, Node, _Native]"

_FROZEN: frozenset[type] = frozenset({FrozenDict, FrozenList})
_CONTAINERS: frozenset[type] = frozenset({ObjectNode, ArrayNode, UnionNode, MapNode})


class Validator:
    """Validates values against one tree of nodes; keeps what it learns about the tree."""

    __slots__ = (
        "_careful",
        "_entries",
        "_fast",
        "_natives",
        "_node",
        "_required",
        "_shallow",
        "_superset",
        "definitions",
    )

    def __init__(self, node: Node, definitions: Mapping[str, Node]) -> None:
        self.definitions = definitions
        self._node = node
        self._superset = follows_values(node, definitions)
        self._entries: dict[ObjectNode, tuple[_Entry, ...]] = {}
        self._required: dict[ObjectNode, frozenset[str]] = {}
        self._natives: dict[Node, _Native] = {}
        self._shallow: frozenset[Node] | None = None
        self._fast = _explaining(self, True, None)
        self._careful = _explaining(self, False, None)

    def violations(self, value: object, path: str, *, lossless: bool, most: int | None = None) -> list[str]:
        """List what is wrong with a value.

        Args:
            value: anything; ``UNSET`` inside a record stands for a member that is there but undefined.
            path: what the value is called in the messages.
            lossless: the caller knows that the value is lossless JSON.
            most: look for so many violations and no further.
        """
        return [
            word(place) if detail is UNSET else word(place, detail)
            for word, place, detail in self.faults(value, path, lossless=lossless, most=most)
        ]

    def faults(self, value: object, path: ValuePath, *, lossless: bool, most: int | None = None) -> list[Fault]:
        """List the same as :meth:`violations`, not written out yet."""
        if not lossless:
            lossless = type(value) in _FROZEN or is_lossless(value)
            if not lossless and self._superset:
                # A recursive schema could follow a cyclic value for ever.
                return [(issues.lossy_value, path, UNSET)]
        out: list[Fault] = [] if most is None else BoundedFaults(most)
        way = _explaining(self, lossless, {}) if self._superset else self._fast if lossless else self._careful
        with suppress(EnoughFaults):
            _drive(way.start(self._node, value, path, out))
        return out

    def judging(self) -> Callable[[Node, object], bool]:
        """Return a function that tells whether a lossless value fits a node of this tree, and remembers what it saw."""
        judge = _explaining(self, True, {}).judge

        def fits(node: Node, value: object) -> bool:
            out: list[Fault] = []
            _drive(judge.start(node, value, "", out))
            return not out

        return fits

    def resolve(self, node: Node) -> Node:
        """Follow references to what they stand for; schemas whose references run in circles are refused before."""
        while isinstance(node, RefNode):
            node = self.definitions[node.name]
        return node

    def required(self, node: ObjectNode) -> frozenset[str]:
        """Return the names that a record must have, as a set."""
        known = self._required.get(node)
        if known is None:
            known = self._required[node] = frozenset(node.required)
        return known

    def entries(self, node: ObjectNode) -> tuple[_Entry, ...]:
        """Return the properties of a record, each with what tells that no closer look is needed."""
        known = self._entries.get(node)
        if known is None:
            known = tuple(
                (
                    key,
                    *quick_types(child),
                    phrase_of(child),
                    child,
                    None if _is_list_of_containers(child) else self.native(child),
                )
                for key, child in node.properties.items()
            )
            self._entries[node] = known
        return known

    def native(self, node: Node) -> _Native:
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


def _is_list_of_containers(node: Node) -> bool:
    """Whether native code looks at the items one by one anyway, so that it need not see the whole first."""
    return isinstance(node, ArrayNode) and type(node.items) in _CONTAINERS and not node.constraints


def _suspects(native: Callable[[Any], bool], entries: list[Any]) -> Iterable[int]:
    """Return the places of the items that native code does not accept; all of them where it cannot tell."""
    try:
        verdicts = [*map(native, entries)]
    except NATIVE_FAULTS:
        return range(len(entries))
    places: list[int] = []
    place = -1
    for _ in range(verdicts.count(False)):
        place = verdicts.index(False, place + 1)
        places.append(place)
    return places


def _holds(native: Callable[[Any], bool], value: object) -> bool:
    """Whether native code accepts a value; where it cannot tell, a closer look is needed."""
    try:
        return native(value)
    except NATIVE_FAULTS:
        return False


def _drive(steps: _Steps | None) -> None:
    """Take the steps of a walk, and of the walks it asks for."""
    pending = [] if steps is None else [steps]
    while pending:
        child = next(pending[-1], None)
        if child is None:
            pending.pop()
        else:
            pending.append(child)


def _explaining(owner: Validator, lossless: bool, known: dict[tuple[Node, int], bool] | None) -> _Pass:
    """Make the pass that explains, with the pass that judges the branches of unions for it."""
    return _Pass(owner, lossless, known, _Pass(owner, lossless, known, None))


class _Pass:
    """A way to walk: over values known to be lossless, or any; to explain what is wrong, or only to judge.

    The faults of union branches are judged without being explained, since most of them are thrown away.
    ``known`` keeps these verdicts for one validation: under a recursive schema every branch of a union would
    otherwise judge all that is below again, which is exponential in the depth.
    """

    __slots__ = ("explains", "judge", "known", "lossless", "owner")

    def __init__(
        self, owner: Validator, lossless: bool, known: dict[tuple[Node, int], bool] | None, judge: _Pass | None
    ) -> None:
        self.owner = owner
        self.lossless = lossless
        self.known = known
        self.explains = judge is not None
        self.judge: _Pass = self if judge is None else judge

    def start(self, node: Any, value: Any, path: ValuePath, out: list[Fault]) -> _Steps | None:
        """Judge a scalar at once; return the steps that a container takes."""
        # Exact types, not isinstance: this is asked for every value on the way to a fault.
        kind = type(node)  # pyright: ignore[reportUnknownVariableType]
        if kind in EXACT_TYPES:
            check_scalar(node, value, path, out)
            return None
        if kind is ObjectNode or kind is MapNode:
            if type(value) not in RECORDS:
                out.append((issues.must_be, path, "an object"))
                return None
            if kind is ObjectNode:
                return self._object(node, value, path, out)
            return self._map(node, value, path, out)
        if kind is ArrayNode:
            if issubclass(type(value), list):
                return self._array(node, value, path, out)
            out.append((issues.must_be, path, "an array"))
            return None
        if kind is UnionNode:
            return self._union(node, value, path, out)
        if kind is RefNode:
            return self.start(self.owner.resolve(node), value, path, out)
        if not self.lossless and not is_lossless(value):
            out.append((issues.lossy_value, path, UNSET))
        elif node.constraints:
            out.extend(constraint_faults(node, value, path))
        return None

    def _verdict(self, node: Node, value: object) -> bool | None:
        """Return the native verdict on a lossless value; None where there is none."""
        native = self.owner.native(node) if self.lossless else None
        if native is None:
            return None
        try:
            return native(value) or (False if reads_as_it_is(value) else None)
        except NATIVE_FAULTS:
            return None

    def _object(self, node: ObjectNode, value: dict[Any, Any], path: ValuePath, out: list[Fault]) -> _Steps:
        """Check a record in the contract's order (SCHEMA-D9)."""
        mark = len(out)
        lossless = self.lossless
        # In a lossless record nothing is undefined, so comparing keys says whether all are there.
        if not lossless or not value.keys() >= self.owner.required(node):
            for name in node.required:
                if value.get(name, UNSET) is UNSET:
                    out.append((issues.missing, (path, name), UNSET))
        for key, quick, lossless_quick, phrase, child, native in self.owner.entries(node):
            item = value.get(key, UNSET)
            kind = type(item)  # pyright: ignore[reportUnknownVariableType]
            if kind is quick or item is UNSET:
                continue
            if quick is not None and kind is not float:
                # A bare scalar of another type, which no closer look will change.
                out.append((issues.must_be, (path, key), phrase))
                continue
            if lossless and (kind is lossless_quick or (native is not None and _holds(native, item))):
                continue
            steps = self.start(child, item, (path, key), out)
            if steps is not None:
                yield steps
        if not node.additional and not value.keys() <= node.properties.keys():
            for key in value:
                if type(key) is str and key not in node.properties:
                    out.append((issues.undeclared, (path, key), UNSET))
        if not lossless and len(out) == mark and not _rest_is_lossless(node.properties, value):
            out.append((issues.lossy_object, path, UNSET))
        elif node.constraints:
            out.extend(constraint_faults(node, value, path))

    def _map(self, node: MapNode, value: dict[Any, Any], path: ValuePath, out: list[Fault]) -> _Steps:
        """Check a record of like values (D31)."""
        mark = len(out)
        quick, lossless_quick = quick_types(node.values)
        for key, item in value.items():
            kind = type(item)  # pyright: ignore[reportUnknownVariableType]
            if kind is quick or (kind is lossless_quick and self.lossless) or type(key) is not str:
                continue
            steps = self.start(node.values, item, (path, key), out)
            if steps is not None:
                yield steps
        if not self.lossless and len(out) == mark and any(type(key) is not str for key in value):
            out.append((issues.lossy_object, path, UNSET))
        elif node.constraints:
            out.extend(constraint_faults(node, value, path))

    def _array(self, node: ArrayNode, value: list[Any], path: ValuePath, out: list[Fault]) -> _Steps:
        """Check a list item by item (SCHEMA-D11)."""
        mark = len(out)
        items = node.items
        if items is not None:
            quick, lossless_quick = quick_types(items)
            native = self.owner.native(items) if self.lossless else None
            # The base class's own iterator: a subclass may have ideas of its own.
            entries: list[Any] = value if self.lossless else [*list.__iter__(value)]  # pyright: ignore[reportUnknownMemberType]
            for index in range(len(entries)) if native is None else _suspects(native, entries):
                item = entries[index]
                kind = type(item)  # pyright: ignore[reportUnknownVariableType]
                if kind is quick or (kind is lossless_quick and self.lossless):
                    continue
                steps = self.start(items, item, (path, index), out)
                if steps is not None:
                    yield steps
        if not self.lossless and len(out) == mark and not _list_is_lossless(value, node.items is not None):
            out.append((issues.lossy_array, path, UNSET))
        elif node.constraints:
            out.extend(constraint_faults(node, value, path))

    def _union(self, node: UnionNode, value: object, path: ValuePath, out: list[Fault]) -> _Steps:
        """Count the branches that accept the value; each is tried, whatever the others said (SCHEMA-D12)."""
        matched = 0
        known = self.known
        for branch in node.branches:
            if known is None:
                verdict = self._verdict(branch, value)
            else:
                branch = self.owner.resolve(branch)
                verdict = known.get((branch, id(value)))
            if verdict is None:
                faults: list[Fault] = []
                steps = self.judge.start(branch, value, path, faults)
                if steps is not None:
                    yield steps
                verdict = not faults
                if known is not None:
                    known[branch, id(value)] = verdict
            matched += verdict
        if node.mode == "oneOf" and matched != 1:
            out.append((issues.oneof_mismatch, path, matched))
        elif matched == 0:
            if self.explains:
                yield from self._explain(node, value, path, out)
            else:
                out.append((issues.anyof_mismatch, path, UNSET))
        elif node.constraints:
            out.extend(constraint_faults(node, value, path))

    def _explain(self, node: UnionNode, value: object, path: ValuePath, out: list[Fault]) -> _Steps:
        """Say why no branch of an ``anyOf`` fits: by the only branch of the right type or discriminator (D31)."""
        branches = [self.owner.resolve(branch) for branch in node.branches]
        fitting = [branch for branch in branches if fits_type(branch, value)]
        if len(fitting) > 1:
            named = [branch for branch in fitting if discriminates(branch, value)]
            fitting = named if len(named) == 1 else fitting
        if len(fitting) == 1:
            steps = self.start(fitting[0], value, path, out)
            if steps is not None:
                yield steps
            return
        phrases = [phrase_of(branch) for branch in branches]
        if fitting or None in phrases:
            out.append((issues.anyof_mismatch, path, UNSET))
        else:
            out.append((issues.must_be, path, " or ".join(dict.fromkeys(cast("list[str]", phrases)))))


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
