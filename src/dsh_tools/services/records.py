"""Keeping one record for each call in the session's log.

Mount it, and every call of an agent with a session leaves an event ``tool/record`` when it settles::

    ctx.plugin(CallRecordPlugin())
    ...
    for record in call_records(agent.session.events):
        print(record.name, record.ending, [f"{one.name}: {one.verdict}" for one in record.consulted])

:class:`dsh_tools.session.CallRecord` says what is in it. The default composition mounts the plugin where sessions are
kept in a store. Calls of agents without a session are not recorded, and cost nothing; nor are calls that wait for a
person: they are recorded when they have been resumed and have settled. A record that the log refuses is reported to
the logger ``dsh_tools``; the call itself goes on.
"""

from __future__ import annotations

import hashlib
import logging
import time
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET

from ..code_mode import schema_digest
from ..json_value import digest, to_json_text
from ..messages import record_json
from ..session import EventLog
from ..session.call_records import (
    CallEnding,
    CallRecordEvent,
    GivenApproval,
    HowStopped,
    Measured,
    ReturnedValue,
    WhatRan,
)
from ..session.record_reader import ENDINGS
from ..tools.events import TOOL_RESULT, TOOL_SUSPENDED
from ..tools.result import ToolSuccess
from ..tools.trace import CallTrace
from .approval import APPROVAL_ASKED, APPROVAL_DECIDED, APPROVAL_SUSPENDED, ApprovalAnswer, ApprovalRequest

if TYPE_CHECKING:
    from ..content import Content
    from ..kernel.context import Context
    from ..pipeline import Run, ToolService
    from ..schema import Schema
    from ..session import Event
    from ..tools.execution import ToolCall, ToolExecution
    from ..tools.registered import RegisteredTool, ToolSchema
    from ..tools.result import ToolResult

__all__ = ["CallRecordPlugin"]


_log = logging.getLogger("dsh_tools")


class CallRecordPlugin:
    """Records every call whose caller has a session log."""

    name = "call-records"
    inject = ("tools",)

    def apply(self, ctx: Context, config: object = None) -> None:
        """Begin to record.

        Raises:
            RegistrationError: somebody else traces the calls already.
        """
        records = _Records(ctx.tools.service)
        ctx.effect(lambda: ctx.tools.service.trace_with(records.begin), "call records")
        ctx.on(APPROVAL_ASKED, records.asked)
        ctx.on(APPROVAL_DECIDED, records.decided)
        ctx.on(APPROVAL_SUSPENDED, records.parked)
        ctx.on(TOOL_SUSPENDED, records.suspended)
        ctx.on(TOOL_RESULT, records.settled)


class _Recording(CallTrace):
    """What is noted on one call until it settles."""

    __slots__ = ("approvals", "began", "call_seq", "log", "proposed", "questions", "with_defaults")

    def __init__(self, log: EventLog, call: ToolCall, run: Run) -> None:
        super().__init__()
        self.log = log
        self.began = _now()
        self.proposed: Any = call.arguments
        self.call_seq = _place_of(log, call)
        # Defaults are known to the definition alone, so a reader of the log could not fill them in.
        self.with_defaults = run.entry is not None and bool(run.entry.defaults)
        self.approvals: list[GivenApproval] = []
        self.questions: list[tuple[str, float, float]] = []


def _place_of(log: EventLog, call: ToolCall) -> int | None:
    """Return the place of the call's own event: the last one in the log, since a call is logged as it starts."""
    if call.durable is not None and call.parent is None:
        return call.durable.call_key
    last: Event | None = log.events[-1] if log.events else None
    if last is None:
        return None
    data: Any = last.data
    if last.type == "tool/call":
        same = data["callId"] == call.call_id and data["name"] == call.name and data["arguments"] == call.arguments
    elif last.type == "tool/code-dispatch-start":
        same = data["subCallId"] == call.call_id and data["name"] == call.name and data["arguments"] == call.arguments
    else:
        same = False
    return last.seq if same else None


def _logged_times(log: EventLog, question: str) -> tuple[float, float]:
    """When a question of an earlier turn was asked and answered."""
    times = [
        float(event.time)
        for event in log.events
        if event.type in ("approval/asked", "approval/decided") and event.data["id"] == question
    ]
    return (times[0], times[-1]) if times else (_now(), _now())


