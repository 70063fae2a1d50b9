"""A JSON reader that depth cannot stop, for values that nest deeper than the fast decoder goes.

It reads what a worker wrote about itself, so it wants one form only: compact JSON. Anything else is
a fault, and faults carry no position: nobody but a forger makes one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from json import decoder
from typing import Any, cast

from ..errors import JsonTextError

__all__ = ["read_deep_json"]

# The scanner behind json.loads: from after the opening quote to the text and the place after the closing one.
_scan_string = cast("Callable[[str, int], tuple[str, int]]", vars(decoder)["scanstring"])

_SCALAR = re.compile(r"(?:true|false|null)|-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}


def read_deep_json(text: str) -> Any:
    """Parse compact JSON text of any depth into plain values.

    Raises:
        JsonTextError: the text is not compact JSON.
    """
    try:
        return _read(text)
    except (IndexError, ValueError):
        raise JsonTextError("the worker sent text that is not compact JSON") from None


def _read(text: str) -> Any:
    # One entry for each open container: itself, and the key that its next value belongs to.
    stack: list[tuple[Any, str | None]] = []
    at = 0
    while True:
        value, at, opened = _start(text, at)
        if opened:
            key, at = _key(text, at, value)
            stack.append((value, key))
            continue
        while stack:
            container, key = stack.pop()
            if key is None:
                container.append(value)
            else:
                container[key] = value
            char = text[at]
            at += 1
            if char == ",":
                key, at = _key(text, at, container)
                stack.append((container, key))
                break
            if char != ("]" if key is None else "}"):
                raise ValueError(char)
            value = container
        else:
            if at != len(text):
                raise ValueError(at)
            return value


def _start(text: str, at: int) -> tuple[Any, int, bool]:
    """Read a scalar or an empty container, or open one: the value, the new place, whether it opened."""
    char = text[at]
    if char == '"':
        value, end = _scan_string(text, at + 1)
        return value, end, False
    if char == "[" or char == "{":
        container: Any = [] if char == "[" else {}
        if text[at + 1] == ("]" if char == "[" else "}"):
            return container, at + 2, False
        return container, at + 1, True
    match = _SCALAR.match(text, at)
    if match is None:
        raise ValueError(char)
    token = match[0]
    if token in _WORDS:
        return _WORDS[token], match.end(), False
    is_float = match[1] is not None or match[2] is not None
    return (float(token) if is_float else int(token)), match.end(), False


def _key(text: str, at: int, container: Any) -> tuple[str | None, int]:
    """Read ``"key":`` where the container is a record; a list has none."""
    if isinstance(container, list):
        return None, at
    if text[at] != '"':
        raise ValueError(at)
    key, end = _scan_string(text, at + 1)
    if text[end] != ":":
        raise ValueError(end)
    return key, end + 1
