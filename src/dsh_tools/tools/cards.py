"""Cards: what a person is shown of a call, before it runs and after it settled.

A tool's presenters return these records; terminals and pages draw them. The JSON form is the wire form:
camelCase, absent keys left out, discriminated by ``card``. Search results are discriminated further by
``shape``, web results by ``kind`` (PIPE-209 to 218).

``search``, ``read`` and ``web`` exist for results only: while such a call is pending its card is a generic
one of kind ``search``, ``read`` or ``fetch`` (PIPE-218).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import field

from ..content import ContentBlock
from ..messages import record_json

__all__ = [
    "CallKind",
    "CallView",
    "DiffCall",
    "DiffResult",
    "FileDiff",
    "FileMatches",
    "GenericCall",
    "GenericResult",
    "LineMatch",
    "Location",
    "ReadLine",
    "ReadResult",
    "ResultView",
    "SearchMatches",
    "SearchPaths",
    "TerminalCall",
    "TerminalResult",
    "WebFetch",
    "WebSearch",
    "WebSource",
    "call_view_from_json",
    "result_view_from_json",
    "view_to_json",
]

CallKind: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "fetch", "other"]
"""What a generic call does, for the choice of a symbol."""


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A record inside a card: immutable, camelCase in JSON, optional keys left out."""


class _Card(_Part, frozen=True, tag_field="card"):
    """A card: a record that says which one it is."""


# ── parts ──────────────────────────────────────────────────────────────────────


class Location(_Part, frozen=True):
    """A place that a call is about: a path, and a line counted from 1 (PIPE-209)."""

    path: str
    line: int | None = None


class FileDiff(_Part, frozen=True):
    """A change to one file, or one hunk of it (PIPE-211).

    ``old_text`` is None where there is no old text to show: the file is created or overwritten.
    """

    path: str
    old_text: str | None
    new_text: str


class LineMatch(_Part, frozen=True):
    """A line that a search found; ``line_number`` counts from 1."""

    line_number: int
    line: str


class FileMatches(_Part, frozen=True):
    """All shown matches of one file."""

    path: str
    matches: tuple[LineMatch, ...]


class ReadLine(_Part, frozen=True):
    """A line that was read, with its number in the file."""

    number: int
    text: str


class WebSource(_Part, frozen=True):
    """A page that a web search found; ``published_at`` is the date text of the provider."""

    url: str
    title: str | None = None
    snippet: str | None = None
    published_at: str | None = None


# ── pending calls ──────────────────────────────────────────────────────────────


class GenericCall(_Card, frozen=True, tag="generic"):
    """Any call (PIPE-209).

    Parameters:
        title: one line that says what is going on.
        kind: what the call does.
        raw_input: the arguments, or what stands for them.
        content: blocks to show below the title.
        locations: the places it is about.
    """

    title: str
    kind: CallKind = "other"
    raw_input: Any = None
    content: tuple[ContentBlock, ...] | None = None
    locations: tuple[Location, ...] | None = None


class TerminalCall(_Card, frozen=True, tag="terminal"):
    """A command (PIPE-210).

    Parameters:
        title: the command.
        description: what it is for.
        cwd: where it runs: absolute, or relative to the workspace; None is the workspace itself.
    """

    title: str
    description: str | None = None
    cwd: str | None = None


class DiffCall(_Card, frozen=True, tag="diff"):
    """A change to files that is about to be made (PIPE-211)."""

    title: str
    diffs: tuple[FileDiff, ...]
    locations: tuple[Location, ...] | None = None


CallView: TypeAlias = GenericCall | TerminalCall | DiffCall
"""The card of a call that has not settled."""

# ── results ────────────────────────────────────────────────────────────────────
# A result's title, where it has one, replaces the title of the pending card (PIPE-212).


class GenericResult(_Card, frozen=True, tag="generic"):
    """Any result; without ``content`` the result's own content is shown (PIPE-212)."""

    title: str | None = None
    content: tuple[ContentBlock, ...] | None = None


class TerminalResult(_Card, frozen=True, tag="terminal"):
    """What a command printed and how it ended (PIPE-213).

    Raises:
        ValueError: both ``exit_code`` and ``signal`` are given; a process ends in one way.
    """

    title: str | None = None
    output: str | None = None
    exit_code: int | None = None
    signal: str | None = None

    def __post_init__(self) -> None:
        if self.exit_code is not None and self.signal is not None:
            raise ValueError("a terminal result has an exit code or a signal, not both")


