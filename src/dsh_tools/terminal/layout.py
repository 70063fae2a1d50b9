"""The shape of a card: a heading, a body behind a bar on the left, and a closing line.

There is no bar on the right: text of unknown width could never line up with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

__all__ = ["Card", "Limits", "Row", "bounded", "clip", "cut", "hidden_lines", "prose", "verbatim"]

BAR = "│ "
CORNER = "╰ "
NARROWEST = 16

# For terminals that have only ASCII; each stands for one cell.
_ASCII = str.maketrans(
    {"○": "o", "✓": "+", "✗": "x", "│": "|", "╰": "`", "…": "~", "⋯": "~", "–": "-", "⏎": "/", "·": "-"}
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a card's body is shown.

    Parameters:
        lines: how many lines; the rest is counted in a marker.
        line_length: how many characters of one line.
    """

    lines: int = 40
    line_length: int = 500


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a card, which may wrap: the lines it wraps to start below its text, not below its prefix."""

    text: Text
    prefix: Text = field(default_factory=Text)
    words: bool = False

    def lines(self, console: Console, width: int) -> Iterator[Text]:
        """Lay the row out in ``width`` cells."""
        indent = cell_len(self.prefix.plain)
        room = max(width - indent, NARROWEST // 2)
        wrapped = self.text.wrap(console, room, overflow="fold") if self.words else _chop(self.text, room)
        prefix = self.prefix
        for line in wrapped:
            if self.words:
                line.rstrip()
            yield Text.assemble(prefix, line)
            prefix = Text(" " * indent)


def prose(text: str, style: str = "") -> Row:
    """Return a row that wraps between words. The text must be harmless already."""
    return Row(Text(text, style=style), words=True)


def verbatim(text: str, style: str = "", prefix: Text | None = None) -> Row:
    """Return a row that keeps every space and wraps anywhere. The text must be harmless already."""
    return Row(Text(text, style=style), prefix or Text())


@dataclass(frozen=True, slots=True)
class Card:
    """A card that a rich console can print; its layout depends on nothing but the width."""

    heading: Row
    body: Sequence[Row] = ()
    closing: Text | None = None
    bar_style: str = "dim"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the card out; called by rich."""
        width = max(options.max_width, NARROWEST)
        for line in self._lines(console, width):
            for segment in line.render(console):
                if options.ascii_only:
                    yield Segment(segment.text.translate(_ASCII), segment.style)
                else:
                    yield segment
            yield Segment.line()

    def _lines(self, console: Console, width: int) -> Iterator[Text]:
        yield from self.heading.lines(console, width)
        for row in self.body:
            for line in row.lines(console, width - len(BAR)):
                yield Text.assemble((BAR, self.bar_style), line)
        if self.closing is not None:
            closing = Row(self.closing, Text(CORNER, style=self.bar_style), words=True)
            yield from closing.lines(console, width)


def clip(items: Sequence[T], limit: int, *, tail: int = 0) -> tuple[Sequence[T], int, Sequence[T]]:
    """Split a long sequence into a head, the number of items left out, and a tail of ``tail`` items."""
    if len(items) <= limit:
        return items, 0, ()
    return items[: limit - tail], len(items) - limit, items[len(items) - tail :]


def bounded(rows: Iterator[Row], total: int, limit: int) -> list[Row]:
    """Make at most ``limit`` of ``total`` rows, and the marker for the others."""
    return [*islice(rows, limit), *hidden_lines(max(total - limit, 0))]


def cut(text: str, limit: int) -> str:
    """Cut a line that is longer than ``limit`` characters and say by how much."""
    return text if len(text) <= limit else f"{text[:limit]}… {len(text) - limit:,} more characters"


def hidden_lines(count: int) -> Iterable[Row]:
    """The marker for ``count`` lines that are not shown; none for 0."""
    if count:
        yield verbatim(f"⋯ {count:,} more {'line' if count == 1 else 'lines'}", "dim italic")


def _chop(text: Text, width: int) -> Iterable[Text]:
    line = text.plain
    if len(line) <= width and cell_len(line) <= width:
        return [text]
    offsets: list[int] = []
    used = 0
    for index, character in enumerate(line):
        size = get_character_cell_size(character)
        if used + size > width:
            offsets.append(index)
            used = 0
        used += size
    return text.divide(offsets)
