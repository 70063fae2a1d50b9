"""Events and headers as JSON text, and back, at any depth.

The text is what stores and exports hold: one line per event, camelCase, absent keys left out.
Lone surrogates are written as escapes, so that every line is plain UTF-8.
"""

from __future__ import annotations

import json.decoder
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from ..errors import LossyJsonError, SessionError
from ..json_value import JsonValue, snapshot, to_json_text
from ..messages import record_json
from .events import Event, SessionHeader

__all__ = ["decode_event", "decode_header", "encode_event", "encode_header", "read_line"]

# The C scanner of strings that the standard reader is built on: escapes, lone surrogates and all.
_scan_string: Callable[[str, int], tuple[str, int]] = getattr(json.decoder, "scanstring")  # noqa: B009
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LITERALS = (("true", True), ("false", False), ("null", None))


def encode_event(event: Event) -> str:
    """Return an event as one line of JSON, without the line break."""
    return to_json_text(record_json(event))


def decode_event(line: str | bytes) -> Event:
    """Read one line that :func:`encode_event` wrote; the data comes back frozen.

    Raises:
        SessionError: ``CORRUPT_LOG``: the line is not an event.
    """
    try:
        return msgspec.convert(read_line(line), Event)
    except msgspec.ValidationError as error:
        raise SessionError(f"not an event: {error}", "CORRUPT_LOG") from error


def encode_header(header: SessionHeader) -> str:
    """Return a header as one line of JSON."""
    return to_json_text(record_json(header))


def decode_header(line: str | bytes) -> SessionHeader:
    """Read a header that :func:`encode_header` wrote.

    Raises:
        SessionError: ``CORRUPT_LOG``: the line is not a header, or one of a newer version.
    """
    try:
        return msgspec.convert(read_line(line), SessionHeader)
    except msgspec.ValidationError as error:
        raise SessionError(f"not a session header: {error}", "CORRUPT_LOG") from error


def read_line(line: str | bytes) -> JsonValue:
    """Read one JSON value of any depth and freeze it.

    Model-written text goes through ``parse_json``, which bounds the depth; what stands in a log
    was written by us from values of any depth, and must come back.

    Raises:
        SessionError: ``CORRUPT_LOG``: the line is not JSON.
    """
    try:
        value: Any = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = _read_slowly(line)
    try:
        return snapshot(value)
    except LossyJsonError as error:
        raise SessionError(f"not lossless JSON: {error.message}", "CORRUPT_LOG") from error


def _read_slowly(line: str | bytes) -> Any:
    try:
        text = line.decode() if isinstance(line, bytes) else line
        value, end = _read(text)
    except IndexError as error:
        raise SessionError("not JSON: the text ends too early", "CORRUPT_LOG") from error
    except ValueError as error:
        raise SessionError(f"not JSON: {error}", "CORRUPT_LOG") from error
    if _skip(text, end) != len(text):
        raise SessionError(f"not JSON: trailing data at char {end}", "CORRUPT_LOG")
    return value


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _read(text: str) -> tuple[Any, int]:
    """Read one value with an explicit stack of the containers that are open, and of their keys."""
    stack: list[Any] = []
    keys: list[str] = []
    at = _skip(text, 0)
    while True:
        char = text[at]
        if char in "{[":
            at = _skip(text, at + 1)
            value: Any = {} if char == "{" else []
            if text[at] not in "}]":
                stack.append(value)
                keys.append("")
                if char == "{":
                    keys[-1], at = _key(text, at)
                continue
            at += 1
        else:
            value, at = _scalar(text, at)
        while stack:
            _put(stack[-1], keys[-1], value)
            at = _skip(text, at)
            if text[at] == ",":
                at = _skip(text, at + 1)
                if isinstance(stack[-1], dict):
                    keys[-1], at = _key(text, at)
                break
            if text[at] != ("}" if isinstance(stack[-1], dict) else "]"):
                raise ValueError(f"unexpected {text[at]!r} at char {at}")
            at += 1
            value = stack.pop()
            keys.pop()
        else:
            return value, at


def _put(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    else:
        container.append(value)


def _key(text: str, at: int) -> tuple[str, int]:
    if text[at] != '"':
        raise ValueError(f"expected a key at char {at}")
    key, at = _scan_string(text, at + 1)
    at = _skip(text, at)
    if text[at] != ":":
        raise ValueError(f"expected ':' at char {at}")
    return key, _skip(text, at + 1)


def _scalar(text: str, at: int) -> tuple[Any, int]:
    if text[at] == '"':
        return _scan_string(text, at + 1)
    match = _NUMBER.match(text, at)
    if match is not None:
        token = match[0]
        if match[1] is not None or match[2] is not None:
            return float(token), match.end()
        # Decimal takes integers beyond the interpreter's limit of 4,300 digits.
        return (int(token) if len(token) < 4000 else int(Decimal(token))), match.end()
    for word, value in _LITERALS:
        if text.startswith(word, at):
            return value, at + len(word)
    raise ValueError(f"unexpected {text[at]!r} at char {at}")
