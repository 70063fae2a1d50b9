"""The surface of a log: the events a model sees, in order, and the messages they fold to."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import msgspec
from msgspec import UNSET, UnsetType

from ..errors import SessionError
from ..json_value import to_json_text
from ..messages import AssistantMessage, Message, ToolResultBlock, UserMessage
from .events import (
    SURFACE_TYPES,
    AssistantMessageRecord,
    Event,
    Replace,
    SurfaceOp,
    ToolResultRecord,
)

__all__ = ["TOOL_NOT_STARTED", "Surface", "read_sources", "read_surface_op"]

TOOL_NOT_STARTED = "TOOL_NOT_STARTED"
"""The code of the synthetic result of a call that was never logged: it has no call event to cite."""


def read_surface_op(type_name: str, value: object) -> SurfaceOp | UnsetType:
    """Read a surface operation given as a record, in its JSON form, or as None for none (HOST-109).

    Raises:
        SessionError: ``INVALID_SURFACE``: missing on a surface type, there on another, or not one.
    """
    if value is None or value is UNSET:
        if type_name in SURFACE_TYPES:
            raise _fault(f"{type_name} needs a surfaceOp")
        return UNSET
    if type_name not in SURFACE_TYPES:
        raise _fault(f"{type_name} takes no surfaceOp")
    if isinstance(value, Replace):
        value = {"op": "replace", "start": value.start, "end": value.end}
    try:
        return msgspec.convert(value, SurfaceOp)  # pyright: ignore[reportUnknownVariableType, reportCallIssue, reportArgumentType]
    except msgspec.ValidationError as error:
        raise _fault(f"surfaceOp of {type_name}: {error}") from error


def read_sources(type_name: str, value: object, seq: int) -> tuple[int, ...] | UnsetType:
    """Read ``sourceEventSeqs``: unique, earlier than ``seq``, empty only on an assistant message (HOST-110).

    Raises:
        SessionError: ``INVALID_SURFACE``: the list breaks one of these rules.
    """
    if value is None or value is UNSET:
        return UNSET
    if type_name not in SURFACE_TYPES:
        raise _fault(f"{type_name} takes no sourceEventSeqs")
    if not isinstance(value, (list, tuple)):
        raise _fault("sourceEventSeqs must be a list of event numbers")
    sources: list[int] = []
    for item in cast("list[object]", value):
        if type(item) is not int or not 0 <= item < seq:
            raise _fault(f"sourceEventSeqs may only name earlier events, got {item!r} in event {seq}")
        sources.append(item)
    if len(set(sources)) != len(sources):
        raise _fault("sourceEventSeqs names an event twice")
    if not sources and type_name != "assistant/message":
        raise _fault(f"sourceEventSeqs of {type_name} may not be empty")
    return tuple(sources)


class Surface:
    """The events that are on the surface now, and the messages they stand for.

    Every append is checked before it is applied; a check changes nothing.
    """

    def __init__(self, event_at: Callable[[int], Event]) -> None:
        self._event_at = event_at
        self._nodes: list[int] = []
        self._records: dict[int, msgspec.Struct] = {}
        self._messages: list[Message] = []
        self._stale = False

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ``seq`` of each event on the surface, in the order a model sees them."""
        return tuple(self._nodes)

    def messages(self) -> list[Message]:
        """Fold the surface to messages: a new list over shared immutable records (HOST-111, 112)."""
        if self._stale:
            self._messages = [
                message for seq in self._nodes if (message := _message_of(self._records[seq])) is not None
            ]
            self._stale = False
        return list(self._messages)

    def check(
        self, record: msgspec.Struct | None, op: SurfaceOp | UnsetType, sources: tuple[int, ...] | UnsetType
    ) -> None:
        """Check that an event may enter the surface in this way.

        Raises:
            SessionError: ``INVALID_SURFACE`` or ``INVALID_EVENT``; nothing has changed (HOST-108).
        """
        if isinstance(record, UserMessage):
            if any(type(block) is ToolResultBlock for block in record.content):
                raise SessionError("user/message: a tool's result belongs in tool/result", "INVALID_EVENT")
        elif isinstance(record, ToolResultRecord):
            _check_result_shape(record)
        if isinstance(op, Replace):
            self._check_replace(record, op, () if sources is UNSET else sources)
        elif isinstance(record, ToolResultRecord):
            self._check_citation(record, sources)

    def apply(self, seq: int, record: msgspec.Struct, op: SurfaceOp) -> None:
        """Put a checked event on the surface."""
        self._records[seq] = record
        if isinstance(op, Replace):
            start, end = self._span(op)
            for shadowed in self._nodes[start : end + 1]:
                del self._records[shadowed]
            self._nodes[start : end + 1] = [seq]
            self._stale = True
            return
        self._nodes.append(seq)
        message = _message_of(record)
        if message is not None and not self._stale:
            self._messages.append(message)

    def _span(self, op: Replace) -> tuple[int, int]:
        for seq in (op.start, op.end):
            if seq not in self._records:
                raise _fault(f"cannot replace event {seq}: it is not on the surface")
        return self._nodes.index(op.start), self._nodes.index(op.end)

    def _check_replace(self, record: msgspec.Struct | None, op: Replace, sources: tuple[int, ...]) -> None:
        start, end = self._span(op)
        if start > end:
            raise _fault(f"cannot replace from {op.start} to {op.end}: the order on the surface is reversed")
        shadowed = self._nodes[start : end + 1]
        missing = sorted(set(shadowed).difference(sources))
        if missing:
            raise _fault(f"a replacement must cite every event it shadows; missing: {missing}")
        if isinstance(record, ToolResultRecord):
            old = self._records[shadowed[0]]
            if len(shadowed) != 1 or not isinstance(old, ToolResultRecord):
                raise _fault("a tool/result replaces exactly one tool/result")
            if _without_content(old) != _without_content(record):
                raise _fault("a tool/result replacement may only change the content")

    def _check_citation(self, record: ToolResultRecord, sources: tuple[int, ...] | UnsetType) -> None:
        if sources is UNSET:
            if record.error is not UNSET and record.error.code == TOOL_NOT_STARTED:
                return
            raise _fault("a tool/result must cite its tool/call in sourceEventSeqs")
        if len(sources) != 1:
            raise _fault("a tool/result cites exactly one event, its tool/call")
        call = self._event_at(sources[0])
        call_id = record.message.source.call_id
        if call.type != "tool/call" or call.data["callId"] != call_id:
            raise _fault(f'a tool/result of "{call_id}" cannot cite event {call.seq}: not the call it answers')


