"""The JSON Schema subset of the contract: checking a document, and lowering it to nodes (SCHEMA section C).

One walk does both: it collects every violation in the contract's order, and what it builds
counts only when there was none.
"""

from __future__ import annotations

from math import copysign
from typing import Any, cast

from msgspec import UNSET

from ..errors import JsonSchemaError
from ..json_value import FrozenDict, FrozenList, is_lossless, snapshot
from .nodes import (
    AnyNode,
    ArrayNode,
    BooleanNode,
    IntegerNode,
    Node,
    NullNode,
    NumberNode,
    ObjectNode,
    ScalarNode,
    StringNode,
    UnionNode,
)
from .paths import DocumentPath, document_path
from .walk import Walk, run

__all__ = ["assert_object_json_schema", "assert_supported_json_schema", "check_document", "is_list", "is_record"]

ANNOTATIONS = ("description", "title", "default", "examples")
CONSTRAINTS = ("type", "oneOf", "properties", "required", "additionalProperties", "items", "enum", "const")
# The order in which misplaced keywords are reported (SCHEMA-C5, C6, C8).
_BESIDE = ("properties", "required", "additionalProperties", "items", "enum", "const")
_KNOWN = frozenset(ANNOTATIONS + CONSTRAINTS)
SCALARS: dict[str, type[ScalarNode]] = {
    "string": StringNode,
    "number": NumberNode,
    "integer": IntegerNode,
    "boolean": BooleanNode,
    "null": NullNode,
}
_ALLOWED = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items"}),
    **{name: frozenset({"enum", "const"}) for name in SCALARS},
}
_UNSUPPORTED = (
    "is not a supported keyword (subset: type/oneOf/properties/required/additionalProperties/items/enum/const"
    " + annotations)"
)


def assert_supported_json_schema(document: object) -> None:
    """Check that a document stays inside the subset (SCHEMA-C2).

    Raises:
        JsonSchemaError: it does not; ``violations`` lists everything found, in walk order.
    """
    check_document(document)


def assert_object_json_schema(document: object) -> None:
    """Check a document like :func:`assert_supported_json_schema`, and that its root is an object (SCHEMA-C14).

    Raises:
        JsonSchemaError: it is outside the subset, or its root is something else, a union included.
    """
    check_document(document)
    if cast("dict[str, Any]", document).get("type") != "object":
        raise JsonSchemaError(['schema.type must be "object" (structured output is object-rooted)'])


def check_document(document: object) -> Node:
    """Check a document and return its node; raise :class:`JsonSchemaError` with all violations."""
    checker = _Checker()
    node = run(checker.schema(document, "schema"))
    if checker.violations:
        raise JsonSchemaError(checker.violations)
    return node


def is_record(value: object) -> bool:
    """Whether a value is a plain record: a dict, or our frozen one, with nothing but string keys (SCHEMA-A5, D26)."""
    return type(value) in (dict, FrozenDict) and all(type(key) is str for key in cast("dict[Any, Any]", value))


def is_list(value: object) -> bool:
    """Whether a value is a plain list (SCHEMA-A5)."""
    return type(value) in (list, FrozenList)


def is_scalar_of(kind: str, value: object) -> bool:
    """Whether a value is a lossless scalar of a JSON type; ``1.0`` is an integer, ``True`` is no number (SCHEMA-A4)."""
    given = type(value)
    if kind == "string":
        return given is str
    if kind == "boolean":
        return given is bool
    if kind == "null":
        return value is None
    if given is int:
        return True
    if given is not float:
        return False
    number = cast("float", value)
    finite = number - number == 0.0 and not (number == 0.0 and copysign(1.0, number) < 0)
    return finite and (kind == "number" or number.is_integer())


