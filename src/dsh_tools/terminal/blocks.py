"""Content blocks, JSON and source code as rows of a card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.highlighter import JSONHighlighter
from rich.text import Text

from ..content import ContentBlock, ImageBlock, JsonBlock, TextBlock
from ..errors import HarnessError
from ..json_value import exceeds_depth, parse_json, to_json_text
from .layout import Limits, Row, clip, cut, hidden_lines, prose, verbatim
from .neutral import one_line, plain

__all__ = ["argument_line", "argument_rows", "content_rows", "highlighted", "json_rows", "split_lines", "text_rows"]

# Indented JSON grows with the square of its depth.
DEEPEST_INDENTED = 20
CODE_THEME = "ansi_dark"

_highlight_json = JSONHighlighter()


def split_lines(text: str) -> list[str]:
    """Split at line feeds alone; a final one ends the last line."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def text_rows(text: str, limits: Limits, style: str = "") -> Iterator[Row]:
    """Rows of running text, cut to the limits."""
    head, hidden, _ = clip(split_lines(text), limits.lines)
    yield from (prose(plain(cut(line, limits.line_length)), style) for line in head)
    yield from hidden_lines(hidden)


def json_rows(value: Any, limits: Limits) -> Iterator[Row]:
    """Rows of a JSON value, indented unless it is very deep."""
    indent = None if exceeds_depth(value, DEEPEST_INDENTED) else 2
    head, hidden, _ = clip(split_lines(to_json_text(value, indent=indent)), limits.lines)
    for line in head:
        text = Text(plain(cut(line, limits.line_length)))
        _highlight_json.highlight(text)
        yield Row(text)
    yield from hidden_lines(hidden)


def argument_rows(arguments: Any, limits: Limits) -> Iterator[Row]:
    """Rows of a call's arguments: a JSON value, or the text a model wrote, which may not even parse."""
    value, is_json = _parsed(arguments)
    if not is_json:
        yield from text_rows(value, limits)
    elif value not in ({}, None):
        yield from json_rows(value, limits)


def argument_line(arguments: Any, limits: Limits) -> Iterator[Row]:
    """A call's arguments on one line, for a card that is about the result."""
    value, is_json = _parsed(arguments)
    if not is_json or value not in ({}, None):
        text = to_json_text(value) if is_json else value
        yield verbatim(one_line(cut(text, limits.line_length)), "dim")


def _parsed(arguments: Any) -> tuple[Any, bool]:
    if not isinstance(arguments, str):
        return arguments, True
    try:
        return parse_json(arguments), True
    except HarnessError:
        return arguments, False


def content_rows(content: Sequence[ContentBlock], limits: Limits, style: str = "") -> Iterator[Row]:
    """Rows of content blocks; the line limit holds for each block."""
    for block in content:
        match block:
            case TextBlock(text):
                yield from text_rows(text, limits, style)
            case JsonBlock(value):
                yield from json_rows(value, limits)
            case ImageBlock(data, mime_type):
                size = len(data) * 3 // 4 / 1024
                yield verbatim(f"[image {plain(mime_type)}, {size:,.1f} KiB]", "magenta")


def highlighted(lines: Iterable[str], language: str | None) -> list[Text]:
    """Colour lines of code that are harmless already; an unknown language gives plain lines."""
    texts = list(lines)
    code = "\n".join(texts)
    if language is None or not code:
        return [Text(line) for line in texts]
    # Imported late: it takes pygments along, which few cards need.
    from rich.syntax import Syntax

    coloured = Syntax("", language, theme=CODE_THEME, background_color="default").highlight(code)
    # A lexer ends the text with a line feed of its own. Where it changed more, its lines are not ours.
    if not coloured.plain.startswith(code):
        return [Text(line) for line in texts]
    return [*coloured[: len(code)].split("\n", allow_blank=True)]
