"""Path patterns: ``*``, ``?``, ``[a-z]``, ``{a,b}`` and ``**``, read as ripgrep reads them.

One reader serves the patterns of models and the lines of ``.gitignore`` files, so that both engines agree.
"""

from __future__ import annotations

import re

__all__ = ["GlobSyntaxError", "glob_expression", "normal_pattern", "parse_path_pattern"]


class GlobSyntaxError(ValueError):
    """A pattern that cannot be read; the text says why."""


def normal_pattern(pattern: str) -> str:
    """Return a model's pattern in the form of an ignore rule: a slash in front holds it to the search's folder."""
    anchored = pattern.startswith(("/", "./"))
    text = pattern.removeprefix("./").lstrip("/")
    # A folder stands for everything below it.
    if text.endswith("/"):
        text += "**"
    return f"/{text}" if anchored or "/" in text else text


def parse_path_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a model's pattern, to be matched against whole paths relative to the search's folder.

    A pattern without a slash is matched against the last part of a path, at any depth; one that ends with a
    slash means everything below that folder.

    Raises:
        GlobSyntaxError: the pattern is malformed.
    """
    text = normal_pattern(pattern)
    glob = text[1:] if text.startswith("/") else text if text == "**" else f"**/{text}"
    return re.compile(glob_expression(glob), re.DOTALL)


def glob_expression(glob: str) -> str:
    """Return the regular expression of a glob that must match a whole path.

    ``*`` and ``?`` stop at slashes; ``**`` crosses them where it is a whole part of the path.

    Raises:
        GlobSyntaxError: the glob is malformed.
    """
    return r"\A" + _Reader(glob).read() + r"\Z"


# ``**`` at the beginning, at the end, between slashes, and alone.
_LEADING = r"(?:.*/)?"
_TRAILING = r"/.*"
_INNER = r"(?:/|/.*/)"
_EVERYTHING = r".*"


class _Reader:
    def __init__(self, glob: str) -> None:
        self._glob = glob
        self._at = 0
        # One list of pieces for each brace that is open; alternatives that are complete stand beside.
        self._pieces: list[str] = []
        self._outer: list[tuple[list[str], list[str]]] = []

    def read(self) -> str:
        while (char := self._next()) is not None:
            self._take(char)
        if self._outer:
            raise GlobSyntaxError("a { is not closed")
        if self._pieces == [_LEADING]:
            return _EVERYTHING
        return "".join(self._pieces)

    def _peek(self) -> str | None:
        return self._glob[self._at] if self._at < len(self._glob) else None

    def _next(self) -> str | None:
        char = self._peek()
        self._at += 1
        return char

    def _take(self, char: str) -> None:
        if char == "?":
            self._pieces.append("[^/]")
        elif char == "*":
            self._star()
        elif char == "[":
            self._pieces.append(self._class())
        elif char == "{":
            self._outer.append((self._pieces, []))
            self._pieces = []
        elif char == "}":
            self._close()
        elif char == "," and self._outer:
            self._outer[-1][1].append("".join(self._pieces))
            self._pieces = []
        elif char == "\\":
            escaped = self._next()
            if escaped is None:
                raise GlobSyntaxError("a \\ at the end escapes nothing")
            self._pieces.append(re.escape(escaped))
        else:
            self._pieces.append(re.escape(char))

    def _close(self) -> None:
        if not self._outer:
            raise GlobSyntaxError("a } closes nothing")
        pieces, done = self._outer.pop()
        alternatives = [*done, "".join(self._pieces)]
        self._pieces = pieces
        self._pieces.append(f"(?:{'|'.join(alternatives)})")

    def _star(self) -> None:
        before = self._glob[self._at - 2] if self._at >= 2 else None
        if self._peek() != "*":
            self._pieces.append("[^/]*")
            return
        self._at += 1
        after = self._peek()
        begins = before is None or (before in ",{" and bool(self._outer))
        ends = after is None or (after in ",}" and bool(self._outer))
        if begins and not self._pieces:
            if after is None or after == "/":
                self._at += 1
                self._pieces.append(_LEADING)
                return
        elif before == "/" and (ends or after == "/"):
            self._after_slash(ends)
            return
        self._pieces.append("[^/]*")

    def _after_slash(self, ends: bool) -> None:
        """Take ``**`` between slashes, or after the last one; the slash before it is part of it."""
        if not ends:
            self._at += 1
        last = self._pieces.pop() if self._pieces else "/"
        if last in (_LEADING, _TRAILING):
            self._pieces.append(last)
        elif last == _INNER:
            self._pieces.append(_TRAILING if ends else _INNER)
        else:
            self._pieces.append(_TRAILING if ends else _INNER)

    def _class(self) -> str:
        negated = self._peek() in ("!", "^")
        if negated:
            self._at += 1
        ranges: list[list[str]] = []
        first, in_range = True, False
        while True:
            char = self._next()
            if char is None:
                raise GlobSyntaxError("a [ is not closed")
            if char == "]" and not first:
                break
            if in_range:
                _end_range(ranges[-1], char)
                in_range = False
            elif char == "-" and not first:
                in_range = True
            else:
                ranges.append([char, char])
            first = False
        if in_range:
            ranges.append(["-", "-"])
        inside = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in ranges)
        return f"[{'^' if negated else ''}{inside}]"


def _end_range(bounds: list[str], high: str) -> None:
    if high < bounds[0]:
        raise GlobSyntaxError(f"the range {bounds[0]}-{high} is empty")
    bounds[1] = high
