"""The author DSL: specs as data, compiled to JSON Schema documents (SCHEMA section B).

Compilation stops at the first fault, depth first; what it produces is then checked as a document,
which reports everything (SCHEMA-B12, B13).
"""

from __future__ import annotations

from typing import Any, NoReturn, cast

from ..errors import JsonSchemaError
from .json_schema import ANNOTATIONS, SCALARS, is_list, is_record
from .paths import DocumentPath, document_path
from .walk import Walk, run

__all__ = ["lower_parameters", "lower_value"]

_NOTES = frozenset(ANNOTATIONS)
_UNION_KEYS = _NOTES | {"type", "oneOf"}
_KEYS = {
    "json": _NOTES | {"type"},
    "array": _NOTES | {"type", "items"},
    "object": _NOTES | {"type", "properties", "additionalProperties"},
    **{name: _NOTES | {"type", "enum", "const"} for name in SCALARS},
}


def lower_value(spec: object) -> dict[str, Any]:
    """Compile one value spec to a JSON Schema document, not yet checked as such.

    Raises:
        JsonSchemaError: the spec is not of the DSL; one violation, whose path starts at ``schema``.
    """
    return run(_Compiler().node(spec, "schema", in_map=False))


def lower_parameters(spec: object) -> dict[str, Any]:
    """Compile a parameter map to its implicit open object root, not yet checked as a document (SCHEMA-B1).

    Raises:
        JsonSchemaError: the spec is not of the DSL; one violation, whose path starts at ``parameters``.
    """
    if not is_record(spec):
        _fail("parameters", " must be an object of value schemas")
    properties, required = run(_Compiler().properties(cast("dict[str, Any]", spec), "parameters"))
    document: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        document["required"] = required
    return document


def _fail(path: DocumentPath, problem: str) -> NoReturn:
    raise JsonSchemaError([document_path(path) + problem])


class _Compiler:
    """One compilation; knows the nodes and maps it is inside of (SCHEMA-B11)."""

    def __init__(self) -> None:
        self.ancestors: set[int] = set()

    def node(self, spec: object, path: DocumentPath, *, in_map: bool) -> Walk[dict[str, Any]]:
        """Compile one node. ``in_map``: it is a property, so ``required`` is its to say (SCHEMA-B3, B4)."""
        if not is_record(spec):
            _fail(path, " must be a value schema object")
        record = cast("dict[str, Any]", spec)
        if in_map and "required" in record and record["required"] is not True:
            _fail(path, ".required must be true when present")
        self._enter(spec, path)
        kind = record.get("type")
        if "oneOf" in record:
            out: dict[str, Any] = yield self._union(record, path, in_map)
        elif type(kind) is not str or kind not in _KEYS:
            _fail(path, ".type must be string/number/integer/boolean/null/array/object/json, or use oneOf")
        else:
            _check_keys(record, path, _KEYS[kind], in_map)
            if kind == "object":
                out = yield self._object(record, path)
            elif kind == "array":
                out = {"type": "array", **_notes(record)}
                if "items" in record:
                    out["items"] = yield self.node(record["items"], (path, ".items"), in_map=False)
            else:
                out = _scalar(record, path, kind)
        self.ancestors.discard(id(spec))
        return out

    def properties(self, spec: dict[str, Any], path: DocumentPath) -> Walk[tuple[dict[str, Any], list[str]]]:
        """Compile a property map to its schemas and the names that are required (SCHEMA-B16, B18)."""
        self._enter(spec, path)
        compiled: dict[str, Any] = {}
        required: list[str] = []
        for key, entry in spec.items():
            compiled[key] = yield self.node(entry, (path, f".{key}"), in_map=True)
            if "required" in entry:
                required.append(key)
        self.ancestors.discard(id(spec))
        return compiled, required

    def _enter(self, spec: object, path: DocumentPath) -> None:
        if id(spec) in self.ancestors:
            _fail(path, " is circular")
        self.ancestors.add(id(spec))

    def _union(self, record: dict[str, Any], path: DocumentPath, in_map: bool) -> Walk[dict[str, Any]]:
        """Compile a ``oneOf`` (SCHEMA-B7); the two-branch minimum is the document's business."""
        _check_keys(record, path, _UNION_KEYS, in_map)
        if "type" in record:
            _fail(path, " cannot declare both type and oneOf")
        listed = record["oneOf"]
        if not is_list(listed):
            _fail(path, ".oneOf must be an array of at least two value schemas")
        branches: list[dict[str, Any]] = []
        for index, branch in enumerate(listed):
            branches.append((yield self.node(branch, (path, f".oneOf[{index}]"), in_map=False)))
        return {"oneOf": branches, **_notes(record)}

    def _object(self, record: dict[str, Any], path: DocumentPath) -> Walk[dict[str, Any]]:
        """Compile an object, which must say whether it is open (SCHEMA-B5, B6)."""
        additional = record.get("additionalProperties")
        if type(additional) is not bool:
            _fail(path, ".additionalProperties must be explicitly true or false")
        out: dict[str, Any] = {"type": "object", **_notes(record), "additionalProperties": additional}
        if "properties" in record:
            spec = record["properties"]
            if not is_record(spec):
                _fail(path, ".properties must be an object of value schemas")
            compiled, required = yield self.properties(spec, (path, ".properties"))
            out["properties"] = compiled
            if required:
                out["required"] = required
        return out


def _check_keys(record: dict[str, Any], path: DocumentPath, allowed: frozenset[str], in_map: bool) -> None:
    """Refuse the first key that the kind of node does not have (SCHEMA-B3)."""
    for key in record:
        if key not in allowed and not (in_map and key == "required"):
            _fail(path, f".{key} is not supported by the value schema DSL")


def _notes(record: dict[str, Any]) -> dict[str, Any]:
    """Return the annotations that are present, in the contract's member order (SCHEMA-B17, B19)."""
    return {key: record[key] for key in ANNOTATIONS if key in record}


def _scalar(record: dict[str, Any], path: DocumentPath, kind: str) -> dict[str, Any]:
    out = _notes(record) if kind == "json" else {"type": kind, **_notes(record)}
    if "enum" in record:
        listed = record["enum"]
        if not is_list(listed):
            _fail(path, ".enum must be a non-empty array of scalar values")
        out["enum"] = list(listed)
    if "const" in record:
        out["const"] = record["const"]
    return out
