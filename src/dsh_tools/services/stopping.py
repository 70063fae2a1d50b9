"""What a model reads of a call that was stopped: what it had put out, and how its body ended."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..content import TextBlock
from ..errors import AbortError
from ..tools.result import ToolFailure, ToolResult

if TYPE_CHECKING:
    from ..tools.execution import ToolExecution
    from ..tools.stopping import StopReport

__all__ = ["NEVER_STARTED", "SLOW_TO_STOP_SECONDS", "explain_abort", "output_lines", "stop_line"]

_log = logging.getLogger("dsh_tools")

SLOW_TO_STOP_SECONDS = 1.0
"""How long stopping may take before anybody is told how long it took."""

NEVER_STARTED = "[the tool was not started: its turn had not come yet]"

_ENDINGS = {
    "killed": ": it did not end by itself, and its process was killed",
    "returned": ": it ran to its end, and its late value was dropped",
}


def output_lines(execution: ToolExecution, heading: str) -> list[str]:
    """Return the text that the body had reported, under a heading; nothing if there is none."""
    output = execution.partial_output
    if output is None:
        return []
    text = output.text
    return [f"[{heading}; its beginning was cut off]" if output.was_cut else f"[{heading}]", text]


def stop_line(stop: StopReport | None, seconds: float, since: str) -> str:
    """Say that the tool has stopped and how; when, where that took long.

    Parameters:
        stop: how it stopped, if anybody knows.
        seconds: how long that took.
        since: since when: ``the limit``, say.
    """
    when = f", {seconds:.1f} s after {since}" if seconds > SLOW_TO_STOP_SECONDS else ""
    how = "" if stop is None else _ENDINGS.get(stop.ending, "")
    return f"[the tool has stopped{when}{how}]"


def explain_abort(execution: ToolExecution, result: ToolResult) -> ToolResult:
    """Return the result of a call whose caller gave up with what there is to say of it; any other as it is.

    A body that stopped at once, and had put nothing out, needs no further word: the contract's text stays alone
    (PIPE-225).
    """
    stop = execution.stop
    if stop is None or not isinstance(result, ToolFailure):
        return result
    info = result.error.info
    if not info or info.code != AbortError.default_code:
        return result
    seconds = stop.seconds or 0.0
    if seconds > SLOW_TO_STOP_SECONDS:
        _log.warning("%s stopped %.1f s after it was told to", execution.log_label, seconds)
    output = output_lines(execution, "output before the call was aborted")
    if not output and seconds <= SLOW_TO_STOP_SECONDS and stop.ending not in _ENDINGS:
        return result
    lines = [f"Error: {result.error.message}", *output, stop_line(stop, seconds, "it was told to")]
    content = (TextBlock("\n".join(lines)),)
    return ToolFailure(result.error, content, additional_contexts=result.additional_contexts)
