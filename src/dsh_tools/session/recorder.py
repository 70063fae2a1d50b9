"""Writes calls and their results into a session's log (HOST-118 to 122, PIPE-201, 232).

The agent loop calls these functions where the order of events is its business. Whoever runs
programs below this layer finds :class:`Recorder` on the context under ``recorder``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET

from ..content import Content, ContentBlock
from ..errors import SessionError
from ..messages import ToolCallBlock, tool_result_message
from ..pipeline import ABORTED_BEFORE_DISPATCH
from ..tools.result import ToolFailure, ToolResult
from .events import CodeDispatch, CodeDispatchStart, Event, ToolCallRecord, ToolResultRecord
from .log import EventLog
from .protocol import SessionLog

if TYPE_CHECKING:
    from ..kernel.context import Context

__all__ = [
    "Recorder",
    "RecorderPlugin",
    "log_of",
    "record_call",
    "record_dispatch",
    "record_dispatch_start",
    "record_result",
    "record_skipped",
]


def record_call(log: SessionLog, call: ToolCallBlock) -> Event:
    """Log that a call is about to be prepared; its arguments stay the model's text (HOST-118).

    Raises:
        SessionError: ``INVALID_NESTING``: no step is open.
    """
    turn, step = _position(log)
    return log.append("tool/call", ToolCallRecord(turn, step, call.id, call.name, call.arguments))


def record_result(log: SessionLog, call: ToolCallBlock, call_event: Event, result: ToolResult) -> Event:
    """Log the one result of a call: what the model reads, whether it failed, its code and its metadata.

    The canonical value and the error's message are not logged (HOST-120, 121; PIPE-232). The
    result goes under the model's call id (HOST-168) and cites the call's event, which tells calls
    apart that share an id (HOST-163).

    Raises:
        SessionError: ``INVALID_NESTING``: no step is open.
    """
    turn, step = _position(log)
    error = result.error.info if isinstance(result, ToolFailure) else UNSET
    record = ToolResultRecord(
        turn, step, tool_result_message(call.id, result.content, result.is_error), error, result.meta
    )
    return log.append("tool/result", record, "append", (call_event.seq,))


def record_skipped(log: SessionLog, call: ToolCallBlock) -> tuple[Event, Event]:
    """Log a call that an abort kept from starting, with its result (HOST-155, PIPE-201).

    Raises:
        SessionError: ``INVALID_NESTING``: no step is open.
    """
    called = record_call(log, call)
    return called, record_result(log, call, called, ABORTED_BEFORE_DISPATCH)


def record_dispatch_start(
    log: SessionLog,
    *,
    root_call_id: str,
    parent_call_id: str,
    sub_call_id: str,
    name: str,
    arguments: object,
) -> Event:
    """Log that a call made by a program has started (HOST-122).

    Raises:
        SessionError: ``INVALID_DISPATCH``: outside a turn, or the ids don't fit together (HOST-123).
        LossyJsonError: the arguments are not JSON.
    """
    record = CodeDispatchStart(root_call_id, parent_call_id, sub_call_id, name, arguments)
    return log.append("tool/code-dispatch-start", record)


def record_dispatch(log: SessionLog, start: Event, *, is_error: bool, content: Sequence[ContentBlock]) -> Event:
    """Log that a call made by a program has settled; exactly once for each start (HOST-122).

    Raises:
        SessionError: ``INVALID_DISPATCH``: it has settled already.
    """
    data = start.data
    record = CodeDispatch(
        data["rootCallId"],
        data["parentCallId"],
        data["subCallId"],
        data["name"],
        data["arguments"],
        is_error,
        tuple(content),
    )
    return log.append("tool/code-dispatch", record)


def log_of(agent: object) -> EventLog | None:
    """Return the log of an agent: its ``session``, where that is one; None for agents without."""
    session = getattr(agent, "session", None)
    return session if isinstance(session, EventLog) else None


class Recorder:
    """Logs the calls of programs for code that knows an agent and nothing of sessions.

    Calls of agents without a session are not logged (CODE-106).
    """

    def dispatch_started(
        self,
        agent: object,
        *,
        root_call_id: str,
        parent_call_id: str,
        sub_call_id: str,
        name: str,
        arguments: object,
    ) -> Event | None:
        """Log the start; returns what :meth:`dispatch_settled` takes. Raises as the function above."""
        log = log_of(agent)
        if log is None:
            return None
        return record_dispatch_start(
            log,
            root_call_id=root_call_id,
            parent_call_id=parent_call_id,
            sub_call_id=sub_call_id,
            name=name,
            arguments=arguments,
        )

    def dispatch_settled(self, agent: object, start: Event | None, *, is_error: bool, content: Content) -> None:
        """Log the end of a call whose start was logged. Raises as the function above."""
        log = log_of(agent)
        if log is not None and start is not None:
            record_dispatch(log, start, is_error=is_error, content=content)


class RecorderPlugin:
    """Provides :class:`Recorder` as ``recorder``."""

    name = "recorder"

    def apply(self, ctx: Context, config: object = None) -> None:
        """Provide the service."""
        ctx.provide("recorder", Recorder())


def _position(log: SessionLog) -> tuple[int, int]:
    turn, step = log.turn, log.step
    if turn is None or step is None:
        raise SessionError(f'session "{log.id}" has no open step', "INVALID_NESTING")
    return turn, step
