"""The body and the closing line of each kind of card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from ..content import ContentBlock
from ..tools.cards import (
    DiffCall,
    DiffResult,
    FileDiff,
    GenericCall,
    Location,
    ReadResult,
    SearchMatches,
    SearchPaths,
    TerminalCall,
    TerminalResult,
    WebFetch,
    WebSearch,
)
from .blocks import argument_rows, content_rows, highlighted, split_lines, text_rows
from .changes import ChangedLine, Sign, changes_by_file
from .layout import Limits, Row, bounded, clip, cut, hidden_lines, prose, verbatim
from .neutral import CommandOutput, one_line, plain

__all__ = ["Body", "call_body", "command_rows", "result_body"]

Body = tuple[list[Row], Text | None]
"""Rows, and a closing line where there is something to sum up."""

PATH = "bold magenta"
NUMBER = "dim cyan"
ADDRESS = "underline blue"
COMMAND_LINES = 12
# Of a long output, its end says more than its start.
HEAD_OF_OUTPUT = 8

_SIGNS: dict[Sign, tuple[str, str]] = {
    "+": ("+ ", "green"),
    "-": ("- ", "red"),
    " ": ("  ", "dim"),
    "⋯": ("⋯ ", "dim"),
}


def call_body(view: GenericCall | TerminalCall | DiffCall, limits: Limits) -> Body:
    """What a pending card shows below its heading."""
    match view:
        case TerminalCall():
            rows = [*command_rows(view.title, limits)]
            if view.description:
                rows.append(prose(one_line(cut(view.description, limits.line_length)), "dim"))
            if view.cwd is not None:
                rows.append(verbatim(f"in {one_line(view.cwd)}", "dim"))
            return rows, None
        case DiffCall():
            return _diff_body(view.diffs, limits)
        case GenericCall():
            return [*_generic_call_rows(view, limits)], None


def command_rows(command: str, limits: Limits) -> Iterator[Row]:
    """The lines of a command after its first, which is in the heading."""
    head, hidden, _ = clip(split_lines(command.strip("\r\n"))[1:], COMMAND_LINES)
    for line in head:
        yield verbatim(plain(cut(line, limits.line_length)), "bold", Text("> ", "dim"))
    yield from hidden_lines(hidden)


def _generic_call_rows(view: GenericCall, limits: Limits) -> Iterator[Row]:
    if view.content is not None:
        yield from content_rows(view.content, limits)
    elif isinstance(view.raw_input, str):
        head, hidden, _ = clip(split_lines(view.raw_input), limits.lines)
        yield from (verbatim(plain(cut(line, limits.line_length))) for line in head)
        yield from hidden_lines(hidden)
    else:
        yield from argument_rows(view.raw_input, limits)
    for location in view.locations or ():
        if (place := _place(location)) not in view.title:
            yield verbatim(one_line(place), PATH)


def _place(location: Location) -> str:
    return location.path if location.line is None else f"{location.path}:{location.line}"


def result_body(
    view: TerminalResult | DiffResult | SearchMatches | SearchPaths | ReadResult | WebSearch | WebFetch,
    content: Sequence[ContentBlock],
    limits: Limits,
) -> Body:
    """What the card of a result shows below its heading."""
    match view:
        case TerminalResult():
            return [*_output_rows(view.output, limits)], _ending(view)
        case DiffResult():
            return _diff_body(view.diffs, limits)
        case SearchMatches():
            return _matches_body(view, limits)
        case SearchPaths():
            head, hidden, _ = clip(view.paths, limits.lines)
            rows = [verbatim(one_line(path)) for path in head]
            return [*rows, *hidden_lines(hidden)], _count(len(view.paths), view.total, view.truncated, "path")
        case ReadResult():
            return _read_body(view, content, limits)
        case WebSearch():
            return _web_search_body(view, limits)
        case WebFetch():
            style = "green" if view.status_code < 400 else "red"
            closing = Text(f"status {view.status_code}{_cut_short(view.truncated)}", style)
            return [verbatim(one_line(cut(view.url, limits.line_length)), ADDRESS)], closing


def _output_rows(output: str | None, limits: Limits) -> Iterator[Row]:
    if output is None:
        return
    lines = split_lines(output)
    if not lines:
        yield verbatim("(no output)", "dim italic")
        return
    tail = max(limits.lines - HEAD_OF_OUTPUT, 0)
    head, hidden, rest = clip(lines, limits.lines, tail=tail)
    reader = CommandOutput()
    yield from (_output_row(reader, line, limits) for line in head)
    yield from hidden_lines(hidden)
    yield from (_output_row(reader, line, limits) for line in rest)


def _output_row(reader: CommandOutput, line: str, limits: Limits) -> Row:
    # Escape sequences take room in the text, not on the screen: cut far away first, then exactly.
    far = limits.line_length * 10
    text = reader.line(line[:far])
    left_out = max(len(line) - far, 0) + max(len(text) - limits.line_length, 0)
    if left_out:
        text = text[: limits.line_length]
        text.append(f"… {left_out:,} more characters", "dim italic")
    return Row(text)


def _ending(view: TerminalResult) -> Text | None:
    if view.signal is not None:
        return Text(f"killed by {one_line(view.signal)}", "red")
    if view.exit_code is not None:
        return Text(f"exit code {view.exit_code}", "green" if view.exit_code == 0 else "red")
    return None


def _diff_body(diffs: Iterable[FileDiff], limits: Limits) -> Body:
    files = [*changes_by_file(diffs)]
    lines = [line for _, lines in files for line in lines]
    added, removed = (sum(line.sign == sign for line in lines) for sign in "+-")
    rows = bounded(_diff_rows(files, limits), len(files) + len(lines), limits.lines)
    return rows, Text(f"+{added:,} -{removed:,}", "dim")


def _diff_rows(files: Iterable[tuple[str, list[ChangedLine]]], limits: Limits) -> Iterator[Row]:
    for path, lines in files:
        yield verbatim(one_line(path), PATH)
        for line in lines:
            sign, style = _SIGNS[line.sign]
            yield verbatim(plain(cut(line.text, limits.line_length)), style, Text(sign, style))


def _matches_body(view: SearchMatches, limits: Limits) -> Body:
    numbers = [match.line_number for file in view.files for match in file.matches]
    width = len(str(max(numbers, default=0)))
    rows = bounded(_match_rows(view, width, limits), len(view.files) + len(numbers), limits.lines)
    closing = _count(len(numbers), view.total, view.truncated, "match", "matches")
    if view.files:
        closing.append(f" in {_amount(len(view.files), 'file')}")
    return rows, closing


def _match_rows(view: SearchMatches, width: int, limits: Limits) -> Iterator[Row]:
    for file in view.files:
        yield verbatim(one_line(file.path), PATH)
        for match in file.matches:
            text = one_line(cut(match.line, limits.line_length))
            yield verbatim(text, prefix=Text(f"{match.line_number:>{width}}  ", NUMBER))


def _read_body(view: ReadResult, content: Sequence[ContentBlock], limits: Limits) -> Body:
    if not view.lines:
        shown = view.content if view.content is not None else content
        closing = Text(f"no lines from {view.offset} on; {_amount(view.total_lines, 'line')} in all", "dim")
        return [*content_rows(shown, limits)], closing
    head, hidden, _ = clip(view.lines, limits.lines)
    width = len(str(max(line.number for line in head)))
    code = highlighted((plain(cut(line.text.rstrip("\r\n"), limits.line_length)) for line in head), view.lang)
    rows = [Row(text, Text(f"{line.number:>{width}}  ", NUMBER)) for line, text in zip(head, code, strict=True)]
    first, last = view.lines[0].number, view.lines[-1].number
    closing = Text(f"lines {first}–{last} of {view.total_lines:,}", "dim")
    return [*rows, *hidden_lines(hidden)], closing


def _web_search_body(view: WebSearch, limits: Limits) -> Body:
    rows = [*text_rows(view.answer, limits)] if view.answer else []
    width = len(str(len(view.sources)))
    head, hidden, _ = clip(view.sources, limits.lines)
    for number, source in enumerate(head, 1):
        prefix, indent = Text(f"{number:>{width}}  ", NUMBER), Text(" " * (width + 2))
        if source.title:
            rows.append(Row(Text(one_line(cut(source.title, limits.line_length)), "bold"), prefix, words=True))
            prefix = indent
        rows.append(verbatim(one_line(cut(source.url, limits.line_length)), ADDRESS, prefix))
        if source.published_at:
            rows.append(verbatim(one_line(cut(source.published_at, limits.line_length)), "dim", indent))
        if source.snippet:
            rows.append(Row(Text(one_line(cut(source.snippet, limits.line_length))), indent, words=True))
    closing = Text(_amount(len(view.sources), "source") + _cut_short(view.truncated), "dim")
    return [*rows, *hidden_lines(hidden)], closing


def _count(shown: int, total: int, truncated: bool, one: str, many: str | None = None) -> Text:
    if shown < total:
        return Text(f"first {shown:,} of {_amount(total, one, many)}", "yellow")
    return Text(_amount(total, one, many) + _cut_short(truncated), "dim")


def _amount(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _cut_short(truncated: bool) -> str:
    return ", cut short" if truncated else ""