class _Checker:
    """The walk over one document. ``violations`` grows in the contract's order."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.ancestors: set[int] = set()

    def report(self, path: DocumentPath, problem: str) -> None:
        """Note a violation: a path that ends at the fault, and what is wrong there."""
        self.violations.append(document_path(path) + problem)

    def schema(self, document: object, path: DocumentPath) -> Walk[Node]:
        """Check one schema object (SCHEMA-C3)."""
        if not is_record(document):
            self.report(path, " must be a schema object")
            return AnyNode()
        if id(document) in self.ancestors:
            self.report(path, " is circular")
            return AnyNode()
        record = cast("dict[str, Any]", document)
        self.ancestors.add(id(document))
        notes = self._keywords(record, path)
        node: Node = yield self._shape(record, path, notes)
        self.ancestors.discard(id(document))
        return node

    def _keywords(self, record: dict[str, Any], path: DocumentPath) -> dict[str, Any]:
        """Check the keys and annotations (SCHEMA-C3); return the annotations as node fields."""
        notes: dict[str, Any] = {}
        for key, value in record.items():
            if key not in _KNOWN:
                self.report(path, f".{key} {_UNSUPPORTED}")
            elif key in ANNOTATIONS:
                if is_lossless(value):
                    notes[key] = snapshot(value)
                else:
                    self.report(path, f".{key} annotation must be lossless JSON data")
        for key in ("description", "title"):
            if key in record and type(record[key]) is not str:
                self.report(path, f".{key} must be a string")
                notes.pop(key, None)
        return notes

    def _shape(self, record: dict[str, Any], path: DocumentPath, notes: dict[str, Any]) -> Walk[Node]:
        """Check what the schema constrains (SCHEMA-C4 to C8)."""
        if "type" in record and "oneOf" in record:
            self.report(path, " cannot declare both type and oneOf")
            return AnyNode()
        if "oneOf" in record:
            return (yield self._union(record, path, notes))
        if "type" not in record:
            self._refuse_beside(record, path, "requires type or oneOf")
            return AnyNode(**notes)
        kind = record["type"]
        if type(kind) is not str or kind not in _ALLOWED:
            if is_list(kind):
                problem = "must be a single type string (type arrays are not supported)"
            else:
                problem = "must be one of object/array/string/number/integer/boolean/null"
            self.report(path, f".type {problem}")
            return AnyNode()
        self._refuse_beside(record, path, f'is not supported on type "{kind}"', _ALLOWED[kind])
        if kind == "object":
            return (yield self._object(record, path, notes))
        if kind == "array":
            items: Node | None = None
            if "items" in record:
                items = yield self.schema(record["items"], (path, ".items"))
            return ArrayNode(items=items, **notes)
        return self._scalar(record, path, kind, notes)

    def _refuse_beside(
        self, record: dict[str, Any], path: DocumentPath, problem: str, allowed: frozenset[str] = frozenset()
    ) -> None:
        for key in _BESIDE:
            if key in record and key not in allowed:
                self.report(path, f".{key} {problem}")

    def _union(self, record: dict[str, Any], path: DocumentPath, notes: dict[str, Any]) -> Walk[Node]:
        """Check a ``oneOf`` (SCHEMA-C6)."""
        branches: list[Node] = []
        listed = record["oneOf"]
        if not is_list(listed) or len(listed) < 2:
            self.report(path, ".oneOf must be an array of at least two schemas")
        else:
            for index, branch in enumerate(listed):
                branches.append((yield self.schema(branch, (path, f".oneOf[{index}]"))))
        self._refuse_beside(record, path, "is not supported beside oneOf")
        return UnionNode(branches=tuple(branches), **notes)

    def _object(self, record: dict[str, Any], path: DocumentPath, notes: dict[str, Any]) -> Walk[Node]:
        """Check an object; ``required`` and ``additionalProperties`` come after all descendants (SCHEMA-C9)."""
        properties: dict[str, Node] = {}
        declared = record.get("properties")
        if "properties" in record:
            if is_record(declared):
                for key, child in cast("dict[str, Any]", declared).items():
                    properties[key] = yield self.schema(child, (path, f".properties.{key}"))
            else:
                self.report(path, ".properties must be an object of schemas")
        required = record.get("required")
        if "required" in record:
            if is_list(required) and all(type(name) is str for name in cast("list[Any]", required)):
                for name in cast("list[str]", required):
                    if name not in properties:
                        self.report(path, f'.required names "{name}" which is not in properties')
            else:
                self.report(path, ".required must be an array of strings")
                required = None
        additional = record.get("additionalProperties", True)
        if type(additional) is not bool:
            self.report(path, ".additionalProperties must be a boolean")
        return ObjectNode(
            properties=properties,
            required=tuple(cast("list[str]", required or ())),
            additional=additional is not False,
            declared="properties" in record,
            **notes,
        )

    def _scalar(self, record: dict[str, Any], path: DocumentPath, kind: str, notes: dict[str, Any]) -> Node:
        """Check ``enum`` and ``const`` of a scalar (SCHEMA-C11, C12)."""
        enum: tuple[Any, ...] | None = None
        const: Any = record.get("const", UNSET)
        if "enum" in record:
            listed = record["enum"]
            if is_list(listed) and listed and all(is_scalar_of(kind, entry) for entry in listed):
                enum = tuple(listed)
            else:
                self.report(path, f".enum must be a non-empty array of {kind} values")
        if "const" in record:
            if not is_scalar_of(kind, const):
                self.report(path, f".const must be a {kind} value")
            elif enum is not None and const not in enum:
                self.report(path, f".const must be one of {document_path(path)}.enum when both are declared")
        return SCALARS[kind](enum=enum, const=const, **notes)
