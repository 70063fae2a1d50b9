"""What ``Annotated`` says beside a type: descriptions, names, examples and constraints.

Read from plain strings, ``typing_extensions.Doc``, ``annotated_types``, ``pydantic.Field`` and
``msgspec.Meta``. Anything unknown is left alone, as PEP 593 asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
from typing_extensions import Doc

from ..constraints import pattern_problem
from .foreign import is_field_info, is_grouped, is_predicate
from .guards import is_class, is_dict
from .refusals import refuse

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

__all__ = ["NOTHING", "Metadata", "annotate", "constrain", "needs_pydantic", "read_metadata"]

NOTHING: Any = msgspec.UNSET
"""Marks a default that is not there; None is a value."""

# The names of a bound in annotated_types, pydantic and msgspec, and its keyword in JSON Schema.
_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "min_length": "minLength",
    "max_length": "maxLength",
}
_NUMBER_KEYS = frozenset({"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"})
_LENGTHS = {
    "string": {"minLength": "minLength", "maxLength": "maxLength", "pattern": "pattern"},
    "array": {"minLength": "minItems", "maxLength": "maxItems"},
    "object": {"minLength": "minProperties", "maxLength": "maxProperties"},
}
_REWRITES = ("strip_whitespace", "to_lower", "to_upper")


@dataclass(frozen=True, slots=True)
class Metadata:
    """The gathered statements; the innermost ``Annotated`` is read first and the outermost wins.

    ``default`` and ``default_factory`` come from a ``pydantic.Field`` used as a default.
    """

    description: str | None = None
    title: str | None = None
    examples: list[Any] | None = None
    alias: str | None = None
    default: Any = NOTHING
    default_factory: Any = None
    keywords: dict[str, Any] = field(default_factory=dict[str, Any])
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    predicates: tuple[Any, ...] = ()


def needs_pydantic(items: Iterable[object]) -> bool:
    """Whether the metadata changes values in ways only pydantic knows: validators, serializers, stripping."""
    for item in items:
        if is_field_info(item):
            if item.discriminator is not None and not isinstance(item.discriminator, str):
                return True
            if needs_pydantic(item.metadata):
                return True
        elif (
            hasattr(item, "__get_pydantic_core_schema__")
            or hasattr(item, "__get_pydantic_json_schema__")
            or any(getattr(item, name, None) for name in _REWRITES)
        ):
            return True
    return False


def read_metadata(items: Iterable[object], known: Metadata | None = None) -> Metadata:
    """Gather the statements of one ``Annotated``, on top of what is ``known`` already."""
    found = Metadata() if known is None else known
    for item in items:
        found = _read(found, item)
    return found


def _read(found: Metadata, item: object) -> Metadata:
    if isinstance(item, str):
        return replace(found, description=item)
    if isinstance(item, Doc):
        return replace(found, description=item.documentation)
    if is_field_info(item):
        return _read_field(found, item)
    if isinstance(item, msgspec.Meta):
        return _read_meta(found, item)
    if is_predicate(item):
        return replace(found, predicates=(*found.predicates, item.func))
    if is_grouped(item):
        return read_metadata(item, found)
    return _with_keywords(found, item)


def _with_keywords(found: Metadata, item: object) -> Metadata:
    keywords = {
        keyword: getattr(item, name) for name, keyword in _BOUNDS.items() if getattr(item, name, None) is not None
    }
    if not keywords or is_class(item):
        return found
    pattern = keywords.get("pattern")
    if pattern is not None and not isinstance(pattern, str):
        keywords["pattern"] = pattern.pattern
    return replace(found, keywords={**found.keywords, **keywords})


def _read_field(found: Metadata, item: FieldInfo) -> Metadata:
    extra = item.json_schema_extra if is_dict(item.json_schema_extra) else {}
    alias = item.alias if isinstance(item.alias, str) else None
    found = replace(
        found,
        description=item.description or found.description,
        title=item.title or found.title,
        examples=item.examples or found.examples,
        alias=alias or found.alias,
        extra={**found.extra, **extra},
    )
    if item.default_factory is not None:
        found = replace(found, default_factory=item.default_factory)
    elif not item.is_required() and item.default is not ...:
        found = replace(found, default=item.default)
    return read_metadata(item.metadata, found)


def _read_meta(found: Metadata, item: msgspec.Meta) -> Metadata:
    found = replace(
        found,
        description=item.description or found.description,
        title=item.title or found.title,
        examples=item.examples or found.examples,
        extra={**found.extra, **(item.extra_json_schema or {})},
    )
    return _with_keywords(found, item)


def annotate(document: dict[str, Any], found: Metadata, default: Any = NOTHING) -> dict[str, Any]:
    """Return the document with its annotations."""
    notes: dict[str, Any] = {}
    if found.description is not None:
        notes["description"] = found.description
    if found.title is not None:
        notes["title"] = found.title
    if default is not NOTHING:
        notes["default"] = default
    if found.examples is not None:
        notes["examples"] = list(found.examples)
    return {**document, **notes, **found.extra} if notes or found.extra else document


def constrain(document: dict[str, Any], keywords: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the document with the constraints, each under the keyword its type has for it.

    On a union a constraint goes to the branches it can apply to. One that applies nowhere is refused:
    it would look like a promise and do nothing.
    """
    for keyword, limit in keywords.items():
        problem = pattern_problem(limit) if keyword == "pattern" else None
        if problem is not None:
            raise refuse(where, problem, "write a simpler pattern, or check the rest in the body")
        changed = _constrain_one(document, keyword, limit)
        if changed is None:
            kind = document.get("type", "this type")
            raise refuse(where, f"{keyword} does not apply to {kind}", "remove it, or move it to the type it is about")
        document = changed
    return document


def _constrain_one(document: dict[str, Any], keyword: str, limit: Any) -> dict[str, Any] | None:
    for union in ("anyOf", "oneOf"):
        if union in document:
            changed = [_constrain_one(branch, keyword, limit) for branch in document[union]]
            if all(branch is None for branch in changed):
                return None
            kept = [old if new is None else new for old, new in zip(document[union], changed, strict=True)]
            return {**document, union: kept}
    kind = document.get("type")
    if kind in ("integer", "number"):
        name = keyword if keyword in _NUMBER_KEYS else None
    else:
        name = _LENGTHS.get(kind, {}).get(keyword) if isinstance(kind, str) else None
    return None if name is None else {**document, name: limit}
