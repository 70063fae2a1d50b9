"""Reading records of calls back from a log, and making up for those that were never written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET

from ..errors import HarnessError
from ..json_value import parse_json, to_json_text
from ..tools.result import ErrorInfo
from .call_records import (
    TOOL_RECORD,
    CallEnding,
    CallRecord,
    CallRecordEvent,
    GivenApproval,
    Measured,
    ReturnedValue,
)
from .events import Event

__all__ = ["ENDINGS", "call_records"]

ENDINGS: dict[str, CallEnding] = {
    "INVALID_ARGS": "invalid",
    "UNKNOWN_TOOL": "invalid",
    "ABORTED_BEFORE_DISPATCH": "not-started",
    "TOOL_NOT_STARTED": "not-started",
    "ABORTED": "aborted",
    "TOOL_TIMEOUT": "timed-out",
    "TOOL_OUTCOME_UNKNOWN": "unknown",
}
"""What an error's code says of how the call ended."""


def call_records(events: Iterable[Event]) -> list[CallRecord]:
    """Read the records of a log, in the order in which the calls settled. Nothing is run.

    A call that has a result and no record gets one that tells what the other events tell; its ``seq`` is None.
    A record that a newer version wrote and this one cannot read counts as none.
    """
    reader = _Reader()
    for event in events:
        reader.read(event)
    return reader.records()


class _Reader:
    def __init__(self) -> None:
        self._calls: dict[int, Event] = {}
        self._results: dict[int, Event] = {}
        self._dispatches: dict[str, int] = {}
        # Calls of the last answer by their id, and results of such that never came to an event of their own.
        self._wanted: dict[str, Event] = {}
        self._unstarted: list[tuple[Event, Event]] = []
        self._approvals: dict[str, list[_Question]] = {}
        self._asked: dict[str, _Question] = {}
        self._found: list[CallRecord] = []

    def read(self, event: Event) -> None:
        """Take one event in."""
        data: Any = event.data
        if event.type == "tool/call":
            self._calls[event.seq] = event
        elif event.type == "tool/code-dispatch-start":
            self._calls[event.seq] = event
            self._dispatches[data["subCallId"]] = event.seq
        elif event.type == "tool/code-dispatch":
            self._results.setdefault(self._dispatches.get(data["subCallId"], -1), event)
        elif event.type == "assistant/message":
            self._wanted = {call.data["callId"]: call for call in _wanted(event)}
        elif event.type == "tool/result" and event.source_event_seqs:
            self._results.setdefault(event.source_event_seqs[0], event)
        elif event.type == "tool/result" and data["message"]["source"]["callId"] in self._wanted:
            self._unstarted.append((self._wanted[data["message"]["source"]["callId"]], event))
        elif event.type == TOOL_RECORD:
            self._record(event)
        elif event.type == "approval/asked" and "callId" in data:
            question = self._asked[data["id"]] = _Question(event)
            self._approvals.setdefault(data["callId"], []).append(question)
        elif event.type == "approval/decided" and data["id"] in self._asked:
            self._asked.pop(data["id"]).decided = event

    def records(self) -> list[CallRecord]:
        """Return all records, those of calls without one among them."""
        found: list[tuple[int, CallRecord]] = []
        recorded: set[int | None] = set()
        for record in self._found:
            recorded.add(record.call_seq)
            result = None if record.call_seq is None else self._results.get(record.call_seq)
            if result is not None:
                record = msgspec.structs.replace(record, result_seq=result.seq)
            found.append((record.seq or 0, record))
        for seq, call in self._calls.items():
            if seq not in recorded and seq in self._results:
                result = self._results[seq]
                found.append((result.seq, self._unrecorded(call, result)))
        for call, result in self._unstarted:
            record = msgspec.structs.replace(self._unrecorded(call, result), call_seq=None)
            found.append((result.seq, record))
        return [record for _, record in sorted(found, key=lambda one: one[0])]

    def _record(self, event: Event) -> None:
        try:
            data = msgspec.convert(event.data, CallRecordEvent)
        except msgspec.ValidationError:
            return
        # A resumed call of a program has its start in an earlier turn.
        call = self._calls.get(self._dispatches.get(data.call_id, -1) if data.call is UNSET else data.call)
        proposed: Any = data.proposed
        if proposed is UNSET and call is not None:
            proposed = call.data["arguments"]
        self._found.append(
            CallRecord(
                data.call_id,
                data.root_call_id,
                data.name,
                proposed,
                _arguments(data, proposed),
                None if data.arguments_digest is UNSET else data.arguments_digest,
                None if data.policy_digest is UNSET else data.policy_digest,
                data.consulted,
                data.approvals,
                None if data.ran is UNSET else data.ran,
                data.result,
                data.shown_digest,
                data.ending,
                None if data.stopped is UNSET else data.stopped,
                data.measured,
                event.seq,
                None if call is None else call.seq,
            )
        )

    def _unrecorded(self, call: Event, result: Event) -> CallRecord:
        """What the events of a call tell, where nobody wrote its record."""
        data: Any = call.data
        call_id: str = data["callId"] if call.type == "tool/call" else data["subCallId"]
        shown: Any = result.data if result.type != "tool/result" else result.data["message"]["content"][0]
        code = result.data.get("error")
        error = UNSET if code is None else ErrorInfo(code["name"], code["code"])
        is_error: bool = shown["isError"]
        questions = [one for one in self._approvals.get(call_id, ()) if call.seq < one.asked.seq < result.seq]
        policy: Any = questions[-1].asked.data.get("policyDigest") if questions else None
        return CallRecord(
            call_id,
            data.get("rootCallId", call_id),
            data["name"],
            data["arguments"],
            UNSET,
            None,
            policy,
            (),
            tuple(one.approval() for one in questions if one.decided is not None),
            None,
            ReturnedValue(is_error, error=error),
            hashlib.sha256(to_json_text(shown["content"]).encode("utf-8", "surrogatepass")).hexdigest(),
            ENDINGS.get("" if error is UNSET else error.code, "failed") if is_error else "completed",
            None,
            Measured(
                call.time, result.time, questions=tuple(one.times() for one in questions if one.decided is not None)
            ),
            None,
            call.seq,
            result.seq,
        )


