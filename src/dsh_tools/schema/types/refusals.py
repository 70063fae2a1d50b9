"""What Python types cannot say in JSON, and what to write instead."""

from __future__ import annotations

import datetime
import decimal
import fractions
import inspect
import pathlib
import uuid
from collections import abc
from typing import Any, Never, NoReturn, TypeVar, get_origin

from ...errors import DefinitionError
from .guards import is_class

__all__ = ["refuse", "type_name", "unsupported"]

_SAY_STR = "use str, say the form in its description, and convert it in the body"

_ADVICE: dict[type, str] = {
    datetime.datetime: f"{_SAY_STR} (datetime.fromisoformat)",
    datetime.date: f"{_SAY_STR} (date.fromisoformat)",
    datetime.time: f"{_SAY_STR} (time.fromisoformat)",
    datetime.timedelta: "use float and name the unit in the parameter, e.g. seconds",
    decimal.Decimal: f"{_SAY_STR}, or use float",
    fractions.Fraction: f"{_SAY_STR}, or use float",
    uuid.UUID: _SAY_STR,
    pathlib.Path: _SAY_STR,
    pathlib.PurePath: _SAY_STR,
    bytes: "use str and say in its description how it is encoded, e.g. base64",
    bytearray: "use str and say in its description how it is encoded, e.g. base64",
    memoryview: "use str and say in its description how it is encoded, e.g. base64",
    complex: "use two floats",
    set: "use list; make it a set in the body",
    frozenset: "use list; make it a set in the body",
    abc.Set: "use list; make it a set in the body",
    abc.Iterator: "use list; a value is sent whole",
    abc.AsyncIterator: "use list; a value is sent whole",
}


def type_name(tp: object) -> str:
    """Return how an author would write a type, for messages."""
    if is_class(tp) and get_origin(tp) is None:
        return tp.__qualname__
    return str(tp).replace("typing.", "").replace("collections.abc.", "")


def refuse(where: str, what: str, advice: str) -> DefinitionError:
    """Return the error for a type that cannot be expressed: whose it is, what is wrong, the way out."""
    return DefinitionError(f"{where}: {what}; {advice}")


def unsupported(tp: Any, where: str) -> DefinitionError:
    """Return the error for a type that has no JSON form of its own."""
    advice = _advice(tp)
    return refuse(where, f"{type_name(tp)} is not JSON", advice)


def _advice(tp: Any) -> str:
    origin = get_origin(tp) or tp
    if isinstance(origin, TypeVar):
        return "bind the type variable to a concrete type"
    if get_origin(tp) is abc.Callable or tp is abc.Callable:  # pyright: ignore[reportUnknownMemberType]
        return "a function cannot be sent; take the data it would need"
    if origin is Never or origin is NoReturn:
        return "a JSON value is needed; use None"
    if not inspect.isclass(origin):
        return "use a type that JSON can carry"
    if origin is object:
        return "use Any for any JSON value"
    for known, advice in _ADVICE.items():
        if issubclass(origin, known):
            return advice
    if issubclass(origin, (str, int, float)):
        return f"a subclass is lost in JSON; use NewType, or plain {origin.__mro__[-2].__name__}"
    if issubclass(origin, tuple):
        return "use a dataclass or a TypedDict"
    return "use a dataclass, TypedDict, msgspec.Struct or pydantic model that holds its data"
