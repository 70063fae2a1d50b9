"""Short ways to fill a session log in tests."""

from __future__ import annotations

from typing import Any

from dsh_tools.content import text
from dsh_tools.messages import (
    AssistantMessage,
    TextBlock,
    ToolCallBlock,
    tool_result_message,
    user_message,
)
from dsh_tools.session import Event, EventLog, SessionHeader
from dsh_tools.session.events import AssistantMessageRecord, ToolResultRecord


class Clock:
    """A clock that goes one millisecond further at each look."""

    def __init__(self, start: int = 1_000) -> None:
        self.now = start

    def __call__(self) -> int:
        self.now += 1
        return self.now


def new_log(session_id: str = "s1", **options: Any) -> EventLog:
    return EventLog(SessionHeader(id=session_id, created_at=1_000), clock=Clock(), **options)


def say(log: EventLog, words: str) -> Event:
    return log.append("user/message", user_message(words), "append")


def answer(log: EventLog, words: str = "", *calls: tuple[str, str, str]) -> Event:
    """Append an assistant message of a text and of calls ``(id, name, arguments)``."""
    blocks = ((TextBlock(words),) if words else ()) + tuple(ToolCallBlock(*call) for call in calls)
    record = AssistantMessageRecord(log.turn or 1, log.step or 1, AssistantMessage(blocks))
    return log.append("assistant/message", record, "append")


def call(log: EventLog, call_id: str, name: str = "t", arguments: str = "{}") -> Event:
    data = {"turn": log.turn or 1, "step": log.step or 1, "callId": call_id, "name": name, "arguments": arguments}
    return log.append("tool/call", data)


def settle(log: EventLog, call_event: Event, words: str = "done", **fields: Any) -> Event:
    message = tool_result_message(call_event.data["callId"], text(words), fields.pop("is_error", False))
    record = ToolResultRecord(log.turn or 1, log.step or 1, message, **fields)
    return log.append("tool/result", record, "append", (call_event.seq,))


def begin(log: EventLog, *, turn: bool = True) -> None:
    """Open the next turn (or stay in this one) and its next step."""
    if turn:
        log.append("turn/start", {"turn": log.last_turn + 1})
    log.append("step/start", {"turn": log.last_turn, "step": (log._state.step if log.turn else 0) + 1})


def end(log: EventLog, kind: str = "completed", **fields: Any) -> None:
    """Close the open step and turn."""
    if log.step:
        log.append("step/end", {"turn": log.turn, "step": log.step})
    log.append("turn/end", {"turn": log.turn, "reason": {"kind": kind, **fields}})


def unanswered(log: EventLog) -> list[str]:
    """Ids of calls in the history that have no result, one for each."""
    open_ids: list[str] = []
    for message in log.derive_messages():
        for block in message.content:
            if type(block) is ToolCallBlock:
                open_ids.append(block.id)
            elif block.__struct_config__.tag == "tool-result":
                open_ids.remove(block.tool_call_id)
    return open_ids
