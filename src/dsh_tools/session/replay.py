"""Calls as the log tells them, for showing them again without running anything (PIPE-208)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET

from ..content import Content, ContentBlock
from ..errors import HarnessError, SessionError
from ..json_value import parse_json
from ..messages import ToolResultBlock
from ..tools.result import ErrorInfo
from .events import CodeDispatch, CodeDispatchStart, Event, ToolCallRecord, ToolResultRecord
from .vocabulary import EventVocabulary

__all__ = ["ReplayedCall", "replay_calls"]


class ReplayedCall(msgspec.Struct, frozen=True):
    """One call with its result, as a card shows them.

    Parameters:
        call_id: the model's id, or the sub-call's id for a call of a program.
        name: the tool's name, as it was called.
        arguments: the parsed arguments, frozen.
        content: what the model (or the program) was shown.
        is_error: whether the call failed.
        meta: the presentation metadata, or UNSET where there was none.
        error: the error's name and code, or None where it carried none.
        call_seq: the place of the call's event; the identity of the call in this log.
        result_seq: the place of the result's event.
        started_at: when the call was logged, in milliseconds since the epoch.
        finished_at: when the result was logged.
        root_call_id: for a call of a program, the outermost call; otherwise None.
        parent_call_id: for a call of a program, the call whose program made it; otherwise None.
    """

    call_id: str
    name: str
    arguments: Any
    content: Content
    is_error: bool
    meta: Any
    error: ErrorInfo | None
    call_seq: int
    result_seq: int
    started_at: int
    finished_at: int
    root_call_id: str | None = None
    parent_call_id: str | None = None


def replay_calls(events: Iterable[Event]) -> list[ReplayedCall]:
    """Pair calls with their results, in the order in which the calls were logged.

    Pairs go by the event a result cites, so calls that share an id stay apart (HOST-163). What is
    shown is the result as it was recorded first; a later replacement is the model's view only. A
    call without a result, or with arguments that do not parse, has no card.
    """
    vocabulary = EventVocabulary()
    open_calls: dict[int, tuple[Event, ToolCallRecord]] = {}
    open_dispatches: dict[str, list[tuple[Event, CodeDispatchStart]]] = {}
    found: list[ReplayedCall] = []
    for event in events:
        if event.type not in _FOLLOWED:
            continue
        try:
            record = vocabulary.read(event.type, event.data, ignorable=True)
        except SessionError:
            # A card less, rather than no page at all.
            continue
        if isinstance(record, ToolCallRecord):
            open_calls[event.seq] = (event, record)
        elif isinstance(record, CodeDispatchStart):
            open_dispatches.setdefault(record.sub_call_id, []).append((event, record))
        elif isinstance(record, CodeDispatch):
            starts = open_dispatches.get(record.sub_call_id)
            if starts:
                found.append(_dispatched(*starts.pop(0), event, record))
        elif isinstance(record, ToolResultRecord) and event.source_event_seqs is not UNSET:
            started = open_calls.pop(event.source_event_seqs[0], None)
            card = None if started is None else _answered(*started, event, record)
            if card is not None:
                found.append(card)
    return sorted(found, key=lambda call: call.call_seq)


def _answered(started: Event, call: ToolCallRecord, ended: Event, result: ToolResultRecord) -> ReplayedCall | None:
    try:
        # The pipeline's own parser, so that a replay judges the text as the live run did.
        arguments = parse_json(call.arguments)
    except HarnessError:
        return None
    block = result.message.content[0] if result.message.content else None
    if type(block) is not ToolResultBlock:
        return None
    return ReplayedCall(
        call.call_id,
        call.name,
        arguments,
        block.content,
        block.is_error,
        result.meta,
        None if result.error is UNSET else result.error,
        started.seq,
        ended.seq,
        started.time,
        ended.time,
    )


def _dispatched(started: Event, start: CodeDispatchStart, ended: Event, settled: CodeDispatch) -> ReplayedCall:
    content: tuple[ContentBlock, ...] = settled.content
    return ReplayedCall(
        start.sub_call_id,
        start.name,
        start.arguments,
        content,
        settled.is_error,
        UNSET,
        None,
        started.seq,
        ended.seq,
        started.time,
        ended.time,
        start.root_call_id,
        start.parent_call_id,
    )


_FOLLOWED = frozenset({"tool/call", "tool/result", "tool/code-dispatch-start", "tool/code-dispatch"})
