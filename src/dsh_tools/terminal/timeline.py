"""When each call of a session ran, as a picture of bars."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from ..session import ReplayedCall
from .neutral import one_line

__all__ = ["render_timeline"]

_BAR_CELLS = 24


def render_timeline(calls: Sequence[ReplayedCall]) -> Table:
    """Return a table of calls with a bar for the time from each call's start to its result.

    Bars that stand above each other overlapped. Times are in milliseconds, from the first start.
    """
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("call")
    table.add_column("tool")
    table.add_column("from", justify="right")
    table.add_column("took", justify="right")
    table.add_column("when", no_wrap=True, width=_BAR_CELLS)
    table.add_column("outcome", no_wrap=True)
    begin = min((call.started_at for call in calls), default=0)
    end = max((call.finished_at for call in calls), default=0)
    for call in calls:
        outcome = Text("ok", "green")
        if call.is_error:
            outcome = Text("failed" if call.error is None else call.error.code, "red")
        table.add_row(
            Text(one_line(call.call_id)),
            Text(one_line(call.name)),
            f"{call.started_at - begin} ms",
            f"{call.finished_at - call.started_at} ms",
            _bar(call, begin, max(end - begin, 1)),
            outcome,
        )
    return table


def _bar(call: ReplayedCall, begin: int, span: int) -> Text:
    first = (call.started_at - begin) * (_BAR_CELLS - 1) // span
    last = (call.finished_at - begin) * (_BAR_CELLS - 1) // span
    return Text(" " * first + "█" * (last - first + 1), "red" if call.is_error else "green")
