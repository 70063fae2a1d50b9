"""The output ledger: how much a run may say, and what is kept when it says more (CODE-148 to 155).

What counts is the JSON text of the list of logs plus the JSON text of the completion value, or of
the failure message, in UTF-8 bytes. Calls to the host are never charged.
"""

from __future__ import annotations

import re

from ..json_value import CONTAINER_TYPES, JsonValue, js_number
from .seam import CodeRunError, CodeRunResult

__all__ = ["Ledger", "string_cost", "value_cost"]

_SHORT_ESCAPES = "\b\t\n\f\r"
_LONG_ESCAPE = re.compile("[\x00-\x07\x0b\x0e-\x1f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SAFE_INTEGER = 2**53


def string_cost(text: str) -> int:
    """Return the UTF-8 length of a string's JSON text (CODE-149)."""
    if text.isascii():
        cost = len(text)
        if text.isprintable():
            return cost + 2 + text.count('"') + text.count("\\")
    else:
        # A lone surrogate is three bytes here and a six-byte escape in JSON.
        cost = len(text.encode("utf-8", "surrogatepass")) + 3 * len(_SURROGATE.findall(text))
    cost += 2 + text.count('"') + text.count("\\") + 5 * len(_LONG_ESCAPE.findall(text))
    return cost + sum(text.count(char) for char in _SHORT_ESCAPES)


def value_cost(value: JsonValue, limit: int) -> int:
    """Return the UTF-8 length of a value's compact JSON text; past ``limit``, any number above it.

    Numbers count as JavaScript writes them. The walk keeps its own stack: depth is no obstacle.
    """
    cost = 0
    stack: list[JsonValue] = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is str:
            cost += string_cost(item)  # pyright: ignore[reportArgumentType]
        elif kind in CONTAINER_TYPES:
            cost += 2 + max(0, len(item) - 1)  # pyright: ignore[reportArgumentType]
            if isinstance(item, dict):
                cost += len(item) + sum(map(string_cost, item))
                stack.extend(item.values())
            else:
                stack.extend(item)  # pyright: ignore[reportArgumentType]
        else:
            cost += _scalar_cost(item)
        if cost > limit:
            return cost
    return cost


def _scalar_cost(item: object) -> int:
    if item is None or item is True:
        return 4
    if item is False:
        return 5
    return len(js_number(item))  # pyright: ignore[reportArgumentType]


class Ledger:
    """The account of one run.

    Parameters:
        capacity: bytes that logs and outcome may take together; at least 4.
    """

    __slots__ = ("_capacity", "_entries", "_rejected", "_spent")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: list[str] = []
        self._spent = 2
        self._rejected: str | None = None

    @property
    def remaining(self) -> int:
        """Bytes left for the outcome."""
        return self._capacity - self._spent

    def log(self, text: str) -> bool:
        """Take one log entry; False when it does not fit, which ends the run (CODE-154)."""
        cost = string_cost(text) + (1 if self._entries else 0)
        if cost > self.remaining:
            self._rejected = text
            return False
        self._spent += cost
        self._entries.append(text)
        return True

    def success(self, value: JsonValue) -> CodeRunResult:
        """Close the account with a completion value; one that does not fit is dropped (CODE-151)."""
        if value_cost(value, self.remaining) > self.remaining:
            return self.overflow()
        return CodeRunResult(self._entries, value)

    def completion(self) -> CodeRunResult:
        """Close the account of a program that returned nothing."""
        return CodeRunResult(self._entries)

    def failure(self, error: CodeRunError) -> CodeRunResult:
        """Close the account with a failure; a message that does not fit becomes ``output-limit`` (CODE-153)."""
        if string_cost(error.message) > self.remaining:
            return self.overflow()
        return CodeRunResult(self._entries, error=error)

    def overflow(self) -> CodeRunResult:
        """Close the account of a run that said too much, and keep what fits beside the message (CODE-152)."""
        message = f"outer output exceeded {self._capacity} bytes"
        budget = self._capacity - string_cost(message)
        kept = _fitting(self._entries, self._rejected, budget)
        # Without room for both, the message gives way: an empty list and two quotes take four bytes.
        message = message[: max(0, self._capacity - 4)]
        return CodeRunResult(kept, error=CodeRunError("output-limit", message))


def _fitting(entries: list[str], rejected: str | None, budget: int) -> list[str]:
    """Keep whole entries in order, then the part of the next one that fits."""
    kept: list[str] = []
    spent = 2
    candidates = entries if rejected is None else [*entries, rejected]
    for entry in candidates:
        comma = 1 if kept else 0
        cost = string_cost(entry) + comma
        if spent + cost > budget:
            prefix = _prefix(entry, budget - spent - comma - 2)
            if prefix:
                kept.append(prefix)
            break
        spent += cost
        kept.append(entry)
    return kept


def _prefix(text: str, room: int) -> str:
    """Cut a text to the code points whose JSON text takes at most ``room`` bytes, quotes left out."""
    used = 0
    for index, char in enumerate(text):
        used += string_cost(char) - 2
        if used > room:
            return text[:index]
    return text
