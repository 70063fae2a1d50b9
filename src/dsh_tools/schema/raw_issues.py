"""Wording for raw JSON Schema: the library's errors in our vocabulary, so that a model can correct itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jsonschema_rs

from ..json_value import join_path, to_json_text
from . import issues

__all__ = ["reworded"]

_MAX_TEXT = 200


def reworded(errors: Iterable[jsonschema_rs.ValidationError], path: str) -> list[str]:
    """Turn the library's errors into violations, each with its path."""
    found: list[str] = []
    for error in errors:
        found.extend(_violations(error, path))
    return list(dict.fromkeys(found))


def _violations(error: jsonschema_rs.ValidationError, root: str) -> list[str]:
    path = root
    for segment in error.instance_path:
        path = join_path(path, segment)
    kind = error.kind.name
    facts = error.kind.as_dict()
    if kind in ("additionalProperties", "unevaluatedProperties"):
        return [issues.undeclared(join_path(path, key), kind) for key in facts["unexpected"]]
    if kind == "oneOf":
        branches: list[list[jsonschema_rs.ValidationError]] = facts["context"]
        matched = sum(1 for branch in branches if not branch)
        return [issues.oneof_mismatch(path, matched)]
    if kind == "anyOf":
        return _any_of(error, facts["context"], root, path)
    word = _WORDING.get(kind)
    return [word(path, facts) if word is not None else _plain(path, error)]


def _any_of(
    union: jsonschema_rs.ValidationError, branches: list[list[jsonschema_rs.ValidationError]], root: str, path: str
) -> list[str]:
    """Explain by the only branch of the right type, if there is one; else name the types that would do."""
    place = list(union.instance_path)
    fitting: list[list[jsonschema_rs.ValidationError]] = []
    types: list[str] = []
    for branch in branches:
        mismatch = next((e for e in branch if e.kind.name == "type" and list(e.instance_path) == place), None)
        if mismatch is None:
            fitting.append(branch)
        else:
            types.extend(_phrases(mismatch.kind.as_dict()["types"]))
    if len(fitting) == 1:
        return [text for error in fitting[0] for text in _violations(error, root)]
    if not fitting:
        return [issues.must_be(path, " or ".join(dict.fromkeys(types)))]
    return [issues.anyof_mismatch(path)]


def _phrases(types: Iterable[str]) -> list[str]:
    return [issues.TYPE_PHRASES.get(name, name) for name in types]


def _json(value: Any) -> str:
    text = to_json_text(value)
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"


def _plain(path: str, error: jsonschema_rs.ValidationError) -> str:
    message = error.message if len(error.message) <= _MAX_TEXT else error.message[:_MAX_TEXT] + "…"
    return f"{issues.quoted_path(path)} breaks {error.kind.name}: {message}"


def _count(noun: str, plural: str, bound: str) -> Callable[[str, dict[str, Any]], str]:
    def word(path: str, facts: dict[str, Any]) -> str:
        limit = facts["limit"]
        return f"{issues.quoted_path(path)} must have {bound} {limit} {noun if limit == 1 else plural}"

    return word


def _bound(phrase: str) -> Callable[[str, dict[str, Any]], str]:
    return lambda path, facts: issues.must_be(path, f"{phrase} {_json(facts['limit'])}")


_WORDING: dict[str, Callable[[str, dict[str, Any]], str]] = {
    "type": lambda path, facts: issues.must_be(path, " or ".join(_phrases(facts["types"]))),
    "required": lambda path, facts: issues.missing(join_path(path, facts["property"])),
    "enum": lambda path, facts: issues.must_be(path, f"one of {_json(facts['options'])}"),
    "const": lambda path, facts: issues.must_be(path, _json(facts["expected_value"])),
    "falseSchema": lambda path, facts: f"{issues.quoted_path(path)} is not allowed",
    "not": lambda path, facts: f"{issues.quoted_path(path)} must not match {_json(facts['schema'])}",
    "minimum": _bound("at least"),
    "maximum": _bound("at most"),
    "exclusiveMinimum": _bound("greater than"),
    "exclusiveMaximum": _bound("less than"),
    "multipleOf": lambda path, facts: issues.must_be(path, f"a multiple of {_json(facts['multiple_of'])}"),
    "minLength": _count("character", "characters", "at least"),
    "maxLength": _count("character", "characters", "at most"),
    "minItems": _count("item", "items", "at least"),
    "maxItems": _count("item", "items", "at most"),
    "minProperties": _count("property", "properties", "at least"),
    "maxProperties": _count("property", "properties", "at most"),
    "uniqueItems": lambda path, facts: f"{issues.quoted_path(path)} must hold no item twice",
    "pattern": lambda path, facts: f"{issues.quoted_path(path)} must match the pattern {_json(facts['pattern'])}",
}
