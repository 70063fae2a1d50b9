"""What of the golden cases does not apply to this implementation, decided by properties of the input (D40)."""

from __future__ import annotations

import unicodedata
from typing import Any

from tests.conformance.decoding import is_index


def reorders_keys(value: Any) -> bool:
    """Whether JavaScript would walk some record in another order than the declared one (D2, D23)."""
    return any(_reordered(record) for record in _records(value))


def has_newer_unicode(value: Any) -> bool:
    """Whether some text depends on newer Unicode tables than this Python's (D23)."""
    return any(_is_new(char) for text in _texts(value) for char in text)


def _reordered(record: dict[Any, Any]) -> bool:
    keys = list(record)
    indices = [int(key) for key in keys if is_index(key)]
    return bool(indices) and (keys[: len(indices)] != [str(index) for index in sorted(indices)])


def _is_new(char: str) -> bool:
    # The joiners became identifier characters in Unicode 15.1.
    return char in "\u200c\u200d" or (unicodedata.category(char) == "Cn" and not _is_noncharacter(ord(char)))


def _is_noncharacter(code: int) -> bool:
    return 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE


def _containers(value: Any) -> list[Any]:
    seen: dict[int, Any] = {}
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, (dict, list)) and id(current) not in seen:
            seen[id(current)] = current
            pending.extend(current.values() if isinstance(current, dict) else current)
    return list(seen.values())


def _records(value: Any) -> list[dict[Any, Any]]:
    return [container for container in _containers(value) if isinstance(container, dict)]


def _texts(value: Any) -> list[str]:
    found: list[str] = []
    for container in _containers([value]):
        found.extend(item for item in container if isinstance(item, str))
        if isinstance(container, dict):
            found.extend(item for item in container.values() if isinstance(item, str))
    return found