class DiffResult(_Card, frozen=True, tag="diff"):
    """The change that was made.

    It replaces the pending card's diff, so it is returned even where it equals that one (PIPE-214).
    """

    diffs: tuple[FileDiff, ...]
    title: str | None = None


class SearchMatches(_Card, frozen=True, tag="search"):
    """Lines that were found, grouped by file in the order of first sight (PIPE-215).

    ``total`` counts all matches, also those left out because of a limit.
    """

    files: tuple[FileMatches, ...]
    truncated: bool
    total: int
    title: str | None = None
    # A default made by a factory is written out even where defaults are left out.
    shape: Literal["matches"] = field(default_factory=lambda: "matches")


class SearchPaths(_Card, frozen=True, tag="search"):
    """Paths that were found; ``total`` counts those left out, too (PIPE-215)."""

    paths: tuple[str, ...]
    truncated: bool
    total: int
    title: str | None = None
    shape: Literal["paths"] = field(default_factory=lambda: "paths")


class ReadResult(_Card, frozen=True, tag="read"):
    """Lines of a file (PIPE-216).

    Parameters:
        path: the file.
        offset: number of the first line asked for, from 1; kept where ``lines`` is empty.
        lines: what was read, numbered as in the file.
        total_lines: how many lines the file has.
        lang: language for colouring.
        content: shown where there are no lines.
    """

    path: str
    offset: int
    lines: tuple[ReadLine, ...]
    total_lines: int
    title: str | None = None
    lang: str | None = None
    content: tuple[ContentBlock, ...] | None = None


class WebSearch(_Card, frozen=True, tag="web"):
    """Pages that a web search found, and the provider's answer where it gives one (PIPE-217)."""

    sources: tuple[WebSource, ...]
    truncated: bool
    title: str | None = None
    answer: str | None = None
    kind: Literal["search"] = field(default_factory=lambda: "search")


class WebFetch(_Card, frozen=True, tag="web"):
    """A page that was fetched: its final address and status (PIPE-217)."""

    url: str
    status_code: int
    truncated: bool
    title: str | None = None
    kind: Literal["fetch"] = field(default_factory=lambda: "fetch")


ResultView: TypeAlias = (
    GenericResult | TerminalResult | DiffResult | SearchMatches | SearchPaths | ReadResult | WebSearch | WebFetch
)
"""The card of a call that has settled."""

T = TypeVar("T")

# ── JSON ───────────────────────────────────────────────────────────────────────

_CALLS: dict[object, type[CallView]] = {"generic": GenericCall, "terminal": TerminalCall, "diff": DiffCall}
_RESULTS: dict[object, type[ResultView]] = {
    "generic": GenericResult,
    "terminal": TerminalResult,
    "diff": DiffResult,
    "read": ReadResult,
    ("search", "matches"): SearchMatches,
    ("search", "paths"): SearchPaths,
    ("web", "search"): WebSearch,
    ("web", "fetch"): WebFetch,
}
# Where ``card`` alone does not say which record it is.
_DISCRIMINANTS = {"search": "shape", "web": "kind"}


def view_to_json(view: CallView | ResultView) -> dict[str, Any]:
    """Return a card as a JSON value; raw input is handed on as it is."""
    return record_json(view)


def call_view_from_json(document: object) -> CallView:
    """Read the card of a pending call.

    Raises:
        msgspec.ValidationError: it is not one (a ``ValueError``); the message ends in a path.
    """
    return msgspec.convert(document, _record_type(document, _CALLS, {}))


def result_view_from_json(document: object) -> ResultView:
    """Read the card of a result.

    Raises:
        msgspec.ValidationError: it is not one (a ``ValueError``); the message ends in a path.
    """
    return msgspec.convert(document, _record_type(document, _RESULTS, _DISCRIMINANTS))


def _record_type(document: object, types: Mapping[object, type[T]], discriminants: Mapping[str, str]) -> type[T]:
    if not isinstance(document, dict):
        raise msgspec.ValidationError("a card must be an object - at `$`")
    fields = cast("dict[str, object]", document)
    at = "card"
    key = card = fields.get(at)
    if isinstance(card, str) and card in discriminants:
        at = discriminants[card]
        key = (card, fields.get(at))
    try:
        return types[key]
    except (KeyError, TypeError):  # TypeError: a value that cannot be a key
        raise msgspec.ValidationError(f"unknown card {fields.get(at)!r} - at `$.{at}`") from None
