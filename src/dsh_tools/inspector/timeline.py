"""When each step asked the model and ran its calls, read back from a session's log.

A call's time is cut into spans: ``waiting`` for its turn, ``policy``, ``approval`` (a person was asked),
``running``, ``stopping`` (from the moment it was told to stop), ``review`` (what came after the body) and ``commit``
(its result waited for those of earlier calls).
Logs without ``tool/stages`` events know only ``approval`` and ``running``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from ..session import Event
from .stages import STAGES

__all__ = ["CallTimes", "Outcome", "Span", "StepTimes", "timeline_of"]

Outcome: TypeAlias = Literal["running", "ok", "failed", "denied", "cancelled", "timed-out", "interrupted"]

_BY_CODE: dict[str, Outcome] = {
    "ABORTED": "cancelled",
    "ABORTED_BEFORE_DISPATCH": "cancelled",
    "TOOL_TIMEOUT": "timed-out",
    "TOOL_NOT_STARTED": "interrupted",
    "TOOL_OUTCOME_UNKNOWN": "interrupted",
}


class Span(msgspec.Struct, rename="camel"):
    """A piece of time, from ``start`` to ``end`` in milliseconds since the epoch."""

    name: str
    start: float
    end: float


class CallTimes(msgspec.Struct, rename="camel"):
    """One call: ``depth`` is 0 for a call of the model, 1 for one that its program made, and so on.

    ``end`` is None while the call runs; ``seq`` is the place of its event in the log; ``stop`` is how its body ended,
    if it was told to stop: ``cancelled``, ``raised``, ``returned`` or ``killed``.
    """

    call_id: str
    name: str
    seq: int
    depth: int
    start: float
    end: float | None = None
    outcome: Outcome = "running"
    code: str | None = None
    spans: list[Span] = msgspec.field(default_factory=list[Span])
    stop: str | None = None


class StepTimes(msgspec.Struct, rename="camel"):
    """One step: ``answered`` is when the model's answer was complete."""

    turn: int
    step: int
    start: float
    answered: float | None = None
    end: float | None = None
    calls: list[CallTimes] = msgspec.field(default_factory=list[CallTimes])


def timeline_of(events: Iterable[Event]) -> list[StepTimes]:
    """Return the steps of a log in order, each with its calls in the order in which they were logged."""
    reader = _Reader()
    for event in events:
        reader.read(event)
    return reader.steps


class _Reader:
    def __init__(self) -> None:
        self.steps: list[StepTimes] = []
        self._open: dict[int, CallTimes] = {}
        self._by_id: dict[str, CallTimes] = {}
        self._stages: dict[int, dict[str, Any]] = {}
        self._asked: dict[str, tuple[CallTimes, float]] = {}
        self._rejected: set[int] = set()

    def read(self, event: Event) -> None:
        data: Any = event.data
        match event.type:
            case "step/start":
                self.steps.append(StepTimes(data["turn"], data["step"], event.time))
            case "assistant/message" if self.steps:
                self.steps[-1].answered = event.time
            case "step/end" if self.steps:
                self.steps[-1].end = event.time
            case "tool/call":
                self._begin(event, data["callId"], data["name"], 0)
            case "tool/code-dispatch-start":
                parent = self._by_id.get(data["parentCallId"])
                self._begin(event, data["subCallId"], data["name"], 1 if parent is None else parent.depth + 1)
            case "tool/result" if event.surface_op == "append" and event.source_event_seqs:
                block = data["message"]["content"][0]
                self._finish(event, self._open.get(event.source_event_seqs[0]), block["isError"], data.get("error"))
            case "tool/code-dispatch":
                self._finish(event, self._by_id.get(data["subCallId"]), data["isError"], None)
            case _:
                self._between(event, data)

    def _between(self, event: Event, data: Any) -> None:
        if event.type == STAGES:
            call = self._by_id.get(data["callId"])
            if call is not None:
                self._stages[call.seq] = data
        elif event.type == "approval/asked":
            call = self._by_id.get(data.get("callId", ""))
            if call is not None:
                self._asked[data["id"]] = (call, event.time)
        elif event.type == "approval/decided":
            found = self._asked.pop(data["id"], None)
            if found is not None:
                call, since = found
                call.spans.append(Span("approval", since, event.time))
                if data["outcome"] != "allowed-once":
                    self._rejected.add(call.seq)

    def _begin(self, event: Event, call_id: str, name: str, depth: int) -> None:
        if not self.steps:
            self.steps.append(StepTimes(0, 0, event.time))
        call = CallTimes(call_id, name, event.seq, depth, event.time)
        self.steps[-1].calls.append(call)
        self._open[event.seq] = self._by_id[call_id] = call

    def _finish(self, event: Event, call: CallTimes | None, is_error: bool, error: Any) -> None:
        if call is None or self._open.pop(call.seq, None) is None:
            return
        stages = self._stages.pop(call.seq, None)
        call.end = event.time
        call.code = None if error is None else error["code"]
        call.stop = None if stages is None or "stop" not in stages else stages["stop"]["ending"]
        call.outcome = self._outcome(call, is_error, stages)
        call.spans = _spans(call, event.time, stages)

    def _outcome(self, call: CallTimes, is_error: bool, stages: dict[str, Any] | None) -> Outcome:
        if not is_error:
            return "ok"
        if call.code is not None:
            return _BY_CODE.get(call.code, "failed")
        # A denial carries no code (HOST-91); what tells it from a failure is that no body ran.
        no_body = stages is not None and "body" not in stages
        return "denied" if no_body or call.seq in self._rejected else "failed"


def _spans(call: CallTimes, end: float, stages: dict[str, Any] | None) -> list[Span]:
    """Cut the time from the call to its result into pieces that follow each other."""
    approvals = call.spans
    edges: list[tuple[str, float]] = []
    if stages is not None and "policy" in stages:
        edges.append(("policy", stages["policy"][0]))
        edges.append(("waiting", stages["policy"][1]))
    for asked in approvals:
        edges += [("approval", asked.start), ("waiting", asked.end)]
    if stages is not None:
        if "body" in stages:
            begin, over = stages["body"]
            edges += [("waiting", begin), ("running", stages.get("running", begin))]
            if "stopping" in stages:
                edges.append(("stopping", stages["stopping"]))
            edges.append(("review", over))
        edges.append(("commit", stages["settled"]))
    elif approvals:
        edges[-1] = ("running", approvals[-1].end)
    first = "running" if stages is None else "waiting"
    cuts = [(first, call.start), *edges]
    # Log times are whole milliseconds, stages have fractions: each edge stays between its neighbours.
    spans: list[Span] = []
    at = call.start
    for (name, start), (_, following) in zip(cuts, [*cuts[1:], ("", end)], strict=True):
        begin = min(max(start, at), end)
        at = min(max(following, begin), end)
        if at > begin:
            spans.append(Span(name, begin, at))
    return spans
