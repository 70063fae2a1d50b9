"""The open end of a log: which turn and step are open, and which calls have no result yet.

Pending calls come from the assistant message, and each block of it is one of its own, so that calls
that share an id all get their result. Those of a turn that ended as waiting stay pending over its end,
until the next turn's first step has answered them (D34).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from ..messages import ToolCallBlock
from .events import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantMessageRecord,
    CodeDispatch,
    CodeDispatchStart,
    Event,
    StepEnd,
    StepStart,
    ToolCallRecord,
    ToolResultRecord,
    TurnEnd,
    TurnStart,
    Waiting,
)
from .vocabulary import EventVocabulary

__all__ = ["OpenCall", "OpenDispatch", "OpenEnd"]


class OpenCall(msgspec.Struct):
    """A call block of an assistant message that has no result yet.

    Parameters:
        block: the call as the model wrote it.
        call_seq: the place of its ``tool/call`` event; None where it was never begun.
        question: the id of a question about the call itself that nobody has answered.
        held_over: the question that was open when its turn was left waiting, answered since or not: the body had
            not begun by then.
    """

    block: ToolCallBlock
    call_seq: int | None = None
    question: str | None = None
    held_over: str | None = None


class OpenDispatch(msgspec.Struct):
    """A call of a program that has started and not settled."""

    event: Event

    @property
    def start(self) -> CodeDispatchStart:
        """The typed reading of its event."""
        return msgspec.convert(self.event.data, CodeDispatchStart)


class OpenEnd:
    """The fold; :meth:`take` follows one event, the attributes say where the log stands."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.turn = 0
        self.turn_open = False
        self.step = 0
        self.step_open = False
        self.waiting = False
        # The process of the turn that waits died; not everything that it had begun is in the journal.
        self.interrupted = False
        self.calls: list[OpenCall] = []
        self.dispatches: list[OpenDispatch] = []
        self._carried = False
        # How many of the calls belong to a step that is over; its turn's end says whether they stay.
        self._over = 0
        self._vocabulary = EventVocabulary()
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Follow one event."""
        if event.type not in _FOLLOWED:
            return
        # The most frequent types are read as they are: a program makes many calls.
        if event.type == CodeDispatchStart.event_type:
            self.dispatches.append(OpenDispatch(event))
            return
        if event.type == CodeDispatch.event_type:
            self._mark_dispatched(event.data["subCallId"])
            return
        record = self._vocabulary.read(event.type, event.data, ignorable=True)
        if isinstance(record, AssistantMessageRecord):
            self._forget_over()
            self.calls += [OpenCall(block) for block in record.message.tool_calls]
        elif isinstance(record, ToolCallRecord):
            self._mark_called(record.call_id, event.seq)
        elif isinstance(record, ToolResultRecord):
            if event.surface_op == "append":
                self._mark_settled(record.message.source.call_id, event.source_event_seqs)
        elif isinstance(record, ApprovalAsked):
            self._mark_asked(record)
        elif isinstance(record, ApprovalDecided):
            self._mark_decided(record.id)
        else:
            self._take_boundary(record)

    def _take_boundary(self, record: msgspec.Struct | None) -> None:
        if isinstance(record, TurnStart):
            self.turn, self.turn_open, self.step = record.turn, True, 0
            self._carried, self.waiting = self.waiting, False
            if not self._carried:
                self._forget()
        elif isinstance(record, TurnEnd):
            self.turn_open = self.step_open = False
            self.waiting = isinstance(record.reason, Waiting)
            self.interrupted = isinstance(record.reason, Waiting) and record.reason.interrupted is True
            self._over = 0
            if not self.waiting:
                self._forget()
            for call in self.calls:
                call.held_over = call.question or call.held_over
        elif isinstance(record, StepStart):
            self.step, self.step_open = record.step, True
            self._forget_over()
        elif isinstance(record, StepEnd):
            self.step_open = self._carried = False
            self._over = len(self.calls)

    @property
    def unanswered(self) -> list[OpenCall]:
        """The calls that still need a result; none that an ended step has left behind."""
        return self.calls[self._over :]

    def _forget_over(self) -> None:
        del self.calls[: self._over]
        self._over = 0

    def _forget(self) -> None:
        self.calls.clear()
        self.dispatches.clear()
        self._over = 0

    def _mark_called(self, call_id: str, seq: int) -> None:
        for call in self.calls:
            if call.block.id == call_id and call.call_seq is None:
                call.call_seq = seq
                return

    def _mark_settled(self, call_id: str | None, sources: tuple[int, ...] | UnsetType) -> None:
        cited = () if sources is UNSET else sources
        for call in self.calls:
            if call.block.id == call_id and (call.call_seq in cited or (not cited and call.call_seq is None)):
                self.calls.remove(call)
                return

    def _mark_dispatched(self, sub_call_id: str) -> None:
        for open_dispatch in self.dispatches:
            if open_dispatch.event.data["subCallId"] == sub_call_id:
                self.dispatches.remove(open_dispatch)
                return

    def _mark_asked(self, asked: ApprovalAsked) -> None:
        if asked.purpose is not UNSET:
            return
        for call in self.calls:
            if call.call_seq is not None and call.block.id == asked.call_id and call.block.name == asked.tool_name:
                call.question = asked.id

    def _mark_decided(self, question: str) -> None:
        for call in self.calls:
            if call.question == question:
                call.question = None


_FOLLOWED = frozenset(
    {
        "assistant/message",
        "tool/call",
        "tool/result",
        "tool/code-dispatch-start",
        "tool/code-dispatch",
        "approval/asked",
        "approval/decided",
        "turn/start",
        "turn/end",
        "step/start",
        "step/end",
    }
)
