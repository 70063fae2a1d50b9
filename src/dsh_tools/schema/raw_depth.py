"""How deep native code may follow a value under a raw schema (D32).

Native validation recurses by the value where a schema refers to itself. The stack it takes per level
of value grows with the chain of keywords that look at one and the same place (``$ref``, ``allOf``, …).
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

from .json_schema import is_list, is_record
from .native import MAX_NATIVE_DEPTH
from .raw_nodes import resolve_pointer

__all__ = ["depth_limit"]

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLES = ("not", "if", "then", "else")
_MAPS = ("dependentSchemas",)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_STACK_STEPS = 32_768
"""Steps that fit on a thread's stack with a wide margin: 64 steps a level for 512 levels."""


def depth_limit(document: Any) -> int | None:
    """Return how deep a value may nest for native code; None when the schema alone bounds its recursion."""
    schemas = list(_all_records(document))
    if not any(_follows(schema) for schema in schemas):
        return None
    return max(1, min(MAX_NATIVE_DEPTH, _STACK_STEPS // (1 + _longest_chain(document, schemas))))


def _all_records(document: Any) -> Iterator[dict[str, Any]]:
    """Yield every record in the document, schemas and others alike; what is no schema does no harm here."""
    pending = [document]
    while pending:
        current = pending.pop()
        if is_record(current):
            yield current
            pending.extend(current.values())
        elif is_list(current):
            pending.extend(current)


def _follows(schema: dict[str, Any]) -> bool:
    return "uniqueItems" in schema or any(key in schema for key in _REFERENCES)


def _longest_chain(document: Any, schemas: list[dict[str, Any]]) -> int:
    """Return the longest chain of keywords that stay at one place; every schema, where chains run in circles.

    Native code enters a circle once.
    """
    onward = {id(schema): [id(target) for target in _in_place(document, schema)] for schema in schemas}
    try:
        # What a schema leads to comes before the schema.
        order = list(TopologicalSorter(onward).static_order())
    except CycleError:
        return len(schemas)
    length: dict[int, int] = {}
    for schema in order:
        length[schema] = max((length[target] + 1 for target in onward.get(schema, ())), default=0)
    return max(length.values(), default=0)


def _in_place(document: Any, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schemas that are applied to the same place as this one."""
    candidates: list[Any] = [schema.get(key) for key in _SINGLES]
    for key in _LISTS:
        listed = schema.get(key)
        candidates.extend(listed if is_list(listed) else ())  # pyright: ignore[reportArgumentType]
    for key in _MAPS:
        mapped = schema.get(key)
        candidates.extend(mapped.values() if is_record(mapped) else ())  # pyright: ignore[reportOptionalMemberAccess]
    for key in _REFERENCES:
        reference = schema.get(key)
        if type(reference) is str:
            candidates.append(resolve_pointer(document, reference))
    for candidate in candidates:
        if is_record(candidate):
            yield candidate
