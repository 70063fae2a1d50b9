"""What a strict provider can say, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from .wire_names import ANTHROPIC_KEYS, GEMINI_KEYS, NameRule

__all__ = ["ANTHROPIC", "GEMINI", "NARROWING", "OPENAI_STRICT", "Target"]

_NUMERIC: Final = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))

NARROWING: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset(("minLength", "maxLength", "pattern")),
    "number": _NUMERIC,
    "integer": _NUMERIC,
    "array": frozenset(
        (
            "contains",
            "maxContains",
            "maxItems",
            "minContains",
            "minItems",
            "prefixItems",
            "unevaluatedItems",
            "uniqueItems",
        )
    ),
    "object": frozenset(
        (
            "dependencies",
            "dependentRequired",
            "dependentSchemas",
            "maxProperties",
            "minProperties",
            "patternProperties",
            "propertyNames",
            "unevaluatedProperties",
        )
    ),
    "boolean": frozenset(),
    "null": frozenset(),
}
"""The keywords that narrow a type, besides those that every target has (items, properties, required)."""


class Target(NamedTuple):
    """What a provider takes.

    Attributes:
        label: its name in remarks.
        keywords: the narrowing keywords it takes.
        formats: the values of ``format`` it takes; ``format`` only annotates, so others move to the description.
        references: whether it takes ``$defs`` and ``$ref``; else they are written out in place.
        type_arrays: whether ``type`` may be a list.
        anything: whether it can say "any JSON value" and "an object with free keys".
        enum_types: the types whose values may be listed.
        empty_strings: whether a list of values may hold the empty string.
        all_required: whether every property must be required; optional ones then allow null.
        open_is_loss: whether closing an object that is open on purpose counts as a loss.
        empty_objects: whether an object inside the parameters may declare no property.
        keys: what property names must look like, None for no rule.
        max_depth: levels of nesting.
        max_schemas: schemas in all, after references are written out.
    """

    label: str
    keywords: frozenset[str]
    formats: frozenset[str]
    references: bool
    type_arrays: bool
    anything: bool
    enum_types: frozenset[str]
    empty_strings: bool
    all_required: bool
    open_is_loss: bool
    empty_objects: bool
    keys: NameRule | None
    max_depth: int
    max_schemas: int


OPENAI_STRICT: Final = Target(
    label="strict mode",
    keywords=_NUMERIC | {"pattern", "minItems", "maxItems"},
    formats=frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")),
    references=True,
    type_arrays=True,
    anything=False,
    enum_types=frozenset(("string", "number", "integer", "boolean")),
    empty_strings=True,
    all_required=True,
    open_is_loss=True,
    empty_objects=True,
    keys=None,
    max_depth=10,
    max_schemas=5_000,
)

GEMINI: Final = Target(
    label="Gemini",
    keywords=frozenset(
        (
            "maximum",
            "maxItems",
            "maxLength",
            "maxProperties",
            "minimum",
            "minItems",
            "minLength",
            "minProperties",
            "pattern",
        )
    ),
    formats=frozenset(("date-time",)),
    references=False,
    type_arrays=False,
    anything=False,
    enum_types=frozenset(("string",)),
    empty_strings=False,
    all_required=False,
    open_is_loss=False,
    empty_objects=False,
    keys=GEMINI_KEYS,
    max_depth=40,
    max_schemas=5_000,
)

ANTHROPIC: Final = Target(
    label="Anthropic",
    keywords=frozenset().union(*NARROWING.values())
    - {"patternProperties", "propertyNames", "dependencies"}
    - {"dependentRequired", "dependentSchemas", "contains", "prefixItems"},
    formats=frozenset(),
    references=True,
    type_arrays=True,
    anything=True,
    enum_types=frozenset(("string", "number", "integer", "boolean")),
    empty_strings=True,
    all_required=False,
    open_is_loss=False,
    empty_objects=True,
    keys=ANTHROPIC_KEYS,
    max_depth=60,
    max_schemas=5_000,
)
"""Only for parameters with property names that Anthropic refuses; others are sent as they are."""
