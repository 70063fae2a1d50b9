"""Lowering any JSON Schema document to nodes, as far as nodes can say it (D31).

The nodes are for readers (generated code, hints, dialects): what they cannot say becomes a node
that allows more. The verdict on values always comes from the document itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

from msgspec import UNSET

from .json_schema import ANNOTATIONS, SCALARS, is_list, is_record, is_scalar_of
from .native import CONSTRAINT_KEYWORDS
from .nodes import AnyNode, ArrayNode, MapNode, Node, ObjectNode, RefNode, UnionNode, find_circle
from .walk import Walk, run

__all__ = ["lower_document"]

_MISSING: Any = object()
_KINDS = ("string", "integer", "number", "boolean", "null")


def lower_document(document: Any) -> tuple[Node, dict[str, Node]]:
    """Return the node of a lossless document, and the definitions that its references use."""
    lowering = _Lowering(document)
    node = run(lowering.schema(document))
    while lowering.wanted:
        name, target = lowering.wanted.popitem()
        lowering.definitions[name] = run(lowering.schema(target))
    # A definition that leads back to itself at one place says nothing that a walk over nodes could find out.
    while circle := find_circle(lowering.definitions):
        lowering.definitions[circle[0]] = AnyNode()
    return node, lowering.definitions


def resolve_pointer(document: Any, reference: str) -> Any:
    """Return what a local reference (``#/a/b``) points to; ``_MISSING`` when it is not there or not local."""
    if reference != "#" and not reference.startswith("#/"):
        return _MISSING
    current = document
    for raw in reference.split("/")[1:]:
        segment = unquote(raw).replace("~1", "/").replace("~0", "~")
        if is_record(current) and segment in current:
            current = current[segment]
        elif is_list(current) and segment.isdecimal() and int(segment) < len(current):
            current = current[int(segment)]
        else:
            return _MISSING
    return current


class _Lowering:
    """One document on its way to nodes. ``wanted`` holds referenced definitions not lowered yet."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self.definitions: dict[str, Node] = {}
        self.wanted: dict[str, Any] = {}
        self.names: dict[str, str] = {}

    def schema(self, document: Any) -> Walk[Node]:
        """Lower one schema."""
        if not is_record(document):
            return AnyNode()
        record = cast("dict[str, Any]", document)
        notes = _notes(record)
        if type(record.get("$ref")) is str:
            return self._reference(record["$ref"], notes)
        if "type" in record:
            return (yield self._typed(record, notes))
        for mode in ("oneOf", "anyOf"):
            if is_list(record.get(mode)):
                branches: list[Node] = []
                for branch in record[mode]:
                    branches.append((yield self.schema(branch)))
                return branches[0] if len(branches) == 1 else UnionNode(branches=tuple(branches), mode=mode, **notes)
        if "const" in record or is_list(record.get("enum")):
            return _literals([record["const"]] if "const" in record else record["enum"], notes)
        parts = record.get("allOf")
        if is_list(parts) and len(cast("list[Any]", parts)) == 1:
            return (yield self.schema(cast("list[Any]", parts)[0]))
        return AnyNode(**notes)

    def _reference(self, reference: str, notes: dict[str, Any]) -> Node:
        """Lower a reference by name; one that leads nowhere known allows anything."""
        known = self.names.get(reference)
        if known is None:
            target = resolve_pointer(self.document, reference)
            if target is _MISSING:
                return AnyNode(**notes)
            short = reference.rpartition("/")[2] or reference
            known = short if short not in self.names.values() else reference
            self.names[reference] = known
            self.wanted[known] = target
        return RefNode(name=known, **notes)

    def _typed(self, record: dict[str, Any], notes: dict[str, Any]) -> Walk[Node]:
        """Lower a schema with ``type``, a single one or a list of alternatives."""
        kinds = record["type"]
        if not is_list(kinds):
            return (yield self._of_type(record, kinds, notes))
        constraints = {key: value for key, value in notes.items() if key == "constraints"}
        branches: list[Node] = []
        for kind in cast("list[Any]", kinds):
            branches.append((yield self._of_type(record, kind, constraints)))
        if len(branches) == 1:
            return branches[0]
        return UnionNode(branches=tuple(branches), mode="anyOf", **_without_constraints(notes))

    def _of_type(self, record: dict[str, Any], kind: Any, notes: dict[str, Any]) -> Walk[Node]:
        if kind == "object":
            return (yield self._object(record, notes))
        if kind == "array":
            items: Node | None = None
            if "items" in record and not is_list(record["items"]):
                items = yield self.schema(record["items"])
            return ArrayNode(items=items, **notes)
        if type(kind) is str and kind in SCALARS:
            const = record.get("const", UNSET)
            listed: list[Any] = record["enum"] if is_list(record.get("enum")) else []
            enum = tuple(entry for entry in listed if is_scalar_of(kind, entry))
            if const is not UNSET and not is_scalar_of(kind, const):
                const = UNSET
            return SCALARS[kind](enum=enum or None, const=const, **notes)
        return AnyNode(**notes)

    def _object(self, record: dict[str, Any], notes: dict[str, Any]) -> Walk[Node]:
        declared = record.get("properties")
        additional = record.get("additionalProperties", True)
        open_ended = "patternProperties" in record
        if is_record(additional) and not declared and not open_ended:
            values: Node = yield self.schema(additional)
            return MapNode(values=values, **notes)
        properties: dict[str, Node] = {}
        if is_record(declared):
            for key, child in cast("dict[str, Any]", declared).items():
                properties[key] = yield self.schema(child)
        required = record.get("required")
        names = [name for name in cast("list[Any]", required) if type(name) is str] if is_list(required) else []
        return ObjectNode(
            properties=properties,
            required=tuple(names),
            additional=open_ended or additional is not False,
            declared=declared is not None,
            **notes,
        )


def _notes(record: Mapping[str, Any]) -> dict[str, Any]:
    """Collect annotations and constraints as node fields."""
    notes: dict[str, Any] = {key: record[key] for key in ANNOTATIONS if key in record}
    for key in ("description", "title"):
        if key in notes and type(notes[key]) is not str:
            del notes[key]
    constraints = {key: value for key, value in record.items() if key in CONSTRAINT_KEYWORDS}
    if constraints:
        notes["constraints"] = constraints
    return notes


def _without_constraints(notes: dict[str, Any]) -> dict[str, Any]:
    """Leave out constraints that the branches carry already."""
    return {key: value for key, value in notes.items() if key != "constraints"}


def _literals(options: list[Any], notes: dict[str, Any]) -> Node:
    """Lower listed values without a type: one node per JSON type that occurs."""
    groups: dict[str, list[Any]] = {}
    for option in options:
        kind = next(
            (name for name in ("string", "integer", "number", "boolean", "null") if is_scalar_of(name, option)), None
        )
        if kind is None:
            return AnyNode(**notes)
        groups.setdefault(kind, []).append(option)
    if len(groups) == 1:
        [(kind, entries)] = groups.items()
        return SCALARS[kind](enum=tuple(entries), **notes)
    branches = tuple(SCALARS[kind](enum=tuple(entries)) for kind, entries in groups.items())
    return UnionNode(branches=branches, mode="anyOf", **notes)
