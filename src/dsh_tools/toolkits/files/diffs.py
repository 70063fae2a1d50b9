"""The hunks of a change, for cards (HOST-212)."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import msgspec

from ...tools import PresentedResult
from ...tools.cards import FileDiff
from ..presented import meta_of
from .lines import split_lines

__all__ = ["change_meta", "diffs_of", "hunks"]

_CONTEXT = 3
# Beyond so many lines on either side that differ, they are one hunk: comparing them would take too long.
_COMPARED_LINES = 1000
_MAX_BYTES = 65_536


class _Diff(msgspec.Struct, rename="camel"):
    path: str
    old_text: str | None
    new_text: str


class _Meta(msgspec.Struct):
    diffs: tuple[_Diff, ...]


def hunks(before: str, after: str) -> list[tuple[str | None, str]]:
    """Return old and new text of each hunk, with three lines around it; no old text where there is none."""
    old, new = split_lines(before), split_lines(after)
    start = _common(old, new)
    tail = _common(old[start:][::-1], new[start:][::-1])
    middle = (old[start : len(old) - tail], new[start : len(new) - tail])
    if not any(middle):
        return []
    low, kept = max(0, start - _CONTEXT), max(0, tail - _CONTEXT)
    old, new = old[low : len(old) - kept], new[low : len(new) - kept]
    if max(map(len, middle)) > _COMPARED_LINES:
        return [(_joined(old), "\n".join(new))]
    groups = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT)
    return [(_joined(old[g[0][1] : g[-1][2]]), "\n".join(new[g[0][3] : g[-1][4]])) for g in groups]


def change_meta(path: str, before: str | None, after: str) -> dict[str, Any]:
    """Return the data of a change's card; of a new file, or where it is too much, none (HOST-212)."""
    diffs: list[dict[str, Any]] = []
    if before is not None:
        diffs = [{"path": path, "oldText": old, "newText": new} for old, new in hunks(before, after)]
        if len(msgspec.json.encode(diffs)) > _MAX_BYTES:
            diffs = []
    return {"diffs": diffs}


def diffs_of(presented: PresentedResult) -> tuple[FileDiff, ...] | None:
    """Read what :func:`change_meta` has made for a success; None for a failure, and where it is something else."""
    meta = meta_of(presented, _Meta)
    return None if meta is None else tuple(FileDiff(diff.path, diff.old_text, diff.new_text) for diff in meta.diffs)


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """Return how many lines are the same from the beginning."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return min(len(left), len(right))


def _joined(lines: Sequence[str]) -> str | None:
    return "\n".join(lines) if lines else None
