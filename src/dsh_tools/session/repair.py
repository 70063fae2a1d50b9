"""What a log needs after a crash: a result for every call, and an end for what was open (HOST-128 to 130)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from ..content import TextBlock
from ..errors import SessionError
from ..messages import tool_result_message
from ..tools.result import ErrorInfo
from .events import (
    AssistantMessageRecord,
    CodeDispatch,
    CodeDispatchStart,
    Event,
    Interrupted,
    StepEnd,
    StepStart,
    ToolCallRecord,
    ToolResultRecord,
    TurnEnd,
    TurnStart,
)
from .log import EventLog
from .protocol import EventDraft
from .surface import TOOL_NOT_STARTED
from .vocabulary import EventVocabulary

__all__ = ["TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN", "repair_drafts", "repair_log"]

TOOL_OUTCOME_UNKNOWN = "TOOL_OUTCOME_UNKNOWN"
"""The code of the synthetic result of a call that was logged: it may have run, in part or whole."""

_NOT_STARTED_TEXT = (
    "Error: the session was interrupted before this tool call started; it is safe to call the tool again"
)
_UNKNOWN_TEXT = (
    "Error: the session was interrupted while this tool call ran; its outcome is unknown, "
    "so check what it did before calling the tool again"
)


def repair_log(log: EventLog) -> list[Event]:
    """Append what a crash left out of the log, and return it; nothing where the log is balanced.

    Raises:
        SessionError: ``SESSION_BUSY``: a live agent owns the log, and will write its results itself (HOST-129).
    """
    if log.owner is not None:
        raise SessionError(f'session "{log.id}" has a live agent', "SESSION_BUSY")
    return [log.append_draft(draft) for draft in repair_drafts(log.events)]


def repair_drafts(events: Sequence[Event]) -> list[EventDraft]:
    """Return the events that close the open tail turn of a log; ``[]`` where no turn is open.

    Depends on nothing but the events: times are the last event's, ids come from the call id and
    the event's place (HOST-129).
    """
    tail = _Tail()
    for event in events:
        tail.take(event)
    if not tail.turn_open:
        return []
    return tail.close(len(events), events[-1].time)


class _Call(msgspec.Struct):
    """A call block of an assistant message that has no result yet."""

    call_id: str
    call_seq: int | None = None


class _Tail:
    """The open end of a log, as a fold over its events.

    Pending calls come from the assistant message, and each block of it is one of its own, so that
    calls that share an id all get their result.
    """

    def __init__(self) -> None:
        self.turn = 0
        self.turn_open = False
        self.step = 0
        self.step_open = False
        self._calls: list[_Call] = []
        self._dispatches: list[CodeDispatchStart] = []
        self._vocabulary = EventVocabulary()

    def take(self, event: Event) -> None:
        """Follow one event."""
        if event.type not in _FOLLOWED:
            return
        record = self._vocabulary.read(event.type, event.data, ignorable=True)
        if isinstance(record, AssistantMessageRecord):
            self._calls += [_Call(block.id) for block in record.message.tool_calls]
        elif isinstance(record, ToolCallRecord):
            self._mark_called(record.call_id, event.seq)
        elif isinstance(record, ToolResultRecord):
            if event.surface_op == "append":
                self._mark_settled(record.message.source.call_id, event.source_event_seqs)
        elif isinstance(record, CodeDispatchStart):
            self._dispatches.append(record)
        elif isinstance(record, CodeDispatch):
            self._mark_dispatched(record.sub_call_id)
        else:
            self._take_boundary(record)

    def close(self, seq: int, time: int) -> list[EventDraft]:
        """Return the events that close what is open, from place ``seq`` on."""
        drafts: list[EventDraft] = [self._dispatch(start, time) for start in self._dispatches]
        for call in self._calls:
            drafts.append(self._result(call, seq + len(drafts), time))
        if self.step_open:
            drafts.append(EventDraft("step/end", StepEnd(self.turn, self.step), time=time))
        drafts.append(EventDraft("turn/end", TurnEnd(self.turn, Interrupted()), time=time))
        return drafts

    def _take_boundary(self, record: msgspec.Struct | None) -> None:
        if isinstance(record, TurnStart):
            self.turn, self.turn_open, self.step = record.turn, True, 0
        elif isinstance(record, TurnEnd):
            self.turn_open = self.step_open = False
        elif isinstance(record, StepStart):
            self.step, self.step_open = record.step, True
        elif isinstance(record, StepEnd):
            self.step_open = False
        if isinstance(record, (TurnStart, TurnEnd, StepEnd)):
            self._calls.clear()
        if isinstance(record, (TurnStart, TurnEnd)):
            self._dispatches.clear()

    def _mark_called(self, call_id: str, seq: int) -> None:
        for call in self._calls:
            if call.call_id == call_id and call.call_seq is None:
                call.call_seq = seq
                return

    def _mark_settled(self, call_id: str | None, sources: tuple[int, ...] | UnsetType) -> None:
        cited = () if sources is UNSET else sources
        for call in self._calls:
            if call.call_id == call_id and (call.call_seq in cited or (not cited and call.call_seq is None)):
                self._calls.remove(call)
                return

    def _mark_dispatched(self, sub_call_id: str) -> None:
        for start in self._dispatches:
            if start.sub_call_id == sub_call_id:
                self._dispatches.remove(start)
                return

    def _result(self, call: _Call, seq: int, time: int) -> EventDraft:
        started = call.call_seq is not None
        message = tool_result_message(
            call.call_id,
            (TextBlock(_UNKNOWN_TEXT if started else _NOT_STARTED_TEXT),),
            True,
            id=f"{call.call_id}:{seq}",
        )
        error = (
            ErrorInfo("ToolOutcomeUnknownError", TOOL_OUTCOME_UNKNOWN)
            if started
            else ErrorInfo("ToolNotStartedError", TOOL_NOT_STARTED)
        )
        return EventDraft(
            "tool/result",
            # A message outside of any step (foreign logs have them) counts as the first step's.
            ToolResultRecord(self.turn, max(self.step, 1), message, error),
            "append",
            None if call.call_seq is None else (call.call_seq,),
            time=time,
        )

    def _dispatch(self, start: CodeDispatchStart, time: int) -> EventDraft:
        settled = CodeDispatch(
            start.root_call_id,
            start.parent_call_id,
            start.sub_call_id,
            start.name,
            start.arguments,
            True,
            (TextBlock(_UNKNOWN_TEXT),),
        )
        return EventDraft("tool/code-dispatch", settled, time=time)


_FOLLOWED = frozenset(
    {
        "assistant/message",
        "tool/call",
        "tool/result",
        "tool/code-dispatch-start",
        "tool/code-dispatch",
        "turn/start",
        "turn/end",
        "step/start",
        "step/end",
    }
)
