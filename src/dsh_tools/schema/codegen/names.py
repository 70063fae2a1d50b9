"""Names and comment text for generated code: what is an identifier, and what a description becomes.

Independent of schemas. Everything here is linear in the text it is given and never raises.
Unicode tables are the interpreter's own (decision 0030).
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from typing import Final

__all__ = [
    "MAX_NAME_UNITS",
    "NameAllocator",
    "camel",
    "collapse_whitespace",
    "comment_text",
    "docstring_text",
    "is_field_name",
    "is_method_name",
    "is_python_name",
    "join_name",
    "ts_doc",
    "ts_key_is_bare",
    "utf16_key",
]

MAX_NAME_UNITS: Final = 120
"""How many UTF-16 units a generated class name has before its number (SCHEMA-H10)."""

# The ECMAScript set, which is not Python's: U+FEFF is in, U+0085 and U+001C to U+001F are out (SCHEMA-F6).
_WHITESPACE = re.compile("[\t\x0b\x0c\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_TS_BARE_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_ASCII_PARTS = re.compile(r"[A-Za-z0-9]+")
_RESERVED = frozenset((*keyword.kwlist, "__debug__"))


# ── order ──────────────────────────────────────────────────────────────────────


def utf16_key(name: str) -> bytes:
    """Return a sort key that orders names by UTF-16 code units (SCHEMA-H1)."""
    return name.encode("utf-16-be", "surrogatepass")


# ── comment text ───────────────────────────────────────────────────────────────


def collapse_whitespace(text: str) -> str:
    """Turn each run of ECMAScript whitespace into one space and trim the ends (SCHEMA-F6)."""
    return _WHITESPACE.sub(" ", text).strip(" ")


def ts_doc(description: object) -> str | None:
    """Return the one-line TypeScript doc comment of a description, or None where there is none.

    Only the comment's closing mark is escaped. Blank text gives an empty comment, empty text gives
    none (SCHEMA-F6, CODE-57 to 59).
    """
    if not isinstance(description, str) or not description:
        return None
    return "/** " + collapse_whitespace(description).replace("*/", "*\\/") + " */"


def comment_text(description: object) -> str | None:
    """Return a description as text for a Python ``#`` comment, or None where nothing is left (SCHEMA-H11).

    Controls and lone surrogates would make the whole block unparseable, so they are written as escapes.
    """
    if not isinstance(description, str):
        return None
    collapsed = _WHITESPACE.sub(" ", description)
    return _CONTROLS.sub(_escape_unit, collapsed).strip(" ") or None


def docstring_text(description: object) -> str | None:
    """Return a description as the inside of a triple-quoted Python docstring, or None (SCHEMA-H11)."""
    text = comment_text(description)
    return None if text is None else text.replace("\\", "\\\\").replace('"', '\\"')


def _escape_unit(match: re.Match[str]) -> str:
    unit = ord(match.group())
    return f"\\x{unit:02x}" if unit <= 0xFF else f"\\u{unit:04x}"


# ── identifiers ────────────────────────────────────────────────────────────────


def ts_key_is_bare(key: str) -> bool:
    """Tell whether an object key needs no quotes in TypeScript; reserved words need none (SCHEMA-F5)."""
    return _TS_BARE_KEY.fullmatch(key) is not None


def is_python_name(name: str) -> bool:
    """Tell whether a name can stand in Python source unchanged (SCHEMA-H5).

    It must be an identifier that the parser's own NFKC step leaves alone, and no hard keyword.
    """
    if not name.isidentifier() or name in _RESERVED:
        return False
    return name.isascii() or unicodedata.normalize("NFKC", name) == name


def is_field_name(name: str) -> bool:
    """Tell whether a ``TypedDict`` class can declare this field: a name that is not mangled (SCHEMA-H6)."""
    return is_python_name(name) and (not name.startswith("__") or name.endswith("__"))


def is_method_name(name: str) -> bool:
    """Tell whether a tool can be shown as a method; a leading underscore never can (SCHEMA-H5)."""
    return is_python_name(name) and not name.startswith("_")


# ── class names ────────────────────────────────────────────────────────────────


def camel(name: str) -> str:
    """Return the class-name form of a tool or field name (SCHEMA-H9).

    >>> camel("my-tool"), camel("1st"), camel("")
    ('MyTool', 'Tool1st', 'Tool')
    """
    joined = "".join(_capitalise(part) for part in _parts(name))
    joined = unicodedata.normalize("NFKC", joined)
    head = joined[:1]
    if head == "_" or not head.isidentifier():
        joined = "Tool" + joined
    return unicodedata.normalize("NFKC", joined)


def join_name(parent: str, suffix: str) -> str:
    """Extend a class name, NFKC-normalised and capped, so that deep schemas stay linear (SCHEMA-H9, H10)."""
    joined = unicodedata.normalize("NFKC", parent + suffix)
    if joined.isascii():
        return joined[:MAX_NAME_UNITS]
    units = 0
    for index, char in enumerate(joined):
        units += 2 if ord(char) > 0xFFFF else 1
        if units > MAX_NAME_UNITS:
            return joined[:index]
    return joined


def _parts(name: str) -> list[str]:
    """Split at everything that cannot continue an identifier, and at underscores."""
    if name.isascii():
        return _ASCII_PARTS.findall(name)
    kept = "".join(c if c != "_" and ("a" + c).isidentifier() else " " for c in name)
    return kept.split()


def _capitalise(part: str) -> str:
    """Upper-case the first UTF-16 unit; half of an astral character has no upper case."""
    head = part[0]
    return (head if ord(head) > 0xFFFF else head.upper()) + part[1:]


class NameAllocator:
    """Hands out class names, each once; a taken name gets the first free number from 2 (SCHEMA-H8)."""

    __slots__ = ("_next", "_taken")

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def allocate(self, base: str) -> str:
        """Return ``base`` or its first free numbered form, and mark it as taken."""
        if base not in self._taken:
            self._taken.add(base)
            return base
        number = self._next.get(base, 2)
        while f"{base}{number}" in self._taken:
            number += 1
        self._next[base] = number + 1
        name = f"{base}{number}"
        self._taken.add(name)
        return name
