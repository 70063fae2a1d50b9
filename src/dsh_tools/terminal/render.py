"""From a call or a result to a card on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from ..content import ContentBlock
from ..tools.cards import CallView, GenericResult, ReadResult, ResultView, TerminalCall
from .blocks import argument_line, argument_rows, content_rows
from .bodies import Body, call_body, command_rows, result_body
from .layout import Card, Limits, Row, cut
from .neutral import one_line

__all__ = ["render_call", "render_result"]

PENDING = ("○ ", "cyan")
SUCCEEDED = ("✓ ", "green")
FAILED = ("✗ ", "red")
LONGEST_TITLE = 300


def render_call(view: CallView | None, *, name: str, arguments: Any, limits: Limits | None = None) -> Card:
    """Return the card of a call that has not settled, for a rich console to print.

    Parameters:
        view: the card; None shows the generic one: the tool's name and the raw arguments (PIPE-205).
        name: the tool's name.
        arguments: the arguments as a JSON value, or as the text a model wrote.
        limits: how much of the body is shown.
    """
    limits = limits or Limits()
    if view is None:
        return Card(_heading(PENDING, name, name), [*argument_rows(arguments, limits)])
    rows, closing = call_body(view, limits)
    return Card(_heading(PENDING, _call_title(view), name), rows, closing)


def render_result(
    view: ResultView | None,
    *,
    name: str,
    arguments: Any,
    content: Sequence[ContentBlock],
    is_error: bool,
    call: CallView | None = None,
    limits: Limits | None = None,
) -> Card:
    """Return the card of a settled call, for a rich console to print. It stands for the whole call.

    Parameters:
        view: the card; None shows the generic one: the tool's name and the raw content (PIPE-205).
        name: the tool's name.
        arguments: the arguments as a JSON value, or as the text a model wrote.
        content: what the model read of the result.
        is_error: whether the call failed.
        call: the pending card; its title stays unless the result has one of its own (PIPE-212).
        limits: how much of the body is shown.
    """
    limits = limits or Limits()
    mark = FAILED if is_error else SUCCEEDED
    rows, closing = _result_body(view, content, is_error, limits)
    title = _result_title(view, call)
    if title is None:
        rows = [*argument_line(arguments, limits), *rows]
    elif isinstance(call, TerminalCall) and title == _call_title(call):
        rows = [*command_rows(call.title, limits), *rows]
    return Card(_heading(mark, title or name, name), rows, closing, bar_style="red" if is_error else "dim")


def _result_body(view: ResultView | None, content: Sequence[ContentBlock], is_error: bool, limits: Limits) -> Body:
    if view is None or isinstance(view, GenericResult):
        shown = content if view is None or view.content is None else view.content
        return [*content_rows(shown, limits, "red" if is_error else "")], None
    return result_body(view, content, limits)


def _call_title(view: CallView) -> str:
    if isinstance(view, TerminalCall):
        return "$ " + view.title.strip("\r\n").split("\n")[0]
    return view.title


def _result_title(view: ResultView | None, call: CallView | None) -> str | None:
    if view is not None and view.title is not None:
        return view.title
    if call is not None:
        return _call_title(call)
    return view.path if isinstance(view, ReadResult) else None


def _heading(mark: tuple[str, str], title: str, name: str) -> Row:
    text = Text(one_line(cut(title, LONGEST_TITLE)), "bold")
    if title != name:
        text.append(f" · {one_line(cut(name, LONGEST_TITLE))}", "not bold dim")
    symbol, style = mark
    return Row(text, Text(symbol, style), words=True)
