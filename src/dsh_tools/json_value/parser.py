"""An iterative JSON reader that knows what is wrong, and where.

Text that the fast decoder takes never comes here. What does come: faulty text, which needs an
exact message; lone surrogate escapes; and nesting that leaves the decoder no room.
"""

from __future__ import annotations

import re
from typing import Any

from ..errors import JsonTextError

__all__ = ["MAX_TEXT_DEPTH", "read_json"]

MAX_TEXT_DEPTH = 512
"""How deep JSON text may nest (D39). Values built in process may nest deeper."""

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING_RUN = re.compile(r'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"-?[A-Za-z_][A-Za-z0-9_]*")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_SURROGATE_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None}
_HINTS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_SNIPPET = 24


def read_json(text: str) -> Any:
    """Parse JSON text into plain values; raise :class:`JsonTextError` with the fault and its offset."""
    return _Reader(text).read()


class _Reader:
    """A cursor over the text. Containers that are open sit on a stack, never on the Python stack."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.stack: list[dict[str, Any] | list[Any]] = []
        self.keys: list[str | None] = []

    def read(self) -> Any:
        """Read one value that must be the whole text."""
        self._skip()
        if self.at == len(self.text):
            raise self._fault("there is no JSON value")
        while True:
            value, opened = self._value()
            if opened:
                continue
            while self.stack:
                self._store(value)
                if self._continues():
                    break
                value = self.stack.pop()
                self.keys.pop()
            else:
                self._skip()
                if self.at < len(self.text):
                    raise self._fault("trailing data")
                return value

    def _value(self) -> tuple[Any, bool]:
        """Read a scalar or an empty container, or open a container: ``(value, opened)``."""
        text = self.text
        char = text[self.at : self.at + 1]
        if char == "{" or char == "[":
            return self._open(char)
        if char == '"':
            return self._string(), False
        match = _NUMBER.match(text, self.at)
        if match is not None:
            return self._number(match), False
        match = _WORD.match(text, self.at)
        if match is None:
            raise self._unexpected("a value")
        word = match[0]
        if word not in _LITERALS:
            if match.end() == len(text) and any(name.startswith(word) for name in _LITERALS):
                self.at = len(text)
                raise self._fault("the text ends too early")
            hint = f"; write {_HINTS[word]}" if word in _HINTS else ""
            raise self._fault(f"{_shown(word)} is not JSON{hint}")
        self.at = match.end()
        return _LITERALS[word], False

    def _open(self, char: str) -> tuple[Any, bool]:
        if len(self.stack) == MAX_TEXT_DEPTH:
            raise JsonTextError(
                f"nested {_bracket_depth(self.text)} levels deep; at most {MAX_TEXT_DEPTH} are read",
                offset=self.at,
            )
        container: dict[str, Any] | list[Any] = {} if char == "{" else []
        close = "}" if char == "{" else "]"
        self.at += 1
        self._skip()
        if self.text.startswith(close, self.at):
            self.at += 1
            return container, False
        self.stack.append(container)
        self.keys.append(None)
        if char == "{":
            self._key()
        elif self.at == len(self.text):
            raise self._fault("the text ends too early, inside a list,")
        return None, True

    def _store(self, value: Any) -> None:
        parent = self.stack[-1]
        if isinstance(parent, dict):
            parent[self.keys[-1]] = value  # pyright: ignore[reportArgumentType]
        else:
            parent.append(value)

    def _continues(self) -> bool:
        """After a member: step to the next one (True) or over the closing bracket (False)."""
        in_record = isinstance(self.stack[-1], dict)
        close = "}" if in_record else "]"
        self._skip()
        char = self.text[self.at : self.at + 1]
        if char == close:
            self.at += 1
            return False
        if char != ",":
            raise self._unexpected(f"',' or '{close}'")
        comma = self.at
        self.at += 1
        self._skip()
        if self.text.startswith(close, self.at):
            self.at = comma
            raise self._fault(f"trailing comma before '{close}'")
        if in_record:
            self._key()
        elif self.at == len(self.text):
            raise self._fault("the text ends too early, inside a list,")
        return True

    def _key(self) -> None:
        """Read ``"key":`` and stand before its value."""
        if not self.text.startswith('"', self.at):
            raise self._unexpected("a key in double quotes")
        self.keys[-1] = self._string()
        self._skip()
        if not self.text.startswith(":", self.at):
            raise self._unexpected("':' after a key")
        self.at += 1
        self._skip()

    def _string(self) -> str:
        self.at += 1
        parts: list[str] = []
        while True:
            match = _STRING_RUN.match(self.text, self.at)
            if match is not None:
                parts.append(match[0])
                self.at = match.end()
            char = self.text[self.at : self.at + 1]
            if char == '"':
                self.at += 1
                return _SURROGATE_PAIR.sub(_join_pair, "".join(parts))
            if char == "":
                raise self._fault("the text ends too early, inside a string,")
            if char != "\\":
                raise self._fault(f"unescaped control character U+{ord(char):04X} in a string")
            parts.append(self._escape())

    def _escape(self) -> str:
        letter = self.text[self.at + 1 : self.at + 2]
        if letter in _ESCAPES:
            self.at += 2
            return _ESCAPES[letter]
        if letter == "":
            self.at += 1
            raise self._fault("the text ends too early, inside an escape,")
        match = _HEX.match(self.text, self.at + 2) if letter == "u" else None
        if match is None:
            raise self._fault(f"invalid escape \\{letter}")
        self.at = match.end()
        return chr(int(match[0], 16))

    def _number(self, match: re.Match[str]) -> int | float:
        token = match[0]
        if match["fraction"] is None and match["exponent"] is None:
            try:
                value: int | float = int(token)
            except ValueError:
                digits = len(token.lstrip("-"))
                raise self._fault(f"an integer of {digits} digits is too long to read") from None
        else:
            value = float(token)
            if value - value != 0.0:
                raise self._fault(f"number {_shown(token)} is out of range")
        self.at = match.end()
        if self.text[self.at : self.at + 1] in (".", "e", "E") or self.text[self.at : self.at + 1].isdigit():
            self.at = match.start()
            raise self._fault("malformed number")
        return value

    def _skip(self) -> None:
        match = _SPACE.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def _unexpected(self, wanted: str) -> JsonTextError:
        if self.at == len(self.text):
            inside = ("", ", inside an object,", ", inside a list,")[self._place()]
            return self._fault(f"the text ends too early{inside}")
        char = self.text[self.at]
        shown = repr(char) if char.isprintable() else f"U+{ord(char):04X}"
        return self._fault(f"unexpected character {shown}, expected {wanted},")

    def _place(self) -> int:
        if not self.stack:
            return 0
        return 1 if isinstance(self.stack[-1], dict) else 2

    def _fault(self, what: str) -> JsonTextError:
        return JsonTextError(what, offset=self.at, snippet=snippet_at(self.text, self.at))


def snippet_at(text: str, at: int) -> str:
    """Cut the text around an offset, on one line."""
    start, end = max(0, at - _SNIPPET), min(len(text), at + _SNIPPET)
    cut = text[start:end].encode("utf-8", "backslashreplace").decode("utf-8")
    cut = "".join(char if char.isprintable() else repr(char)[1:-1] for char in cut)
    return ("…" if start else "") + cut + ("…" if end < len(text) else "")


def _join_pair(match: re.Match[str]) -> str:
    """Join two escapes that are the halves of one character."""
    return match[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _bracket_depth(text: str) -> int:
    """Return how deep the brackets of a text nest, strings left out."""
    depth = deepest = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', text, re.DOTALL):
        char = token[0]
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def _shown(token: str) -> str:
    """Return a token as a message shows it: cut where it is long."""
    return token if len(token) <= 40 else token[:37] + "..."
