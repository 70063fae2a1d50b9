"""Reading the inputs of golden cases: their tags become Python values."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from dsh_tools.schema.walk import Walk, run

HOLE = {"$hole": True}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")


class NoCounterpart(Exception):
    """The input holds a host value that Python has no counterpart of."""


class ListSubclass(list):
    """A list that is not a plain one."""


class DictSubclass(dict):
    """A record that is not a plain one; stands for inherited members too."""


class Instance:
    """A host object with an attribute."""

    def __init__(self) -> None:
        self.a = 1


class TextSubclass(str):
    """Stands for a boxed string."""


class IntSubclass(int):
    """Stands for a boxed number."""


def _decorated(*items: Any) -> ListSubclass:
    made = ListSubclass(items)
    made.extra = 1  # type: ignore[attr-defined]
    return made


EXOTICS: dict[str, Callable[[], Any]] = {
    "date": lambda: datetime.datetime(2020, 1, 1),
    "map": lambda: {1: 2}.items(),
    "set": lambda: {1},
    "regexp": lambda: re.compile("x"),
    "error": lambda: ValueError("x"),
    "typed-array": lambda: bytearray(b"\x01"),
    "function": lambda: lambda: None,
    "symbol": object,
    "decorated-array": lambda: _decorated(1, 2),
    "array-subclass": lambda: ListSubclass([1, 2]),
    "decorated-string-enum": lambda: _decorated("a", "b"),
    "class-instance": Instance,
    "null-proto-object": lambda: {"a": 1},
    "getter-a-1": lambda: {"a": 1},
    "symbol-key-object": lambda: {"a": 1, object(): 1},
    "hidden-key-object": lambda: {"a": 1, 7: 1},
    "inherited-object": lambda: DictSubclass(a=1),
    "boxed-string": lambda: TextSubclass("x"),
    "boxed-number": lambda: IntSubclass(1),
    "boxed-boolean": Instance,
    "null-proto-string-schema": lambda: {"type": "string"},
    "null-proto-schema": lambda: {"type": "string"},
    "symbol-key-schema": lambda: {"type": "string", object(): 1},
    "hidden-key-schema": lambda: {"type": "string", 7: 1},
    "inherited-type-schema": lambda: DictSubclass(type="string"),
}
# Holes in lists, integers apart from numbers, and reads that raise: Python's plain values have none (D26).


def number(text: str, form: str) -> int | float:
    """Read a number in one of the forms that a parser could give for it.

    The integer form stands only for integers that a double holds exactly: beyond them the text denotes the
    rounded double (D24), and ``-0`` denotes the negative zero.
    """
    value = float(text)
    if form == "int" and value.is_integer() and abs(value) <= 2**53:
        exact = int(text) if _INTEGER.fullmatch(text) else int(value)
        if exact == value and (exact != 0 or not text.startswith("-")):
            return exact
    return value


def decode(tagged: Any, form: str = "float") -> Any:
    """Turn the tagged input into Python values; numbers in one form, ``"int"`` or ``"float"``."""
    return run(_Decoder(form).value(tagged))


class _Decoder:
    def __init__(self, form: str) -> None:
        self.form = form
        self.labels: dict[Any, Any] = {}

    def value(self, tagged: Any, label: Any = None) -> Walk[Any]:
        if isinstance(tagged, list):
            items: list[Any] = []
            self._name(label, items)
            for item in tagged:
                items.append((yield self.value(item)))
            return items
        if not isinstance(tagged, dict):
            return tagged
        if len(tagged) == 1:
            (tag, content) = next(iter(tagged.items()))
            if tag == "$num":
                return number(content, self.form)
            if tag == "$undefined":
                return UNSET
            if tag == "$backref":
                return self.labels[content]
            if tag == "$exotic":
                return exotic(content)
            if tag == "$generator":
                return (yield self._generate(content))
            if tag == "$obj":
                return (yield self._record(content, label))
        if set(tagged) == {"$label", "$value"}:
            return (yield self.value(tagged["$value"], tagged["$label"]))
        return (yield self._record(list(tagged.items()), label))

    def _name(self, label: Any, container: Any) -> None:
        if label is not None:
            self.labels[label] = container

    def _record(self, entries: list[Any], label: Any) -> Walk[dict[str, Any]]:
        out: dict[str, Any] = {}
        self._name(label, out)
        for key, item in entries:
            out[key] = yield self.value(item)
        return out

    def _generate(self, recipe: dict[str, Any]) -> Walk[Any]:
        kind = recipe["kind"]
        if kind == "repeat":
            out = yield self.value(recipe["base"])
            for _ in range(recipe["depth"]):
                out = yield self._wrap(recipe["wrap"], out)
            return out
        if kind == "string_repeat":
            return recipe["text"] * recipe["count"]
        if kind == "array_fill":
            items: list[Any] = []
            for _ in range(recipe["count"]):
                items.append((yield self.value(recipe["item"])))
            return items
        if kind == "wide_object":
            record: dict[str, Any] = {}
            for index in range(recipe["count"]):
                record[f"{recipe['prefix']}{index}"] = yield self.value(recipe["value"])
            return record
        if kind == "name_range":
            return [f"{recipe['prefix']}{index}" for index in range(recipe["count"])]
        raise ValueError(f"unknown generator {kind!r}")

    def _wrap(self, template: Any, inner: Any) -> Walk[Any]:
        """Instantiate a template with the hole filled."""
        if template == HOLE:
            return inner
        if isinstance(template, list):
            return (yield self._wrap_list(template, inner))
        if isinstance(template, dict) and "$obj" in template:
            template = dict(template["$obj"])
        elif isinstance(template, dict) and any(key.startswith("$") for key in template):
            return (yield self.value(template))
        if isinstance(template, dict):
            out: dict[str, Any] = {}
            for key, item in template.items():
                out[key] = yield self._wrap(item, inner)
            return out
        return template

    def _wrap_list(self, template: list[Any], inner: Any) -> Walk[list[Any]]:
        items: list[Any] = []
        for item in template:
            items.append((yield self._wrap(item, inner)))
        return items


def exotic(name: str) -> Any:
    """Return the Python stand-in of a host value."""
    if name not in EXOTICS:
        raise NoCounterpart(name)
    return EXOTICS[name]()


def has_numbers(tagged: Any) -> bool:
    """Whether an input holds numbers that a parser may give in several forms."""
    return '"$num"' in json.dumps(tagged)


def in_js_order(value: Any) -> Any:
    """Copy plain containers with keys in JavaScript's own-key order: canonical array indices first, ascending.

    Shared and cyclic containers stay shared and cyclic.
    """
    copies: dict[int, Any] = {}

    def shell(item: Any) -> Any:
        if type(item) not in (dict, list):
            return item
        if id(item) not in copies:
            copies[id(item)] = {} if type(item) is dict else []
            pending.append(item)
        return copies[id(item)]

    pending: list[Any] = []
    root = shell(value)
    while pending:
        current = pending.pop()
        copy = copies[id(current)]
        if type(current) is list:
            copy.extend(shell(item) for item in current)
        else:
            for key in sorted(current, key=_js_rank):
                copy[key] = shell(current[key])
    return root


def _js_rank(key: Any) -> tuple[int, int]:
    return (0, int(key)) if is_index(key) else (1, 0)


def is_index(key: Any) -> bool:
    """Whether a key is a canonical array index (SCHEMA-A9)."""
    return isinstance(key, str) and _INTEGER.fullmatch(key) is not None and key[0] != "-" and int(key) <= 4294967294
