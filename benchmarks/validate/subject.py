"""What is validated: specs of our DSL, values that fit them, and values that do not."""

from __future__ import annotations

import copy
from typing import Any

KINDS = ("name", "size", "date")
TEXT: dict[str, Any] = {"type": "string"}


def closed(**properties: Any) -> dict[str, Any]:
    """A closed object; all its properties are required."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: {**spec, "required": True} for key, spec in properties.items()},
    }


ITEM = closed(
    id={"type": "integer"},
    name=TEXT,
    score={"type": "number"},
    tags={"type": "array", "items": TEXT},
    active={"type": "boolean"},
)
FILTER = {"oneOf": [closed(kind={"type": "string", "const": kind}, value=TEXT) for kind in KINDS]}
TYPICAL: dict[str, Any] = closed(
    path=TEXT,
    query=TEXT,
    limit={"type": "integer"},
    offset={"type": "integer"},
    recursive={"type": "boolean"},
    ratio={"type": "number"},
    mode={"type": "string", "enum": ["fast", "thorough"]},
    tags={"type": "array", "items": TEXT},
    options=closed(case={"type": "boolean"}, depth={"type": "integer"}, label=TEXT),
    filter=FILTER,
    cursor={"type": "null"},
    items={"type": "array", "items": ITEM},
)
LIST = {"type": "array", "items": ITEM}


def item(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"item number {number}",
        "score": number * 1.5,
        "tags": ["red", "light blue"],
        "active": number % 2 == 0,
    }


def typical() -> dict[str, Any]:
    """The 2.3 KB argument object: 12 fields, a list of 20 objects, a ``oneOf`` of 3."""
    return {
        "path": "src/package/module/main.py",
        "query": "find every use of the function that reads the configuration",
        "limit": 50,
        "offset": 0,
        "recursive": True,
        "ratio": 0.75,
        "mode": "fast",
        "tags": ["alpha", "beta", "gamma"],
        "options": {"case": False, "depth": 3, "label": "first"},
        "filter": {"kind": "date", "value": "2024-05-01"},
        "cursor": None,
        "items": [item(number) for number in range(20)],
    }


def wrong() -> dict[str, Any]:
    """The same with two faults: a number in quotes, and one in the middle of the list."""
    value = copy.deepcopy(typical())
    value["limit"] = "50"
    value["items"][13]["score"] = "high"
    return value


def nest(depth: int, base: Any) -> Any:
    for _ in range(depth):
        base = [base]
    return base


def nest_spec(depth: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        spec = {"type": "array", "items": spec}
    return spec
