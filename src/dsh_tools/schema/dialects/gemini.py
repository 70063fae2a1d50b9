"""Gemini's spelling of a schema: OpenAPI types in capitals, ``nullable`` in place of null."""

from __future__ import annotations

from typing import Any

from .documents import Document

__all__ = ["spell"]

_TEXTS = ("title", "description")


def spell(schema: Document) -> dict[str, Any]:
    """Return a restricted schema in Gemini's form.

    An object sends no undeclared keys there, so ``additionalProperties`` is not spelled. ``anyOf`` must
    stand alone, so its texts and ``nullable`` move into the first alternative.
    """
    if "anyOf" in schema:
        return _alternatives(schema)
    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "type":
            result["type"] = value.upper()
        elif keyword == "properties":
            result["properties"] = {key: spell(child) for key, child in value.items()}
        elif keyword == "items":
            result["items"] = spell(value)
        elif keyword != "additionalProperties" and not (keyword == "required" and not value):
            result[keyword] = value
    return result


def _alternatives(schema: Document) -> dict[str, Any]:
    branches = [branch for branch in schema["anyOf"] if branch.get("type") != "null"]
    if not branches:
        return {"type": "NULL", **{k: schema[k] for k in _TEXTS if k in schema}}
    parts: list[dict[str, Any]] = []
    for spelled in map(spell, branches):
        parts += spelled.get("anyOf", [spelled])
    first = parts[0]
    if "title" in schema:
        first["title"] = schema["title"]
    if "description" in schema:
        first["description"] = " ".join(filter(None, (schema["description"], first.get("description"))))
    if len(branches) < len(schema["anyOf"]):
        first["nullable"] = True
    return first if len(parts) == 1 else {"anyOf": parts}
