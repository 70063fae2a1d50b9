"""Strings, numbers, booleans, null, and the closed sets of them: ``Literal`` and ``Enum``."""

from __future__ import annotations

import enum
from typing import Any, Literal, get_args

from ...json_value import thaw
from .codec import Codec, Fault, Shape, same
from .refusals import refuse, type_name

__all__ = ["ANY_CODEC", "SCALARS", "any_shape", "enum_shape", "literal_shape"]

Scalar = Literal["string", "integer", "number", "boolean", "null"]

_JSON_TYPE: dict[type, Scalar] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def load_int(value: Any) -> int:
    """Return an integer for an integral number: JSON has one kind of number, 1.0 is 1 (SCHEMA-A4)."""
    return value if type(value) is int else int(value)


def load_float(value: Any) -> float:
    """Return a float for any number; an integer beyond a float's range is the sender's fault."""
    if type(value) is float:
        return value
    try:
        return float(value)
    except OverflowError:
        raise Fault.of("is beyond the range of a float") from None


ANY_CODEC = Codec(thaw, None, lambda value: True)
_STRING = same(str)
_INTEGER = Codec(load_int, None, lambda value: type(value) is int)
_NUMBER = Codec(load_float, None, lambda value: type(value) in (float, int))
_BOOLEAN = same(bool)
_NULL = same(type(None))

_CODECS: dict[Scalar, Codec] = {
    "string": _STRING,
    "integer": _INTEGER,
    "number": _NUMBER,
    "boolean": _BOOLEAN,
    "null": _NULL,
}

SCALARS: dict[object, Shape] = {tp: Shape({"type": kind}, _CODECS[kind]) for tp, kind in _JSON_TYPE.items()}
SCALARS[None] = SCALARS[type(None)]


def any_shape() -> Shape:
    """Return the shape of any JSON value; the body gets plain, mutable containers."""
    return Shape({}, ANY_CODEC)


def literal_shape(tp: Any, where: str) -> Shape:
    """Return the shape of a ``Literal``: ``const`` for one value, ``enum`` for more."""
    values: list[Any] = []
    for value in get_args(tp):
        if isinstance(value, enum.Enum):
            raise refuse(where, f"Literal of {value!s} is not JSON", "use the Enum itself, or a Literal of its values")
        if type(value) not in _JSON_TYPE:
            raise refuse(where, f"Literal of {value!r} is not JSON", "use strings, integers, booleans or None")
        if not any(type(value) is type(other) and value == other for other in values):
            values.append(value)
    document = closed_set(values)
    members: set[tuple[type[Any], Any]] = {(type(value), value) for value in values}
    has_integers = any(type(value) is int for value in values)

    def load(value: Any) -> Any:
        return int(value) if type(value) is float else value

    return Shape(document, Codec(load if has_integers else None, None, lambda value: _is_member(value, members)))


def _is_member(value: Any, members: set[tuple[type[Any], Any]]) -> bool:
    return type(value) in _JSON_TYPE and (type(value), value) in members


def closed_set(values: list[Any]) -> dict[str, Any]:
    """Return the document that admits exactly these scalars, one branch per JSON type."""
    groups: dict[Scalar, list[Any]] = {}
    for value in values:
        groups.setdefault(_JSON_TYPE[type(value)], []).append(value)
    branches = [_group(kind, group) for kind, group in groups.items()]
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _group(kind: Scalar, values: list[Any]) -> dict[str, Any]:
    if kind == "null":
        return {"type": "null"}
    if len(values) == 1:
        return {"type": kind, "const": values[0]}
    return {"type": kind, "enum": values}


def enum_shape(cls: type[enum.Enum], where: str) -> Shape:
    """Return the shape of an ``Enum``: the model sends a member's value, the body gets the member."""
    if issubclass(cls, enum.Flag):
        raise refuse(where, f"{type_name(cls)} is a Flag", "use a list of the names it combines")
    members = list(cls)
    if not members:
        raise refuse(where, f"{type_name(cls)} has no members", "give it at least one")
    values: list[Any] = []
    by_value: dict[tuple[type, Any], enum.Enum] = {}
    for member in members:
        value = _plain(member.value)
        if type(value) not in _JSON_TYPE:
            raise refuse(
                where, f"the value of {member!s} is not JSON", "give members strings, numbers or booleans as values"
            )
        values.append(value)
        by_value[_kind(value), value] = member

    def load(value: Any) -> enum.Enum:
        # The schema admitted the value, so it is a member's, perhaps in the other form of a number.
        return by_value[_kind(value), value]

    def dump(value: object) -> object:
        return _plain(value.value) if isinstance(value, cls) else value

    return Shape(closed_set(values), Codec(load, dump, lambda value: isinstance(value, cls)))


def _kind(value: object) -> type:
    return float if type(value) is int else type(value)


def _plain(value: Any) -> Any:
    """Return a str or int subclass, as StrEnum and IntEnum members hold, as its plain base."""
    for base in (str, int, float):
        if isinstance(value, base) and type(value) not in (base, bool):
            return base(value)
    return value
