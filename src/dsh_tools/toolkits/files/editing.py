"""Exact replacement in a text that keeps its own line ends."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from ..file_errors import AmbiguousEditError, EditNotFoundError
from .advice import why_not_found

__all__ = ["Replacement", "fold", "keep_line_ends", "replace"]

_SHOWN_PLACES = 10


@dataclass(frozen=True, slots=True)
class Replacement:
    """One change: ``old`` becomes ``new``, once or everywhere."""

    old: str
    new: str
    everywhere: bool = False


def fold(text: str) -> str:
    """Return a text with ``\\n`` for every ``\\r\\n``, as models see it."""
    return text.replace("\r\n", "\n")


def keep_line_ends(text: str, before: str) -> str:
    """Return a new text with the line ends of the one it replaces, where that one ends all lines with CRLF."""
    ends = before.count("\n")
    if ends and before.count("\r\n") == ends and "\r\n" not in text:
        return text.replace("\n", "\r\n")
    return text


def replace(text: str, change: Replacement, path: str) -> str:
    """Return the text with the change made. Line ends need not be told apart: they are matched and kept.

    Raises:
        EditNotFoundError: the old text is not there; the message says what comes close.
        AmbiguousEditError: it is there more than once, and not to be replaced everywhere.
    """
    folded, old = fold(text), fold(change.old)
    places = _places(folded, old)
    if not places:
        raise EditNotFoundError(f"old_string is not in {path}. {why_not_found(folded, old)}")
    if len(places) > 1 and not change.everywhere:
        numbers = [str(folded.count("\n", 0, place) + 1) for place in places[:_SHOWN_PLACES]]
        more = f" and {len(places) - _SHOWN_PLACES} more" if len(places) > _SHOWN_PLACES else ""
        raise AmbiguousEditError(
            f"old_string is in {path} {len(places)} times (lines {', '.join(numbers)}{more}); "
            "add lines around it until it is there once, or set replace_all"
        )
    origin = _Origin(text)
    new = fold(change.new)
    out: list[str] = []
    end = 0
    for place in places:
        start, stop = origin.of(place), origin.of(place + len(old))
        out += [text[end:start], origin.with_ends(new, text[start:stop])]
        end = stop
    return "".join([*out, text[end:]])


def _places(text: str, old: str) -> list[int]:
    places: list[int] = []
    at = text.find(old)
    while at >= 0:
        places.append(at)
        at = text.find(old, at + len(old))
    return places


class _Origin:
    """Leads from a place in the folded text to the same place in the text itself."""

    def __init__(self, text: str) -> None:
        # Where each folded line end is in the folded text.
        self._folded: list[int] = []
        at = text.find("\r\n")
        while at >= 0:
            self._folded.append(at - len(self._folded))
            at = text.find("\r\n", at + 2)
        self._mostly_crlf = 2 * len(self._folded) > text.count("\n")

    def of(self, place: int) -> int:
        return place + bisect_left(self._folded, place)

    def with_ends(self, new: str, replaced: str) -> str:
        """Return the new text with the line ends of what it replaces, or else of most of the file."""
        crlf = "\r\n" in replaced if "\n" in replaced else self._mostly_crlf
        return new.replace("\n", "\r\n") if crlf else new