class _Records:
    def __init__(self, service: ToolService) -> None:
        self._policies = service.policies
        # Calls that have not settled, by their log and id: that is how approvals name them.
        self._open: dict[tuple[str, str], list[_Recording]] = {}
        self._asked: dict[str, float] = {}
        # By name, with the schemas that the digest was made of; there are as many as there are tools.
        self._schemas: dict[str, tuple[ToolSchema, Schema, str]] = {}

    def begin(self, call: ToolCall, run: Run) -> None:
        """Trace a call whose caller has a log; whatever goes wrong here, the call goes on."""
        try:
            log: object = getattr(call.agent, "session", None)
            if isinstance(log, EventLog) and log.is_live:
                recording = _Recording(log, call, run)
                self._open.setdefault((log.id, call.call_id), []).append(recording)
                run.execution.state.trace = recording
        except Exception:
            _log.exception("call %r will have no record", call.call_id)

    # ── approvals ─────────────────────────────────────────────────────────────

    def asked(self, request: ApprovalRequest) -> None:
        """Note when a question was put."""
        self._asked[request.id] = _now()

    def decided(self, request: ApprovalRequest, answer: ApprovalAnswer) -> None:
        """Note how a question ended in the recording of the call that it is about."""
        asked = self._asked.pop(request.id, None)
        log: object = getattr(request.agent, "session", None)
        if not isinstance(log, EventLog) or request.call_id is None:
            return
        recordings = self._open.get((log.id, request.call_id))
        if recordings:
            recording = recordings[-1]
            times = _logged_times(log, request.id) if asked is None else (asked, _now())
            recording.questions.append((request.id, *times))
            recording.approvals.append(
                GivenApproval(
                    answer.outcome,
                    _or_unset(answer.by),
                    _or_unset(answer.reason),
                    _or_unset(request.arguments_digest),
                    _or_unset(request.policy_digest),
                    UNSET if request.purpose == "call" else request.purpose,
                )
            )

    def parked(self, request: ApprovalRequest) -> None:
        """Forget a question that is left open for another time."""
        self._asked.pop(request.id, None)

    # ── the end of a call ─────────────────────────────────────────────────────

    def suspended(self, execution: ToolExecution) -> None:
        """Forget a call that goes on another time."""
        self._close(execution)

    def settled(self, execution: ToolExecution, result: ToolResult) -> None:
        """Write the record."""
        recording = self._close(execution)
        if recording is not None and recording.log.is_live:
            recording.log.append(CallRecordEvent.event_type, self._record(execution, result, recording), ignorable=True)

    def _close(self, execution: ToolExecution) -> _Recording | None:
        recording = execution.state.trace
        if not isinstance(recording, _Recording):
            return None
        key = (recording.log.id, execution.call_id)
        recordings = self._open.get(key, [])
        if recording in recordings:
            recordings.remove(recording)
        if not recordings:
            self._open.pop(key, None)
        return recording

    def _record(self, execution: ToolExecution, result: ToolResult, recording: _Recording) -> dict[str, Any]:
        arguments: Any = execution.arguments
        # Text that is no JSON stands in for arguments that there are none of.
        has_arguments = arguments is not UNSET and not (isinstance(arguments, str) and recording.proposed is arguments)
        stop = execution.stop
        record = CallRecordEvent(
            execution.call_id,
            execution.root_call_id,
            execution.name,
            _ending(execution, result, recording),
            _returned(result),
            _shown(result.content),
            Measured(
                recording.began,
                _now(),
                tuple(recording.milliseconds),
                tuple(recording.questions),
                None if stop is None else stop.seconds,
            ),
            _or_unset(recording.call_seq),
            UNSET,
            UNSET,
            digest(arguments) if has_arguments else UNSET,
            _or_unset(self._policies.digest(execution.scope)),
            tuple(recording.consulted),
            tuple(recording.approvals),
            UNSET if recording.tool is None else self._ran(recording.tool, recording.attempts),
            UNSET if stop is None else HowStopped(stop.cause, stop.ending),
        )
        # Values are added as they are, whatever their depth; the log takes its own copy.
        data = _builtins(record)
        if recording.call_seq is None:
            data["proposed"] = _writable(recording.proposed)
        if has_arguments and recording.with_defaults:
            data["arguments"] = arguments
        return data

    def _ran(self, tool: RegisteredTool, attempts: int) -> WhatRan:
        kept = self._schemas.get(tool.name)
        if kept is None or kept[0] is not tool.schema or kept[1] is not tool.output:
            kept = self._schemas[tool.name] = (tool.schema, tool.output, schema_digest(tool))
        return WhatRan(tool.name, _or_unset(tool.owner), kept[2], tool.definition.isolation, attempts)


def _ending(execution: ToolExecution, result: ToolResult, recording: _Recording) -> CallEnding:
    if isinstance(result, ToolSuccess):
        return "completed"
    code = None if result.error.info is UNSET else result.error.info.code
    if code in ENDINGS:
        return ENDINGS[code]
    if any(asked.kind == "reviewer" and asked.verdict == "block" for asked in recording.consulted):
        return "blocked"
    if not execution.state.body_ran:
        return "denied" if _is_refused(recording) else "invalid" if recording.tool is None else "failed"
    return "failed"


def _is_refused(recording: _Recording) -> bool:
    """Whether somebody who was asked refused, or failed; or a wrapper answered in the body's place.

    A person may have been asked by rules that have gone since.
    """
    refusals = ("deny", "ask", "raised", "invalid", "interrupted", "answered")
    by_policy = any(asked.verdict in refusals for asked in recording.consulted)
    return by_policy or any(given.outcome == "rejected" for given in recording.approvals)


def _returned(result: ToolResult) -> ReturnedValue:
    if isinstance(result, ToolSuccess):
        return ReturnedValue(False, _sha256(to_json_text(result.value)))
    return ReturnedValue(True, _sha256(result.error.message), result.error.info)


def _builtins(record: msgspec.Struct) -> dict[str, Any]:
    try:
        return msgspec.json.decode(msgspec.json.encode(record))
    except UnicodeEncodeError:
        # A name or a reason with half a character in it.
        return record_json(record)


def _shown(content: Content) -> str:
    try:
        text = msgspec.json.encode(content).decode()
    except (UnicodeEncodeError, RecursionError, ValueError):
        # A JSON block that is too deep, or holds what only our own writer can write.
        text = to_json_text([record_json(block) for block in content])
    return _sha256(text)


def _writable(proposed: Any) -> Any:
    """What was proposed, or a word about it where it is no JSON."""
    try:
        to_json_text(proposed)
    except Exception:
        return f"(not JSON: {type(cast('object', proposed)).__name__})"
    return proposed


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _or_unset(value: Any) -> Any:
    return UNSET if value is None else value


def _now() -> float:
    return round(time.time() * 1000, 3)
