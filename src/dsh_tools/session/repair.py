"""What a log needs after a crash: a result for every call, and an end for what was open (HOST-128 to 130).

Calls that can go on are the exception: where they are to be kept, the turn ends as waiting, and they stay pending.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..content import TextBlock
from ..errors import SessionError
from ..messages import tool_result_message
from ..tools.result import ErrorInfo
from .events import CodeDispatch, Event, Interrupted, StepEnd, StepStart, ToolResultRecord, TurnEnd, Waiting
from .log import EventLog
from .open_end import OpenCall, OpenDispatch, OpenEnd
from .protocol import EventDraft
from .surface import TOOL_NOT_STARTED

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


def repair_log(log: EventLog, keep: Collection[int] = ()) -> list[Event]:
    """Append what a crash left out of the log, and return it; nothing where the log is balanced.

    Parameters:
        keep: the places of ``tool/call`` events whose calls go on later, and get no result now.

    Raises:
        SessionError: ``SESSION_BUSY``: a live agent owns the log, and will write its results itself (HOST-129).
    """
    if log.owner is not None:
        raise SessionError(f'session "{log.id}" has a live agent', "SESSION_BUSY")
    return [log.append_draft(draft) for draft in repair_drafts(log.events, keep)]


def repair_drafts(events: Sequence[Event], keep: Collection[int] = ()) -> list[EventDraft]:
    """Return the events that close the open tail turn of a log; ``[]`` where no turn is open.

    Depends on nothing but the events: times are the last event's, ids come from the call id and
    the event's place (HOST-129). ``keep`` is that of :func:`repair_log`.
    """
    tail = OpenEnd(events)
    if not tail.turn_open:
        return []
    return _close(tail, keep, len(events), events[-1].time)


def _close(tail: OpenEnd, keep: Collection[int], seq: int, time: int) -> list[EventDraft]:
    """Return the events that close what is open, from place ``seq`` on."""
    drafts: list[EventDraft] = []
    kept = [call for call in tail.unanswered if call.call_seq in keep]
    calls = [call for call in tail.unanswered if call.call_seq not in keep]
    if kept:
        # Where a turn waits anyway, what was never begun waits with it, and runs in its place.
        calls = [call for call in calls if call.call_seq is not None]
    kept_ids = {call.block.id for call in kept}
    step, step_open = tail.step, tail.step_open
    if not step_open and any(call.call_seq is not None for call in calls):
        # Calls of an earlier turn, in one that had only just begun.
        step, step_open = step + 1, True
        drafts.append(EventDraft(StepStart.event_type, StepStart(tail.turn, step), time=time))
    drafts += [_dispatch(found, time) for found in tail.dispatches if found.start.root_call_id not in kept_ids]
    for call in calls:
        drafts.append(_result(call, tail.turn, max(step, 1), seq + len(drafts), time))
    if step_open:
        drafts.append(EventDraft(StepEnd.event_type, StepEnd(tail.turn, step), time=time))
    reason = Waiting(interrupted=True) if kept else Interrupted()
    drafts.append(EventDraft(TurnEnd.event_type, TurnEnd(tail.turn, reason), time=time))
    return drafts


def _result(call: OpenCall, turn: int, step: int, seq: int, time: int) -> EventDraft:
    started = call.call_seq is not None
    message = tool_result_message(
        call.block.id,
        (TextBlock(_UNKNOWN_TEXT if started else _NOT_STARTED_TEXT),),
        True,
        id=f"{call.block.id}:{seq}",
    )
    error = (
        ErrorInfo("ToolOutcomeUnknownError", TOOL_OUTCOME_UNKNOWN)
        if started
        else ErrorInfo("ToolNotStartedError", TOOL_NOT_STARTED)
    )
    # A message outside of any step (foreign logs have them) counts as the first step's.
    record = ToolResultRecord(turn, step, message, error)
    return EventDraft(
        ToolResultRecord.event_type, record, "append", None if call.call_seq is None else (call.call_seq,), time=time
    )


def _dispatch(found: OpenDispatch, time: int) -> EventDraft:
    start = found.start
    settled = CodeDispatch(
        start.root_call_id,
        start.parent_call_id,
        start.sub_call_id,
        start.name,
        start.arguments,
        True,
        (TextBlock(_UNKNOWN_TEXT),),
    )
    return EventDraft(CodeDispatch.event_type, settled, time=time)
