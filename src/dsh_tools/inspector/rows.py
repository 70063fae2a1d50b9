"""Events as the page gets them: JSON rows with cards, cut to a size that a browser can carry.

Nothing here makes HTML. What a tool wrote stays text, and the page shows it as text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec import UNSET

from ..content import as_content
from ..errors import HarnessError
from ..json_value import parse_json
from ..session import TOOL_RECORD, Event
from ..tools import PresentedResult, ToolDefinition, view_of_call, view_of_result
from ..tools.cards import view_to_json
from .stages import STAGES

__all__ = ["FindTool", "Projector", "clip", "raw_text"]

FindTool = Callable[[str], ToolDefinition | None]
"""Finds the definition whose presenters make the cards of a call, by name."""

MAX_TEXT = 200_000
"""Characters of one text that are sent; the rest is there on request."""
MAX_ITEMS = 3_000
MAX_DEPTH = 60
MAX_IMAGE = 8_000_000
"""Characters of base64 that are sent of one image."""

_SHOWN = frozenset(
    {
        "turn/start",
        "turn/end",
        "step/start",
        "step/end",
        "user/message",
        "assistant/message",
        "model/retry",
        "tool/call",
        "tool/result",
        "tool/code-dispatch-start",
        "tool/code-dispatch",
        "approval/asked",
        "approval/decided",
        "approval/policy",
        "session/end-seed",
        STAGES,
        TOOL_RECORD,
    }
)


class Projector:
    """Turns the events of one session into rows, in order; cards of results need the calls before them.

    Parameters:
        find: finds tools; one that is gone gets the generic card.
    """

    def __init__(self, find: FindTool) -> None:
        self._find = find
        self._calls: dict[int, tuple[str, Any]] = {}

    def row(self, event: Event) -> dict[str, Any] | None:
        """Return the event's row, or None for an event that the page does not show."""
        if event.type not in _SHOWN:
            return None
        data: Any = event.data
        row: dict[str, Any] = {"seq": event.seq, "time": event.time, "type": event.type}
        if event.type == "tool/call":
            self._call(row, event, data)
        elif event.type == "tool/result":
            if event.surface_op != "append" or not event.source_event_seqs:
                return None
            row["call"] = event.source_event_seqs[0]
            self._result(row, data, self._calls.pop(event.source_event_seqs[0], None))
        elif event.type == "tool/code-dispatch-start":
            row["arguments"] = data["arguments"]
            self._view(row, view_of_call(self._find(data["name"]), data["arguments"]))
        elif event.type == "tool/code-dispatch":
            presented = PresentedResult(as_content(data["content"]) or (), data["isError"])
            self._view(row, view_of_result(self._find(data["name"]), data["arguments"], presented))
            data = {key: value for key, value in data.items() if key != "arguments"}
        elif event.type == TOOL_RECORD:
            # The arguments stand with the call.
            data = {key: value for key, value in data.items() if key not in ("proposed", "arguments")}
        elif event.type == "assistant/message":
            data = _without_arguments(data)
        row["data"] = data
        clipped, was_cut = clip(row)
        if was_cut:
            clipped["clipped"] = True
        return clipped

    def _call(self, row: dict[str, Any], event: Event, data: Any) -> None:
        name: str = data["name"]
        try:
            arguments = parse_json(data["arguments"])
        except HarnessError:
            return
        self._calls[event.seq] = (name, arguments)
        row["arguments"] = arguments
        self._view(row, view_of_call(self._find(name), arguments))

    def _result(self, row: dict[str, Any], data: Any, called: tuple[str, Any] | None) -> None:
        if called is None:
            return
        block = data["message"]["content"][0]
        content = as_content(block["content"]) or ()
        presented = PresentedResult(content, block["isError"], data.get("meta"))
        self._view(row, view_of_result(self._find(called[0]), called[1], presented))

    def _view(self, row: dict[str, Any], view: Any) -> None:
        if view is not None:
            row["view"] = view_to_json(view)


def clip(value: Any) -> tuple[Any, bool]:
    """Return a copy in which long texts and lists are cut, and whether anything was."""
    state = _Clip()
    return state.copy(value, 0), state.was_cut


class _Clip:
    def __init__(self) -> None:
        self.was_cut = False

    def copy(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._cut(value)
        if not isinstance(value, (dict, list, tuple)):
            return value
        if depth >= MAX_DEPTH:
            self.was_cut = True
            return "… (nested deeper)"
        if isinstance(value, dict):
            return self._record(cast("dict[str, Any]", value), depth)
        items = cast("list[Any]", value)
        if len(items) > MAX_ITEMS:
            self.was_cut = True
        return [self.copy(item, depth + 1) for item in items[:MAX_ITEMS]]

    def _record(self, value: dict[str, Any], depth: int) -> Any:
        if value.get("type") == "image" and isinstance(value.get("data"), str):
            if len(value["data"]) <= MAX_IMAGE:
                return value
            self.was_cut = True
            return {"type": "text", "text": "(an image too large to show)"}
        if len(value) > MAX_ITEMS:
            self.was_cut = True
        return {key[:MAX_TEXT]: self.copy(item, depth + 1) for key, item in list(value.items())[:MAX_ITEMS]}

    def _cut(self, text: str) -> str:
        if len(text) <= MAX_TEXT:
            return text
        self.was_cut = True
        return text[:MAX_TEXT]


def raw_text(event: Event) -> str:
    """Return the whole text of an event, for a download: of a result its content, of a call its arguments."""
    data: Any = event.data
    if event.type == "tool/call":
        return data["arguments"]
    if event.type == "tool/result":
        content: Any = data["message"]["content"][0]["content"]
    else:
        content = data.get("content", ()) if event.type == "tool/code-dispatch" else ()
    parts = [block.get("text", f"[{block.get('type')} content]") for block in content]
    return "\n".join(parts)


def _without_arguments(data: Any) -> Any:
    """An answer's calls have rows of their own; here only their names are of interest."""
    message: Any = data["message"]
    content = [
        {key: block[key] for key in ("type", "id", "name")} if block["type"] == "tool-call" else block
        for block in message["content"]
    ]
    usage = data.get("usage", UNSET)
    short: dict[str, Any] = {"turn": data["turn"], "step": data["step"], "message": {**message, "content": content}}
    if usage is not UNSET:
        short["usage"] = usage
    return short
