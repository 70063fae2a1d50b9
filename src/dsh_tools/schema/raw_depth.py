"""How far native code may go with a raw schema (D32).

Native validation recurses by the value where a schema refers to itself. The stack it takes per level
of value grows with the chain of keywords that look at one and the same place (``$ref``, ``allOf``, …).
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from ..errors import JsonSchemaError
from .json_schema import is_list, is_record
from .native import MAX_NATIVE_DEPTH
from .raw_nodes import resolve_pointer

__all__ = ["Reach", "reach_of"]

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLES = ("not", "if", "then", "else")
_MAPS = ("dependentSchemas",)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_MAX_FAN = 20_000
_STACK_STEPS = 32_768
"""Steps that fit on a thread's stack with a wide margin: 64 steps a level for 512 levels."""


class Reach(NamedTuple):
    """How far native code goes with a document.

    Attributes:
        limit: how deep a value may nest; None when the schema alone bounds the recursion.
        fan: how many schemas are applied to one place at most, each way of getting there counted.
    """

    limit: int | None
    fan: int


def reach_of(document: Any) -> Reach:
    """Measure a document.

    Raises:
        JsonSchemaError: it applies so many schemas to one place that judging a single value would take seconds.
    """
    schemas = list(_all_records(document))
    chain, fan = _chains(document, schemas)
    if fan > _MAX_FAN:
        raise JsonSchemaError([f"schema applies more than {_MAX_FAN:,} schemas to one value, each way counted"])
    if not any(_follows(schema) for schema in schemas):
        return Reach(None, fan)
    return Reach(max(1, min(MAX_NATIVE_DEPTH, _STACK_STEPS // (1 + chain))), fan)


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


def _chains(document: Any, schemas: list[dict[str, Any]]) -> tuple[int, int]:
    """Return the longest chain of keywords that stay at one place, and the most schemas that meet at one place.

    Where chains run in circles, which native code enters once, every schema counts.
    """
    onward = {id(schema): [id(target) for target in _in_place(document, schema)] for schema in schemas}
    heavy = {id(schema) for schema in schemas if any(key in schema for key in _UNEVALUATED)}
    try:
        # What a schema leads to comes before the schema.
        order = list(TopologicalSorter(onward).static_order())
    except CycleError:
        return len(schemas), len(schemas)
    length: dict[int, int] = {}
    ways: dict[int, int] = {}
    for schema in order:
        targets = onward.get(schema, ())
        length[schema] = max((length[target] + 1 for target in targets), default=0)
        # What is left unevaluated is found by judging everything below again.
        ways[schema] = min(_MAX_FAN + 1, 1 + (4 if schema in heavy else 1) * sum(ways[target] for target in targets))
    return max(length.values(), default=0), max(ways.values(), default=1)


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
