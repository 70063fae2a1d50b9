"""Which event types a log understands, and how the data of each is checked (HOST-115)."""

from __future__ import annotations

import msgspec

from ..errors import SessionError
from ..messages import UserMessage
from . import events
from .call_records import CallRecordEvent

__all__ = ["EventVocabulary"]

_BUILT_IN: tuple[type[events.Record], ...] = (
    events.EndSeed,
    events.TurnStart,
    events.TurnEnd,
    events.StepStart,
    events.StepEnd,
    events.AssistantMessageRecord,
    events.AssistantChunk,
    events.ModelRetry,
    events.ToolCallRecord,
    events.ToolResultRecord,
    events.CodeDispatchStart,
    events.CodeDispatch,
    events.ApprovalAsked,
    events.ApprovalDecided,
    events.ApprovalPolicy,
    events.InboxInsert,
    events.InboxEdit,
    events.InboxRemove,
    events.InboxClaim,
    CallRecordEvent,
)


class EventVocabulary:
    """The event types that may be appended and read back.

    A log that holds a type nobody here knows is not reconstructed, unless the event says that it
    may be ignored: half a history is worse than none. A plugin with event types of its own
    declares them before sessions are opened.
    """

    def __init__(self) -> None:
        self._types: dict[str, type[msgspec.Struct] | None] = {kind.event_type: kind for kind in _BUILT_IN}
        self._types["user/message"] = UserMessage

    def __contains__(self, type_name: object) -> bool:
        return type_name in self._types

    def declare(self, type_name: str, record: type[msgspec.Struct] | None = None) -> None:
        """Add an event type. ``record`` checks its data at every append and load; None takes any JSON.

        Raises:
            SessionError: ``INVALID_EVENT_TYPE`` for a name that is empty or taken by another record.
        """
        if not type_name or not type_name.isprintable():
            raise SessionError(f"invalid event type {type_name!r}", "INVALID_EVENT_TYPE")
        if type_name in self._types and self._types[type_name] is not record:
            raise SessionError(f'event type "{type_name}" is declared already', "INVALID_EVENT_TYPE")
        self._types[type_name] = record

    def read(self, type_name: str, data: object, *, ignorable: bool) -> msgspec.Struct | None:
        """Return the typed reading of an event's data, or None where the type has no record.

        Raises:
            SessionError: ``UNKNOWN_EVENT_TYPE`` for a type that is neither known nor ignorable,
                ``INVALID_EVENT`` for data that its record does not take; the text says where.
        """
        try:
            record = self._types[type_name]
        except KeyError:
            if ignorable and type_name.isprintable():
                return None
            raise SessionError(
                f"unknown event type {type_name!r} that is not marked ignorable", "UNKNOWN_EVENT_TYPE"
            ) from None
        if record is None:
            return None
        try:
            return msgspec.convert(data, record)
        except msgspec.ValidationError as error:
            raise SessionError(f"{type_name}: {error}", "INVALID_EVENT") from error
