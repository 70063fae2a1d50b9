"""The parts of a schema without schemas inside: listed values, bounds and texts."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor
from typing import Any

from ...json_value import canonical_text, to_json_text
from ..json_schema import is_scalar_of
from ..raw import compile_raw
from .documents import Document
from .report import Inexpressible, Report
from .target import NARROWING, Target

__all__ = ["bounds", "listed_values", "texts"]


def texts(schema: Document, target: Target) -> dict[str, Any]:
    """Return a schema's title and description.

    What the target has no keyword for (default, examples, a format) is told in words, so that the model still
    reads it.
    """
    told: list[str] = []
    if "default" in schema:
        told.append(f"Default: {to_json_text(schema['default'])}.")
    if isinstance(schema.get("examples"), list):
        told.append(f"Examples: {', '.join(map(to_json_text, schema['examples']))}.")
    if isinstance(schema.get("format"), str) and schema["format"] not in target.formats:
        told.append(f"Format: {schema['format']}.")
    result = {k: schema[k] for k in ("title", "description") if isinstance(schema.get(k), str)}
    if told:
        result["description"] = " ".join([*filter(None, [result.get("description")]), *told])
    return result


def bounds(schema: Document, kind: str) -> Mapping[str, Any]:
    """Return the keywords that narrow a type; an integer's exclusive bounds are written as inclusive ones."""
    found = {k: v for k, v in schema.items() if k in NARROWING[kind]}
    if kind == "integer":
        if "exclusiveMinimum" in found:
            low = floor(found.pop("exclusiveMinimum")) + 1
            found["minimum"] = max(low, found.get("minimum", low))
        if "exclusiveMaximum" in found:
            high = ceil(found.pop("exclusiveMaximum")) - 1
            found["maximum"] = min(high, found.get("maximum", high))
    return found


def listed_values(schema: Document, path: str, target: Target, report: Report) -> list[dict[str, Any]]:
    """Return one schema for each type among the values that a schema lists.

    Raises:
        Inexpressible: no value is left, or the target cannot list one and no losses are allowed.
    """
    values = _accepted(schema, path)
    kept = [value for value in values if not isinstance(value, (dict, list))]
    if len(kept) < len(values):
        report.lose(path, "a listed value that is an object or a list", instead="left out")
    if "" in kept and not target.empty_strings:
        report.lose(path, f"{target.label} lists no empty string", instead="left out")
        kept = [value for value in kept if value != ""]
    if not kept:
        raise Inexpressible(path, "no listed value can be sent")
    strings = [value for value in kept if isinstance(value, str)]
    numbers = [value for value in kept if isinstance(value, (int, float)) and not isinstance(value, bool)]
    parts: list[dict[str, Any]] = [{"type": "string", "enum": strings}] if strings else []
    parts += _numbers(numbers, target)
    parts += _booleans([value for value in kept if isinstance(value, bool)], path, target, report)
    return [*parts, {"type": "null"}] if None in kept else parts


def _accepted(schema: Document, path: str) -> list[Any]:
    """Return the listed values that pass the schema's other keywords, each once."""
    values = schema.get("enum", [schema.get("const")])
    if "const" in schema:
        values = [value for value in values if _identity(value) == _identity(schema["const"])]
    kinds = schema.get("type")
    if kinds is not None:
        allowed = [kinds] if isinstance(kinds, str) else kinds
        values = [value for value in values if any(_matches(value, kind) for kind in allowed)]
    others = {k: v for k, v in schema.items() if any(k in words for words in NARROWING.values())}
    if others:
        narrowing = compile_raw(others)
        values = [value for value in values if narrowing.accepts(value)]
    unique = {_identity(value): value for value in reversed(values)}
    if not unique:
        raise Inexpressible(path, "a schema that accepts nothing")
    return list(reversed(unique.values()))


def _matches(value: object, kind: str) -> bool:
    if isinstance(value, (dict, list)):
        return kind == ("object" if isinstance(value, dict) else "array")
    return is_scalar_of(kind, value)


def _identity(value: object) -> tuple[str, object]:
    """Return a hashable form of a JSON value: 1 and 1.0 give the same, 1 and ``True`` do not."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, (int, float)):
        return ("number", value)
    if value is None or isinstance(value, str):
        return ("text", value)
    return ("container", canonical_text(value))


def _numbers(values: list[int | float], target: Target) -> list[dict[str, Any]]:
    if not values:
        return []
    kind = "integer" if all(_matches(value, "integer") for value in values) else "number"
    if kind in target.enum_types:
        return [{"type": kind, "enum": values}]
    return [{"type": kind, "minimum": value, "maximum": value} for value in values]


def _booleans(values: list[bool], path: str, target: Target, report: Report) -> list[dict[str, Any]]:
    if len(values) == 1 and "boolean" in target.enum_types:
        return [{"type": "boolean", "enum": values}]
    if len(values) == 1:
        report.lose(path, f"{target.label} cannot ask for {to_json_text(values[0])} alone")
    return [{"type": "boolean"}] if values else []
