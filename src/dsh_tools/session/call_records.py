"""One record for each call: what was proposed, who was asked, what ran, what came back, how it stopped.

Records are events of the type ``tool/record``, written when a call settles, and read back by :func:`call_records`.
What the log has in another event already is not written again: a record cites the call's own event for the arguments
as they were proposed, and holds digests of what came back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from ..errors import HarnessError, SessionError
from ..json_value import parse_json
from ..tools.result import ErrorInfo
from ..tools.trace import Consulted
from .events import Event, Name, Record, Seq

__all__ = [
    "TOOL_RECORD",
    "CallEnding",
    "CallRecord",
    "CallRecordEvent",
    "GivenApproval",
    "HowStopped",
    "Measured",
    "ReturnedValue",
    "WhatRan",
    "call_records",
]

TOOL_RECORD = "tool/record"
"""The event type."""

CallEnding: TypeAlias = Literal[
    "completed",
    "failed",
    "invalid",
    "denied",
    "blocked",
    "not-started",
    "aborted",
    "timed-out",
]
"""How a call ended. ``invalid``: it could not run as it was made. ``denied``: policy, a guard or a person refused
it, or one of them failed. ``blocked``: its result was withheld. ``not-started`` and ``aborted``: it was given up
before, or while, its body ran. ``failed`` is every other failure."""


class GivenApproval(msgspec.Struct, frozen=True, rename="camel"):
    """A question about a call, and its answer.

    Parameters:
        outcome: how it ended.
        by: who answered; absent where nobody did.
        reason: what they said.
        arguments_digest: the arguments that the answer is bound to.
        policy_digest: the rules that it is bound to; absent where none are declared.
    """

    outcome: str
    by: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    arguments_digest: str | UnsetType = UNSET
    policy_digest: str | UnsetType = UNSET


class WhatRan(msgspec.Struct, frozen=True, rename="camel"):
    """The tool whose body was called.

    Parameters:
        tool: its name.
        owner: the plugin that registered it.
        schema_digest: the digest of what it takes and gives: ``{parameters, output}``.
        isolation: where the body ran.
        attempts: how often it was called; wrappers may try again.
    """

    tool: str
    owner: str | UnsetType
    schema_digest: str
    isolation: str
    attempts: int


class HowStopped(msgspec.Struct, frozen=True, rename="camel"):
    """How a body stopped that was told to.

    Parameters:
        cause: who told it: ``limit``, ``caller`` or ``cancelled``.
        ending: how it ended: ``cancelled``, ``raised``, ``returned`` or ``killed``.
    """

    cause: str
    ending: str


class ReturnedValue(msgspec.Struct, frozen=True, rename="camel"):
    """What came back.

    Parameters:
        is_error: whether the call failed.
        digest: of a success, SHA-256 of the canonical value's JSON text, as ``to_json_text`` writes it; of a
            failure, of its message. Neither is kept itself (HOST-121).
        error: the error's name and code; absent where it carries none.
    """

    is_error: bool
    digest: str
    error: ErrorInfo | UnsetType = UNSET


class Measured(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What differs from one run to the next: times in milliseconds since the epoch, durations, drawn ids.

    Parameters:
        began: when the call came in.
        ended: when it settled.
        consulted_ms: the duration of each one in ``consulted``, in milliseconds, without those it handed on to.
        questions: for each approval the question's id, and when it was asked and answered.
        stop_seconds: how long a body took to stop that was told to; None where nobody knows.
    """

    began: float
    ended: float
    consulted_ms: tuple[float, ...] = ()
    questions: tuple[tuple[str, float, float], ...] = ()
    stop_seconds: float | None = None


class CallRecordEvent(Record, frozen=True, omit_defaults=True):
    """The data of ``tool/record``; :class:`CallRecord` says what the fields mean.

    ``call`` is the place of the call's own event. ``proposed`` and ``arguments`` are absent where they
    follow from that event.
    """

    event_type: ClassVar[str] = TOOL_RECORD
    call_id: Name
    root_call_id: Name
    name: str
    ending: CallEnding
    result: ReturnedValue
    shown_digest: str
    measured: Measured
    call: Seq | UnsetType = UNSET
    proposed: Any = UNSET
    arguments: Any = UNSET
    arguments_digest: str | UnsetType = UNSET
    policy_digest: str | UnsetType = UNSET
    consulted: tuple[Consulted, ...] = ()
    approvals: tuple[GivenApproval, ...] = ()
    ran: WhatRan | UnsetType = UNSET
    stopped: HowStopped | UnsetType = UNSET


