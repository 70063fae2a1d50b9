"""Enough of Python's lexical grammar to tell code from strings, and no more.

A program becomes the body of a function, so its lines are indented, except where a line begins
inside a string literal. And reading an error's member is turned into a call, which needs to know
what stands before the dot. Both must not be done by Python's own parser: the program is not
trusted, and a parser that it can crash would take the host along.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Scan", "Token", "scan"]

_STRING = re.compile(r"(?P<prefix>[A-Za-z]{0,2})(?P<quote>\"\"\"|'''|\"|')")
_PREFIXES = frozenset(("", "r", "u", "b", "f", "t", "br", "rb", "fr", "rf", "tr", "rt"))
_NAME = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"\.?\d[\w.]*")
_BLANK = re.compile(r"(?:[ \t\f\n]|\\\n|#[^\n]*)+")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of code: ``kind`` is ``name``, ``number``, ``string`` or ``op`` (one character)."""

    kind: str
    start: int
    end: int
    text: str


@dataclass(slots=True)
class Scan:
    """What a scan found.

    ``sequences`` are runs of tokens that belong together: the program's own, and one for each
    replacement field of an f-string. ``string_lines`` are the offsets of line starts that lie
    inside a string literal.
    """

    sequences: list[list[Token]] = field(default_factory=list[list[Token]])
    string_lines: set[int] = field(default_factory=set[int])


@dataclass(slots=True)
class _Level:
    """Where the scanner is: in code, or in the literal part of an f-string."""

    is_code: bool
    tokens: list[Token]
    quote: str = ""
    raw: bool = False
    depth: int = 0
    in_spec: bool = False


def scan(program: str) -> Scan:
    """Scan a program whose line ends are all ``\\n``. Faulty programs scan somehow; they fail later."""
    found = Scan()
    top = _Level(True, [])
    found.sequences.append(top.tokens)
    levels = [top]
    at = 0
    while at < len(program):
        level = levels[-1]
        at = _scan_code(program, at, levels, found) if level.is_code else _scan_text(program, at, levels, found)
    return found


def _scan_code(program: str, at: int, levels: list[_Level], found: Scan) -> int:
    level = levels[-1]
    blank = _BLANK.match(program, at)
    if blank is not None:
        return blank.end()
    opening = _STRING.match(program, at)
    if opening is not None and opening["prefix"].lower() in _PREFIXES:
        return _open_string(program, opening, levels, found)
    for kind, pattern in (("name", _NAME), ("number", _NUMBER)):
        match = pattern.match(program, at)
        if match is not None:
            level.tokens.append(Token(kind, at, match.end(), match[0]))
            return match.end()
    char = program[at]
    if len(levels) > 1 and level.depth == 0 and char in "}:":
        # The end of a replacement field, or of its expression.
        levels.pop()
        levels[-1].in_spec = char == ":"
        return at + 1
    if char in "([{":
        level.depth += 1
    elif char in ")]}":
        level.depth -= 1
    level.tokens.append(Token("op", at, at + 1, char))
    return at + 1


def _open_string(program: str, opening: re.Match[str], levels: list[_Level], found: Scan) -> int:
    prefix, quote = opening["prefix"].lower(), opening["quote"]
    levels[-1].tokens.append(Token("string", opening.start(), opening.end(), opening[0]))
    if "f" in prefix or "t" in prefix:
        levels.append(_Level(False, [], quote, "r" in prefix))
        return opening.end()
    return _skip_string(program, opening.end(), quote, found)


def _skip_string(program: str, at: int, quote: str, found: Scan) -> int:
    """Go to the end of a plain string."""
    while at < len(program):
        if program.startswith(quote, at):
            return at + len(quote)
        if program[at] == "\\":
            at += 1
        elif program[at] == "\n" and len(quote) == 1:
            return at  # unterminated: the line's end closes it, as a fault
        if program.startswith("\n", at):
            found.string_lines.add(at + 1)
        at += 1
    return at


def _scan_text(program: str, at: int, levels: list[_Level], found: Scan) -> int:
    """Take one step in the literal part of an f-string, or in a field's format."""
    level = levels[-1]
    char = program[at]
    if level.in_spec and char == "}":
        level.in_spec = False
        return at + 1
    if not level.in_spec and program.startswith(level.quote, at):
        levels.pop()
        return at + len(level.quote)
    if char == "{":
        if not level.in_spec and program.startswith("{{", at):
            return at + 2
        inner = _Level(True, [])
        found.sequences.append(inner.tokens)
        # A field inside a format comes back to that format.
        levels.append(inner)
        return at + 1
    if char == "\\" and not level.raw:
        named = program.startswith("\\N{", at) and program.find("}", at)
        at += 1
        if named and named > 0:
            return named + 1
    elif char == "\n" and len(level.quote) == 1 and not level.in_spec:
        levels.pop()
        return at
    if program.startswith("\n", at):
        found.string_lines.add(at + 1)
    return at + 1