def _check_result_shape(record: ToolResultRecord) -> None:
    message = record.message
    block = message.content[0] if len(message.content) == 1 else None
    if type(block) is not ToolResultBlock:
        raise SessionError("tool/result: the message must be exactly one tool-result block", "INVALID_EVENT")
    if message.source.kind != "tool" or message.source.call_id != block.tool_call_id:
        raise SessionError(
            f'tool/result: the message\'s source must be the tool call "{block.tool_call_id}"',
            "INVALID_EVENT",
        )


def _without_content(record: ToolResultRecord) -> tuple[object, ...]:
    """Return what a replacement may not change; the metadata as text, since it may nest deeply."""
    message = record.message
    block = cast("ToolResultBlock", message.content[0])
    meta = None if record.meta is UNSET else to_json_text(record.meta)
    return (record.turn, record.step, record.error, meta, message.source, message.id, block.is_error)


def _message_of(record: msgspec.Struct) -> Message | None:
    if isinstance(record, AssistantMessageRecord):
        return record.message if record.message.content else None
    if isinstance(record, ToolResultRecord):
        return record.message
    if isinstance(record, (UserMessage, AssistantMessage)):
        return record
    return None


def _fault(text: str) -> SessionError:
    return SessionError(text, "INVALID_SURFACE")