class CallRecord(msgspec.Struct, frozen=True, eq=False):
    """One call, as its record tells it.

    Records are equal if they tell the same of a call: ``measured``, and the places of the events, don't count.

    Parameters:
        call_id: the model's id, or the id of a call that a program or another tool made.
        root_call_id: the outermost call it belongs to.
        name: the tool's name as it was called.
        proposed: the arguments as they were made: a model's text, byte for byte, or a program's value.
        arguments: the frozen arguments that policy saw and the body got; UNSET where they could not be made.
        arguments_digest: their digest, which approvals are bound to.
        policy_digest: the digest of the rules in force; None where nobody declared any.
        consulted: every listener, rule, guard, wrapper and reviewer that was asked, in order, with its verdict.
        approvals: who was asked about the call, and what they answered.
        ran: the tool whose body was called; None where none was.
        result: what came back.
        shown_digest: SHA-256 of the content that the model read, as JSON text.
        ending: how the call ended.
        stopped: how its body stopped; None for one that was never told to.
        measured: times, durations and ids that differ from run to run.
        seq: the place of the record in its log.
        call_seq: the place of the call's own event; None for calls that the log does not know.
        result_seq: the place of the event with its result; None where there is none yet.
    """

    call_id: str
    root_call_id: str
    name: str
    proposed: Any
    arguments: Any
    arguments_digest: str | None
    policy_digest: str | None
    consulted: tuple[Consulted, ...]
    approvals: tuple[GivenApproval, ...]
    ran: WhatRan | None
    result: ReturnedValue
    shown_digest: str
    ending: CallEnding
    stopped: HowStopped | None
    measured: Measured
    seq: int
    call_seq: int | None = None
    result_seq: int | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CallRecord):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in _COMPARED)

    __hash__ = None  # pyright: ignore[reportAssignmentType]


_COMPARED = tuple(
    field for field in CallRecord.__struct_fields__ if field not in ("measured", "seq", "call_seq", "result_seq")
)


def call_records(events: Iterable[Event]) -> list[CallRecord]:
    """Read the records of a log, in the order in which the calls settled. Nothing is run.

    A record that a newer version wrote and this one cannot read is passed over.
    """
    calls: dict[int, Event] = {}
    results: dict[int, int] = {}
    dispatches: dict[str, int] = {}
    found: list[CallRecord] = []
    for event in events:
        if event.type in ("tool/call", "tool/code-dispatch-start"):
            calls[event.seq] = event
            if event.type != "tool/call":
                dispatches[event.data["subCallId"]] = event.seq
        elif event.type == "tool/code-dispatch":
            results.setdefault(dispatches.get(event.data["subCallId"], -1), event.seq)
        elif event.type == "tool/result" and event.source_event_seqs is not UNSET:
            results.setdefault(event.source_event_seqs[0], event.seq)
        elif event.type == TOOL_RECORD:
            record = _read(event, calls)
            if record is not None:
                found.append(record)
    return [_with_result(record, results) for record in found]


def _read(event: Event, calls: dict[int, Event]) -> CallRecord | None:
    try:
        data = msgspec.convert(event.data, CallRecordEvent)
    except (msgspec.ValidationError, SessionError):
        return None
    call = None if data.call is UNSET else calls.get(data.call)
    proposed: Any = data.proposed
    if proposed is UNSET and call is not None:
        proposed = call.data["arguments"]
    return CallRecord(
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


def _arguments(data: CallRecordEvent, proposed: Any) -> Any:
    """The arguments that ran: written out, or else what the pipeline makes of what was proposed."""
    if data.arguments is not UNSET or data.arguments_digest is UNSET:
        return data.arguments
    if not isinstance(proposed, str):
        return proposed
    try:
        value = parse_json(proposed)
    except HarnessError:
        return UNSET
    return {} if value is None else value


def _with_result(record: CallRecord, results: dict[int, int]) -> CallRecord:
    seq = None if record.call_seq is None else results.get(record.call_seq)
    return record if seq is None else msgspec.structs.replace(record, result_seq=seq)
