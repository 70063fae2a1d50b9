"""Constraints beyond the contract's subset: how they are judged and worded (D31)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

import jsonschema_rs

from ..json_value import canonical_text, literal_text, members
from .native import REGEX

__all__ = ["constraint_problems", "pattern_problem"]


def constraint_problems(constraints: Mapping[str, Any], value: Any) -> list[str]:
    """List what a value of the right type must be or have and is not or has not, in the schema's order."""
    found: list[str] = []
    for keyword, limit in constraints.items():
        check = _CHECKS.get(keyword)
        if check is not None and (problem := check(value, limit)) is not None:
            found.append(problem)
    return found


def pattern_problem(pattern: str) -> str | None:
    """Say why a pattern cannot be used; None when it can."""
    try:
        _matcher(pattern)
    except (jsonschema_rs.ValidationError, ValueError):
        return (
            f"pattern {literal_text(pattern)} is not supported: it is invalid, too large, "
            "or needs look-around or back-references"
        )
    return None


@lru_cache(maxsize=512)
def _matcher(pattern: str) -> Callable[[Any], bool]:
    return jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=REGEX).is_valid


@lru_cache(maxsize=512)
def _divider(divisor: float) -> Callable[[Any], bool]:
    return jsonschema_rs.Draft202012Validator({"multipleOf": divisor}).is_valid


def _is_number(value: object) -> bool:
    return type(value) is int or type(value) is float


def _minimum(value: Any, limit: Any) -> str | None:
    return f"be at least {literal_text(limit)}" if _is_number(value) and value < limit else None


def _maximum(value: Any, limit: Any) -> str | None:
    return f"be at most {literal_text(limit)}" if _is_number(value) and value > limit else None


def _above(value: Any, limit: Any) -> str | None:
    return f"be greater than {literal_text(limit)}" if _is_number(value) and value <= limit else None


def _below(value: Any, limit: Any) -> str | None:
    return f"be less than {literal_text(limit)}" if _is_number(value) and value >= limit else None


def _multiple(value: Any, divisor: Any) -> str | None:
    # The native rule decides here too: what a multiple of 0.1 is depends on how it is computed.
    if not _is_number(value) or _divider(divisor)(value):
        return None
    return f"be a multiple of {literal_text(divisor)}"


def _pattern(value: Any, pattern: Any) -> str | None:
    if type(value) is not str:
        return None
    # Native text has no lone surrogates; a replacement character is as far from any pattern as they are.
    text = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return None if _matcher(pattern)(text) else f"match the pattern {literal_text(pattern)}"


def _unique(value: Any, wanted: Any) -> str | None:
    if not wanted or not isinstance(value, list):
        return None
    texts = [canonical_text(item) for item in members(cast("object", value))]
    return "hold no item twice" if len(set(texts)) < len(texts) else None


def _size(kind: type, noun: str, plural: str, *, least: bool) -> Callable[[Any, Any], str | None]:
    """Make the check of a size limit: how many characters, items or properties there are."""

    def check(value: Any, limit: Any) -> str | None:
        if not isinstance(value, kind) or (len(value) >= limit if least else len(value) <= limit):
            return None
        bound = "at least" if least else "at most"
        return f"have {bound} {literal_text(limit)} {noun if limit == 1 else plural}"

    return check


_CHECKS: dict[str, Callable[[Any, Any], str | None]] = {
    "minimum": _minimum,
    "maximum": _maximum,
    "exclusiveMinimum": _above,
    "exclusiveMaximum": _below,
    "multipleOf": _multiple,
    "minLength": _size(str, "character", "characters", least=True),
    "maxLength": _size(str, "character", "characters", least=False),
    "pattern": _pattern,
    "minItems": _size(list, "item", "items", least=True),
    "maxItems": _size(list, "item", "items", least=False),
    "uniqueItems": _unique,
    "minProperties": _size(dict, "property", "properties", least=True),
    "maxProperties": _size(dict, "property", "properties", least=False),
}