class _Question:
    """A question about a call, and its answer."""

    def __init__(self, asked: Event) -> None:
        self.asked = asked
        self.decided: Event | None = None

    def approval(self) -> GivenApproval:
        assert self.decided is not None
        asked: Any = self.asked.data
        decided: Any = self.decided.data
        return GivenApproval(
            decided["outcome"],
            decided.get("by", UNSET),
            decided.get("reason", UNSET),
            asked.get("argumentsDigest", UNSET),
            asked.get("policyDigest", UNSET),
            asked.get("purpose", UNSET),
        )

    def times(self) -> tuple[str, float, float]:
        assert self.decided is not None
        return self.asked.data["id"], float(self.asked.time), float(self.decided.time)


def _wanted(answer: Event) -> list[Event]:
    """The calls that a model's answer asks for, as the events that they would have been."""
    content: Any = answer.data["message"]["content"]
    return [
        Event(
            answer.seq,
            answer.time,
            "tool/call",
            {"callId": block["id"], "name": block["name"], "arguments": block["arguments"]},
        )
        for block in content
        if block["type"] == "tool-call"
    ]


def _arguments(data: CallRecordEvent, proposed: Any) -> Any:
    """The arguments that ran: written out, or else what the pipeline makes of what was proposed."""
    if data.arguments is not UNSET or data.arguments_digest is UNSET:
        return data.arguments
    try:
        value = parse_json(proposed) if isinstance(proposed, str) else proposed
    except HarnessError:
        return UNSET
    return {} if value is None else value
