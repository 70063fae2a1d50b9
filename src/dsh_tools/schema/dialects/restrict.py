"""Rewrites a schema into the few keywords a strict provider takes, without widening it.

The result is still standard JSON Schema, and what it accepts the original accepts, once a plan
(see :mod:`.restore`) has turned the value back. What cannot be said is a loss, which is an error
unless the report allows losses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias, cast

from ..types.disjoint import json_kinds, pairwise_disjoint
from .documents import ANNOTATIONS, Document, merge_target, only_part
from .leaves import bounds, listed_values, texts
from .report import Inexpressible, Report
from .restore import ArrayPlan, ObjectPlan, Plan, RefPlan, UnionPlan
from .target import NARROWING, Target
from .wire_names import wire_names

__all__ = ["Restricted", "restrict"]

_NULL: dict[str, Any] = {"type": "null"}
_SCALAR_UNION: dict[str, Any] = {"anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "null")]}
_CONSTRAINTS = frozenset(("properties", "required", "additionalProperties", "items", "enum", "const")).union(
    *NARROWING.values()
)
_LOST = ("not", "if", "allOf")
_NO_EFFECT = {
    "uniqueItems": False,
    "minItems": 0,
    "minLength": 0,
    "minProperties": 0,
    "unevaluatedProperties": False,
}

_Made: TypeAlias = "tuple[dict[str, Any], Plan | None]"


class Restricted(NamedTuple):
    """A rewritten document, and the plans that turn values back."""

    schema: dict[str, Any]
    plan: Plan | None
    definitions: Mapping[str, Plan | None]


def restrict(document: Document, target: Target, report: Report) -> Restricted:
    """Rewrite a document for a target.

    Parameters:
        document: has an object at its root and only named references.
        target: what the provider takes.
        report: where remarks go.

    Raises:
        Inexpressible: the target cannot say it, and the report allows no losses.
    """
    return _Rewriter(document, target, report).run()


def _type_set(kinds: Any) -> set[str]:
    return {kinds} if isinstance(kinds, str) else set(kinds)


def _definition_name(schema: Document) -> str:
    ref: str = schema["$ref"]
    return ref.rsplit("/", 1)[-1]


class _Rewriter:
    def __init__(self, document: Document, target: Target, report: Report) -> None:
        self._root = {k: v for k, v in document.items() if k != "$defs"}
        self._definitions: Mapping[str, Any] = document.get("$defs", {})
        self._target = target
        self._report = report
        self._wire_definitions: dict[str, Any] = {}
        self._plans: dict[str, Plan | None] = {}
        self._waiting: list[str] = []
        self._open: set[str] = set()
        self._count = 0

    def run(self) -> Restricted:
        schema, plan = self._schema(self._root, "", 0)
        while self._waiting:
            name = self._waiting.pop()
            wire, self._plans[name] = self._schema(self._definitions[name], f"$defs.{name}", 1)
            self._wire_definitions[name] = wire
        if self._wire_definitions:
            schema = {**schema, "$defs": self._wire_definitions}
        return Restricted(schema, plan, self._plans)

    # ── one schema ─────────────────────────────────────────────────────────────

    def _schema(self, schema: Any, path: str, depth: int) -> _Made:
        self._count += 1
        if depth > self._target.max_depth or self._count > self._target.max_schemas:
            raise Inexpressible(path, f"too large or too deeply nested for {self._target.label}")
        if schema is False:
            raise Inexpressible(path, "a schema that accepts nothing")
        if not isinstance(schema, dict):
            return self._any({}, path)
        if "$ref" in schema:
            return self._reference(schema, path, depth)  # pyright: ignore[reportUnknownArgumentType]
        part = only_part(schema)  # pyright: ignore[reportUnknownArgumentType]
        merged = None if part is None else merge_target(schema, part)  # pyright: ignore[reportUnknownArgumentType]
        if merged is not None:
            return self._schema(merged, path, depth)
        for keyword in _LOST:
            if keyword in schema:
                self._report.lose(path, f"{keyword} is not allowed in {self._target.label}")
        return self._shape(schema, path, depth)  # pyright: ignore[reportUnknownArgumentType]

    def _shape(self, schema: Document, path: str, depth: int) -> _Made:
        if "anyOf" in schema or "oneOf" in schema:
            return self._union(schema, path, depth)
        if "enum" in schema or "const" in schema:
            parts = listed_values(schema, path, self._target, self._report)
            return self._join([(part, None) for part in parts], self._texts(schema))
        kinds = schema.get("type")
        if kinds is None:
            kinds = "object" if "properties" in schema else "array" if "items" in schema else None
        if kinds is None:
            return self._any(schema, path)
        if isinstance(kinds, str):
            wire, plan = self._typed(schema, kinds, path, depth)
            return {**wire, **self._texts(schema)}, plan
        return self._join([self._typed(schema, kind, path, depth) for kind in kinds], self._texts(schema))

    def _texts(self, schema: Document) -> dict[str, Any]:
        return texts(schema, self._target)

    def _any(self, schema: Document, path: str) -> _Made:
        if self._target.anything:
            return self._texts(schema), None
        reason = f"any JSON value cannot be said in {self._target.label}"
        self._report.lose(path, reason, instead="narrowed to strings, numbers, booleans and null")
        return {**_SCALAR_UNION, **self._texts(schema)}, None

    def _typed(self, schema: Document, kind: str, path: str, depth: int) -> _Made:
        if kind == "object":
            return self._object(schema, path, depth)
        if kind == "array":
            wire, plan = self._schema(schema.get("items", True), f"{path}[]", depth + 1)
            narrowing = self._narrowing(schema, kind, path)
            return {"type": "array", "items": wire, **narrowing}, ArrayPlan(plan) if plan else None
        wire = {"type": kind, **self._narrowing(schema, kind, path)}
        if kind == "string" and schema.get("format") in self._target.formats:
            wire["format"] = schema["format"]
        return wire, None

    def _narrowing(self, schema: Document, kind: str, path: str) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for keyword, value in bounds(schema, kind).items():
            if keyword in self._target.keywords:
                kept[keyword] = value
            elif keyword not in _NO_EFFECT or value != _NO_EFFECT[keyword]:
                self._report.lose(path, f"{keyword} is not allowed in {self._target.label}")
        return kept

    # ── alternatives ───────────────────────────────────────────────────────────

    def _union(self, schema: Document, path: str, depth: int) -> _Made:
        keyword = "anyOf" if "anyOf" in schema else "oneOf"
        beside = sorted(k for k in schema if k in _CONSTRAINTS or (k == "oneOf" and keyword == "anyOf"))
        if beside:
            self._report.lose(path, f"{keyword} beside {beside[0]} is not allowed in {self._target.label}")
            return self._shape({k: v for k, v in schema.items() if k not in ("anyOf", "oneOf")}, path, depth)
        branches = [self._with_type(branch, schema, path) for branch in schema[keyword]]
        if keyword == "oneOf" and not pairwise_disjoint(branches, self._definitions):
            self._report.lose(path, "oneOf alternatives that may overlap: only anyOf is allowed")
        made = [self._schema(branch, f"{path}.{keyword}[{index}]", depth + 1) for index, branch in enumerate(branches)]
        return self._join(made, self._texts(schema))

    def _with_type(self, branch: Any, union: Document, path: str) -> Any:
        """Carry a type that stands beside a union into its branches."""
        kind = union.get("type")
        if kind is None or not isinstance(branch, dict):
            return branch  # pyright: ignore[reportUnknownVariableType]
        seen = cast("Document", branch)
        if "$ref" in seen:
            seen = self._definitions[_definition_name(seen)]
        if "type" not in seen and seen is branch and "anyOf" not in seen and "oneOf" not in seen:
            return {"type": kind, **seen}
        outer = _type_set(kind)
        if "type" not in seen or not _type_set(seen["type"]) <= outer | ({"integer"} if "number" in outer else set()):
            self._report.lose(path, "a type beside alternatives of other types")
        return branch  # pyright: ignore[reportUnknownVariableType]

    def _join(self, made: list[_Made], annotations: dict[str, Any]) -> _Made:
        if len(made) == 1:
            wire, plan = made[0]
            if "$ref" in wire and annotations:
                return {"anyOf": [wire], **annotations}, plan
            return {**wire, **annotations}, plan
        nullable = self._nullable_type(made)
        if nullable is not None:
            return {**nullable, **annotations}, None
        plan = None
        if any(plan for _, plan in made):
            plan = UnionPlan(tuple(made), self._wire_definitions)
        return {"anyOf": [wire for wire, _ in made], **annotations}, plan

    def _nullable_type(self, made: list[_Made]) -> dict[str, Any] | None:
        """Return ``type: [T, null]`` for a scalar and null, where the target takes lists of types."""
        others = [wire for wire, _ in made if wire != _NULL]
        if not self._target.type_arrays or len(made) != 2 or len(others) != 1:
            return None
        kind = others[0].get("type")
        if kind not in ("string", "number", "integer", "boolean"):
            return None
        wire = {**others[0], "type": [kind, "null"]}
        return {**wire, "enum": [*wire["enum"], None]} if "enum" in wire else wire

    # ── references ─────────────────────────────────────────────────────────────

    def _reference(self, schema: Document, path: str, depth: int) -> _Made:
        name = _definition_name(schema)
        self._check_goes_somewhere(name, path)
        if not self._target.references:
            return self._written_out(schema, name, path, depth)
        beside = schema.keys() - ANNOTATIONS - {"$ref"}
        if beside:
            self._report.lose(path, f"$ref beside {min(beside)} is not allowed in {self._target.label}")
        if name not in self._plans:
            self._plans[name] = None
            self._waiting.append(name)
        return self._join([({"$ref": f"#/$defs/{name}"}, RefPlan(name))], self._texts(schema))

    def _check_goes_somewhere(self, name: str, path: str) -> None:
        seen = {name}
        while "$ref" in self._definitions[name]:
            name = _definition_name(self._definitions[name])
            if name in seen:
                raise Inexpressible(path, "a reference that only leads back to itself")
            seen.add(name)

    def _written_out(self, schema: Document, name: str, path: str, depth: int) -> _Made:
        if name in self._open:
            raise Inexpressible(path, f"the definition {name!r} is recursive, which {self._target.label} cannot say")
        merged = merge_target(schema, self._definitions[name])
        if merged is None:
            raise Inexpressible(path, "a reference beside other constraints")
        self._open.add(name)
        try:
            return self._schema(merged, path, depth)
        finally:
            self._open.discard(name)

    # ── objects ────────────────────────────────────────────────────────────────

    def _object(self, schema: Document, path: str, depth: int) -> _Made:
        properties: Mapping[str, Any] = schema.get("properties", {})
        required = dict.fromkeys(schema.get("required", []))
        for name in required:
            if name not in properties:
                raise Inexpressible(path, f'"{name}" is required but not declared')
        narrowing = self._narrowing(schema, "object", path)
        declared = {key: child for key, child in properties.items() if child is not False or key in required}
        if not declared:
            return self._without_properties(schema, narrowing, path, depth), None
        self._closing(schema, path)
        keys = wire_names(declared, self._target.keys, fallback="key") if self._target.keys else {}
        wire: dict[str, Any] = {}
        fields: dict[str, Plan] = {}
        optional: set[str] = set()
        for key, child in declared.items():
            made, plan = self._schema(child, f"{path}.{key}" if path else key, depth + 1)
            if key not in required and self._target.all_required and "null" not in json_kinds(made, self._definitions):
                optional.add(key)
                made = self._nullable(made)
            wire[keys.get(key, key)] = made
            if plan is not None:
                fields[key] = plan
        renamed = {name: key for key, name in keys.items() if name != key}
        for name, key in renamed.items():
            self._report.note(path, f'"{key}" is sent as "{name}"')
        needed = list(wire) if self._target.all_required else [keys.get(key, key) for key in required]
        made = {"type": "object", "properties": wire, "required": needed, **narrowing, "additionalProperties": False}
        plan = ObjectPlan(renamed, frozenset(optional), fields) if renamed or optional or fields else None
        return made, plan

    def _without_properties(self, schema: Document, narrowing: dict[str, Any], path: str, depth: int) -> dict[str, Any]:
        additional = schema.get("additionalProperties")
        needs_keys = bool(schema.get("minProperties"))
        if additional is False and needs_keys:
            raise Inexpressible(path, "a schema that accepts nothing")
        # At the root, an object that says nothing about its keys is the usual way to write "no arguments".
        if additional is False or (path == "" and additional is None and not needs_keys):
            if path and not self._target.empty_objects:
                self._report.lose(path, f"{self._target.label} takes no object without properties")
                return {"type": "object", **narrowing}
            return {
                "type": "object",
                "properties": {},
                "required": [],
                **narrowing,
                "additionalProperties": False,
            }
        if self._target.anything:
            values, plan = self._schema(True if additional is None else additional, f"{path}.*", depth + 1)
            if plan is None:
                return {"type": "object", **narrowing, "additionalProperties": values}
        reason = f"an object with free keys cannot be said in {self._target.label}"
        self._report.lose(path, reason, instead="sent as an object without stated keys")
        return {"type": "object", **narrowing}

    def _closing(self, schema: Document, path: str) -> None:
        additional = schema.get("additionalProperties")
        if additional is None or additional is False:
            return
        reason = f"undeclared keys cannot be sent in {self._target.label}"
        if self._target.open_is_loss:
            self._report.lose(path, reason, instead="only declared keys can be sent")
        else:
            self._report.note(path, reason)

    def _nullable(self, wire: dict[str, Any]) -> dict[str, Any]:
        annotations = {k: wire[k] for k in ("title", "description") if k in wire}
        bare = {k: v for k, v in wire.items() if k not in annotations}
        if "anyOf" in bare:
            return {"anyOf": [*bare["anyOf"], _NULL], **annotations}
        made, _ = self._join([(bare, None), (_NULL, None)], annotations)
        return made
