"""One record for each call: what was proposed, who was asked, what ran, what came back, how it stopped.

Records are events of the type ``tool/record``, written when a call settles, and read back by ``call_records``.
What the log has in another event already is not written again: a record cites the call's own event for the arguments
as they were proposed, and holds digests of what came back.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from ..tools.result import ErrorInfo
from ..tools.trace import Consulted
from .events import Name, Record, Seq

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
    "unknown",
]
"""How a call ended. ``invalid``: it could not run as it was made. ``denied``: policy, a guard or a person refused
it, or one of them failed. ``blocked``: its result was withheld. ``not-started`` and ``aborted``: it was given up
before, or while, its body ran. ``unknown``: the process ended while it ran. ``failed`` is every other failure."""


class GivenApproval(msgspec.Struct, frozen=True, rename="camel"):
    """A question about a call, and its answer.

    Parameters:
        outcome: how it ended.
        by: who answered; absent where nobody did.
        reason: what they said.
        arguments_digest: the arguments that the answer is bound to.
        policy_digest: the rules that it is bound to; absent where none are declared.
        purpose: what was asked for, where it was something else than running the call.
    """

    outcome: str
    by: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    arguments_digest: str | UnsetType = UNSET
    policy_digest: str | UnsetType = UNSET
    purpose: str | UnsetType = UNSET


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
            failure, of its message. Neither is kept itself (HOST-121). Absent where nobody noted it.
        error: the error's name and code; absent where it carries none.
    """

    is_error: bool
    digest: str | UnsetType = UNSET
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
        seq: the place of the record in its log; None for a call whose record was never written, because it was
            skipped after an abort, its process died, or nobody recorded. Then this tells what other events tell:
            nothing of who was asked or what ran.
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
    seq: int | None
    call_seq: int | None = None
    result_seq: int | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CallRecord):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in _COMPARED)

    # A record without a generated comparison inherits a __ne__ that goes by identity.
    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return NotImplemented if equal is NotImplemented else not equal

    __hash__ = None  # pyright: ignore[reportAssignmentType]


_COMPARED = tuple(
    field for field in CallRecord.__struct_fields__ if field not in ("measured", "seq", "call_seq", "result_seq")
)
