"""When each stage of a call began and ended, kept in the session's log.

The log itself says when a call was logged and when its result was committed. This plugin adds what lies between:
an event ``tool/stages`` for each call, which readers that don't know it may ignore::

    {"callId": "c1", "policy": [t0, t1], "body": [t2, t5], "running": t3, "stopping": t4, "settled": t6}

Times are milliseconds since the epoch, with fractions. ``body`` is missing where no body ran; it begins before
``running`` where the call had to wait for its turn at a limit, a thread or a process. A call that was told to stop
has ``stopping``, and ``stop``: who told it, how it ended, and how many seconds that took. The event comes before the
call's ``tool/result``, so that a reader pairs it with the newest open call of that id.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from ..kernel.markers import hands_on
from ..session import EventLog
from ..tools.events import EXECUTE, PRE_EXECUTE, TOOL_RESULT, TOOL_STATE, TOOL_SUSPENDED

if TYPE_CHECKING:
    from ..kernel import Context, Next
    from ..tools.events import Decision
    from ..tools.execution import CallToken, ToolExecution
    from ..tools.result import ToolResult
    from ..tools.stopping import CallStatus

__all__ = ["STAGES", "StageTimesPlugin"]

STAGES = "tool/stages"
"""The event type."""


class _Times(msgspec.Struct):
    policy: tuple[float, float] | None = None
    body: tuple[float, float] | None = None
    running: float | None = None
    stopping: float | None = None


class StageTimesPlugin:
    """Notes the stages of every call whose caller has a session log."""

    name = "stage-times"
    inject = ("tools",)

    def apply(self, ctx: Context, config: object = None) -> None:
        """Start to listen."""
        # Every call settles exactly once, so each entry is taken out again.
        times: dict[CallToken, _Times] = {}

        def of(execution: ToolExecution) -> _Times:
            return times.setdefault(execution.token, _Times())

        @hands_on
        async def decide(execution: ToolExecution, proceed: Next[Decision]) -> Decision:
            begin = _now()
            try:
                return await proceed()
            finally:
                of(execution).policy = (begin, _now())

        async def run(execution: ToolExecution, proceed: Next[ToolResult]) -> ToolResult:
            begin = _now()
            try:
                return await proceed()
            finally:
                of(execution).body = (begin, _now())

        def stands(execution: ToolExecution, status: CallStatus) -> None:
            noted = of(execution)
            if status == "running":
                noted.running, noted.stopping = _now(), None
            elif status == "stopping":
                noted.stopping = _now()

        def suspended(execution: ToolExecution) -> None:
            times.pop(execution.token, None)

        def settled(execution: ToolExecution, _result: ToolResult) -> None:
            log = getattr(execution.agent, "session", None)
            noted = times.pop(execution.token, None)
            if not isinstance(log, EventLog) or not log.is_live or log.turn is None:
                return
            log.append(STAGES, _event(execution, noted or _Times()), ignorable=True)

        ctx.on(PRE_EXECUTE, decide, prepend=True)
        ctx.on(EXECUTE, run, prepend=True)
        ctx.on(TOOL_STATE, stands)
        ctx.on(TOOL_SUSPENDED, suspended)
        ctx.on(TOOL_RESULT, settled)


def _event(execution: ToolExecution, times: _Times) -> dict[str, Any]:
    data: dict[str, Any] = {"callId": execution.call_id, "settled": _now()}
    if times.policy is not None:
        data["policy"] = list(times.policy)
    if times.body is not None:
        data["body"] = list(times.body)
    if times.running is not None:
        data["running"] = times.running
    if times.stopping is not None:
        data["stopping"] = times.stopping
    if execution.stop is not None:
        data["stop"] = msgspec.to_builtins(execution.stop)
    return data


def _now() -> float:
    return round(time.time() * 1000, 3)
