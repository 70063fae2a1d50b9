"""Patterns with wildcards, matched without backtracking."""

from __future__ import annotations

import re

__all__ = ["Glob"]


class Glob:
    """A pattern: ``*`` is any run of characters, ``?`` any one, ``\\`` makes the next one ordinary.

    Nothing else is special. A pattern without wildcards matches exactly itself.

    The runs between stars have a fixed length each, so the leftmost place of each is as good as
    any other, and nothing is ever tried twice.

    Raises:
        ValueError: the pattern ends in a lone backslash.
    """

    __slots__ = ("_runs", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._runs = [_Run(characters) for characters in _split(pattern)]

    def __repr__(self) -> str:
        return f"Glob({self.pattern!r})"

    @property
    def literal(self) -> str | None:
        """The one text that a pattern without wildcards matches; None for other patterns."""
        return self._runs[0].literal if len(self._runs) == 1 else None

    @property
    def is_exact(self) -> bool:
        """Whether there is no wildcard in the pattern."""
        return self.literal is not None

    @property
    def matches_all(self) -> bool:
        """Whether the pattern matches every text: it is nothing but stars."""
        return len(self._runs) > 1 and all(run.length == 0 for run in self._runs)

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        first, *others = self._runs
        if not others:
            return len(text) == first.length and first.is_at(text, 0)
        last = others.pop()
        end = len(text) - last.length
        if end < first.length or not first.is_at(text, 0) or not last.is_at(text, end):
            return False
        position = first.length
        for run in others:
            position = run.find(text, position, end)
            if position < 0:
                return False
            position += run.length
        return True


class _Run:
    """What stands between two stars: characters, and None for any one."""

    __slots__ = ("_expression", "length", "literal")

    def __init__(self, characters: list[str | None]) -> None:
        self.length = len(characters)
        fixed = [character for character in characters if character is not None]
        self.literal = "".join(fixed) if len(fixed) == len(characters) else None
        pieces = ("." if character is None else re.escape(character) for character in characters)
        # Of fixed length and without alternatives: each place of the text is looked at once for each character.
        self._expression = re.compile("".join(pieces), re.DOTALL)

    def is_at(self, text: str, position: int) -> bool:
        if self.literal is not None:
            return text.startswith(self.literal, position)
        return self._expression.match(text, position) is not None

    def find(self, text: str, start: int, end: int) -> int:
        if self.literal is not None:
            return text.find(self.literal, start, end)
        found = self._expression.search(text, start, end)
        return -1 if found is None else found.start()


def _split(pattern: str) -> list[list[str | None]]:
    runs: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == "*":
            runs.append([])
        elif character == "?":
            runs[-1].append(None)
        elif character == "\\":
            escaped = next(characters, None)
            if escaped is None:
                raise ValueError(f"the pattern {pattern!r} ends in a lone backslash")
            runs[-1].append(escaped)
        else:
            runs[-1].append(character)
    # Neighbouring stars say no more than one.
    return [run for index, run in enumerate(runs) if run or index in (0, len(runs) - 1)]
