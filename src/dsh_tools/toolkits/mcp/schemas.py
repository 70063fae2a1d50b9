"""A server's schemas, as far as they can be used; what cannot is said to the log and left open (D31, D32)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

from ...errors import JsonSchemaError
from ...schema import RawSchema, Schema, compile_raw

__all__ = ["nest_schema", "output_schema", "parameter_schema"]

_log = logging.getLogger("dsh_tools")

_CONTENT: Mapping[str, Any] = {
    "type": "array",
    "items": {"type": "object"},
    "description": "The content blocks as the server sent them.",
}
_OPEN: Mapping[str, Any] = {
    "type": "object",
    "properties": {"content": _CONTENT, "structuredContent": {}},
    "required": ["content"],
}


def parameter_schema(label: str, document: object) -> Schema:
    """Compile a tool's ``inputSchema``; one that is wrong admits every object, with a warning (HOST-235, D8, D32)."""
    try:
        if not isinstance(document, dict):
            raise JsonSchemaError(["schema must be an object"])
        record = cast("dict[str, Any]", document)
        schema = compile_raw(record if "type" in record else {"type": "object", **record})
        if schema.json.get("type") != "object":
            raise JsonSchemaError(["schema must have the type object"])
        return schema
    except JsonSchemaError as error:
        _log.warning("%s: its parameters are not checked: %s", label, error.message)
        return compile_raw({"type": "object"})


def output_schema(label: str, document: object) -> Schema:
    """Return the schema of the tool's value (HOST-236).

    With a usable ``outputSchema`` the structured content is required and checked; with one that is not
    usable, or none, it may be anything or absent.
    """
    if document is not None:
        try:
            if not isinstance(document, dict):
                raise JsonSchemaError(["schema must be an object"])
            compile_raw(cast("dict[str, Any]", document))
            return compile_raw(
                RawSchema(
                    {
                        "type": "object",
                        "properties": {
                            "content": _CONTENT,
                            "structuredContent": nest_schema(document, "#/properties/structuredContent"),
                        },
                        "required": ["content", "structuredContent"],
                    }
                )
            )
        except JsonSchemaError as error:
            _log.warning("%s: its structured content may be any JSON: %s", label, error.message)
    return compile_raw(_OPEN)


def nest_schema(document: Any, place: str) -> Any:
    """Return a schema document for use inside another one, its own references still leading into itself.

    Parameters:
        place: where it will be, as a reference from the outer root: ``#/properties/name``.
    """
    if not isinstance(document, dict):
        return document
    record = {key: value for key, value in cast("dict[str, Any]", document).items() if key != "$schema"}
    # A document with an identity of its own is the root of its references wherever it is.
    return record if "$id" in record else _moved(record, place)


def _moved(part: Any, place: str) -> Any:
    if isinstance(part, list):
        return [_moved(item, place) for item in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    return {key: _moved_member(key, value, place) for key, value in cast("dict[str, Any]", part).items()}


def _moved_member(key: str, value: Any, place: str) -> Any:
    if key == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
        return place + value[1:]
    # Values, not schemas: what looks like a reference in them is none.
    return value if key in ("const", "enum", "default", "examples") else _moved(value, place)
