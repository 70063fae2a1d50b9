"""The lines of a diff card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal, TypeAlias

from ..tools.cards import FileDiff

__all__ = ["ChangedLine", "Sign", "changes_by_file"]

Sign: TypeAlias = Literal["+", "-", " ", "⋯"]

CONTEXT = 3
# Above this product of line counts no alignment is looked for: it could take seconds.
MOST_COMPARISONS = 4_000_000


@dataclass(frozen=True, slots=True)
class ChangedLine:
    """A line of a diff; the sign ``⋯`` stands for unchanged lines left out."""

    sign: Sign
    text: str = ""


def changes_by_file(diffs: Iterable[FileDiff]) -> Iterator[tuple[str, list[ChangedLine]]]:
    """Group hunks that follow each other in one file, and find the lines that changed."""
    for path, hunks in groupby(diffs, key=lambda diff: diff.path):
        lines: list[ChangedLine] = []
        for hunk in hunks:
            if lines:
                lines.append(ChangedLine("⋯"))
            lines.extend(_changed_lines(_split(hunk.old_text or ""), _split(hunk.new_text)))
        yield path, lines


def _split(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _changed_lines(old: list[str], new: list[str]) -> Iterator[ChangedLine]:
    if len(old) * len(new) > MOST_COMPARISONS:
        yield from _middle(old, new)
        return
    first = True
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        if not first:
            yield ChangedLine("⋯")
        first = False
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from (ChangedLine(" ", line) for line in old[old_start:old_end])
                continue
            yield from (ChangedLine("-", line) for line in old[old_start:old_end])
            yield from (ChangedLine("+", line) for line in new[new_start:new_end])


def _middle(old: list[str], new: list[str]) -> Iterator[ChangedLine]:
    """All that lies between a common start and a common end counts as changed."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    yield from (ChangedLine(" ", line) for line in old[max(start - CONTEXT, 0) : start])
    yield from (ChangedLine("-", line) for line in old[start : len(old) - end])
    yield from (ChangedLine("+", line) for line in new[start : len(new) - end])
    yield from (ChangedLine(" ", line) for line in old[len(old) - end :][:CONTEXT])
