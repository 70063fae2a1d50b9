"""JSON text in and out."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

from ..errors import JsonTextError, LossyJsonError
from .frozen import CONTAINER_TYPES, FrozenDict, FrozenList, JsonValue
from .numbers import integer_text, js_number, js_string
from .parser import MAX_TEXT_DEPTH, read_json
from .snapshot import exceeds_depth, freeze_shallow, snapshot

__all__ = ["canonical_text", "digest", "js_text", "parse_json", "to_json_text"]

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_PLAIN: frozenset[type] = frozenset({str, int, bool, type(None)})
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_FLOAT = re.compile(rb"\.|\d[eE]")
_ASTRAL = re.compile(rb"[\xf0-\xf4]")
_FROZEN: frozenset[type] = frozenset({FrozenDict, FrozenList})
_RECORDS: frozenset[type] = frozenset({dict, FrozenDict})
MAX_INDENTED_LEVELS = 64
"""Levels that the pretty form puts on lines of their own. Below, indentation would only make the text
grow with the square of the depth: 100,000 levels would take 20 GB."""


def parse_json(text: str | bytes) -> JsonValue:
    """Parse JSON text that a model wrote into a frozen value.

    Args:
        text: JSON text. Empty or blank text is ``{}``: models send it for tools without arguments.

    Integers are exact up to 4,300 digits, ``-0`` is 0, lone surrogate escapes are kept, and of
    duplicate keys the last wins (D39). A JSON string that holds JSON stays a string.

    Raises:
        JsonTextError: the text is not JSON, or not losslessly readable (``NaN``, ``1e400``, ``-0.0``,
            nesting beyond 512 levels); the message has the fault, its character offset and a snippet.
    """
    try:
        value = _decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = _read_slowly(text)
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is dict or kind is list:
        shallow = freeze_shallow(value)
        if shallow is not None:
            return shallow
        if exceeds_depth(value, MAX_TEXT_DEPTH):
            # The decoder's own limit moves with the caller's stack; ours must not.
            _read_slowly(text)
    try:
        return snapshot(value)
    except LossyJsonError as error:
        # The only lossy thing a JSON reader can produce is a negative zero.
        raise JsonTextError(error.reason, path=error.path) from None


def _read_slowly(text: str | bytes) -> Any:
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise JsonTextError("the bytes are not UTF-8", offset=error.start) from None
    return {} if not text or text.isspace() else read_json(text)


def to_json_text(value: object, *, indent: int | None = None) -> str:
    """Write a JSON value as text that is always valid JSON, whatever its depth.

    Args:
        value: a lossless JSON value; a snapshot is taken as it is, anything else is checked first.
        indent: spaces per level for a pretty form; None for the compact form without any space. What is
            nested deeper than 64 levels is written on one line.

    Raises:
        LossyJsonError: the value is not lossless JSON.
    """
    if type(value) not in _FROZEN:
        value = snapshot(value)
    try:
        data = _encode(value)
        if indent is not None:
            if data.count(b"[") + data.count(b"{") > MAX_INDENTED_LEVELS and exceeds_depth(value, MAX_INDENTED_LEVELS):
                return _write(value, indent, _number_text, sort=False)
            data = msgspec.json.format(data, indent=indent)
    except (UnicodeEncodeError, RecursionError, ValueError):
        # Lone surrogates, depth, and integers longer than the encoder's limit.
        return _write(value, indent, _number_text, sort=False)
    return data.decode()


def js_text(value: object) -> str:
    """Write a JSON value as ``JSON.stringify`` does: declaration order, JavaScript's form for floats.

    Integers are exact; lone surrogates become lower-case escapes (SCHEMA-D7).

    Raises:
        LossyJsonError: the value is not lossless JSON.
    """
    if type(value) not in _FROZEN:
        value = snapshot(value)
    return _write(value, None, _canonical_number, sort=False)


def canonical_text(value: object) -> str:
    """Write a JSON value in one canonical form: sorted keys, no spaces, JavaScript's form for floats.

    ``1`` and ``1.0`` are one value and give one text; integers are exact. Keys sort by UTF-16 code units.

    Raises:
        LossyJsonError: the value is not lossless JSON.
    """
    if type(value) not in _FROZEN:
        value = snapshot(value)
    # The encoder's own order and escapes are the canonical ones, unless there are floats, or keys beyond U+FFFF.
    try:
        data = _encode_sorted(value)
    except (UnicodeEncodeError, RecursionError, ValueError):
        # Lone surrogates, depth, and integers longer than the encoder's limit.
        return _write(value, None, _canonical_number, sort=True)
    flat = type(value) is FrozenDict and _PLAIN.issuperset(map(type, value.values()))
    if (flat or not _FLOAT.search(_STRING.sub(b"", data))) and (data.isascii() or not _ASTRAL.search(data)):
        return data.decode()
    return _write(value, None, _canonical_number, sort=True)


def digest(value: object) -> str:
    """Return the SHA-256 of :func:`canonical_text`, in hexadecimal."""
    return hashlib.sha256(canonical_text(value).encode("utf-8")).hexdigest()


def _number_text(value: int | float) -> str:
    return _encode(value).decode() if isinstance(value, float) else integer_text(value)


def _canonical_number(value: int | float) -> str:
    return js_number(value) if isinstance(value, float) else integer_text(value)


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _write(root: Any, indent: int | None, number: Any, *, sort: bool) -> str:
    """Write a value with an explicit stack. Stack entries are values, or text that is ready."""
    out: list[str] = []
    stack: list[tuple[bool, Any, int]] = [(False, root, 0)]
    colon = ":" if indent is None else ": "
    while stack:
        ready, item, level = stack.pop()
        if ready:
            out.append(item)
        elif type(item) not in CONTAINER_TYPES:
            out.append(_scalar(item, number))
        elif not item:
            out.append("{}" if isinstance(item, dict) else "[]")
        else:
            _push_container(stack, item, level, indent, colon, sort=sort)
    return "".join(out)


def _push_container(
    stack: list[tuple[bool, Any, int]], item: Any, level: int, indent: int | None, colon: str, *, sort: bool
) -> None:
    """Push a container's pieces so that they pop in reading order."""
    if level >= MAX_INDENTED_LEVELS:
        indent = None
    inner = "" if indent is None else "\n" + " " * (indent * (level + 1))
    outer = "" if indent is None else "\n" + " " * (indent * level)
    is_record = type(item) in _RECORDS
    entries: list[tuple[str, Any]]
    stack.append((True, outer + ("}" if is_record else "]"), level))
    if is_record:
        keys: list[str] = sorted(item, key=_utf16) if sort else list(item)
        entries = [(js_string(key) + colon, item[key]) for key in keys]
    else:
        entries = [("", child) for child in item]
    for position in range(len(entries) - 1, -1, -1):
        lead, child = entries[position]
        stack.append((False, child, level + 1))
        stack.append((True, ("," if position else "") + inner + lead, level))
    stack.append((True, "{" if is_record else "[", level))


def _scalar(item: Any, number: Any) -> str:
    if item is None:
        return "null"
    if item is True:
        return "true"
    if item is False:
        return "false"
    return js_string(item) if isinstance(item, str) else number(item)
