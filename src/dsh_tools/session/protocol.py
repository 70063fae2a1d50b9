"""What services and agents need of a session log, and the event as a value before it is appended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from ..messages import Message
from .events import Event, SurfaceOp

__all__ = ["EventDraft", "SessionLog"]


class EventDraft(msgspec.Struct, frozen=True):
    """An event before it has its place: what ``append`` takes, as a value."""

    type: str
    data: Any
    surface_op: SurfaceOp | None = None
    source_event_seqs: Sequence[int] | None = None
    ignorable: bool = False
    time: int | None = None


class SessionLog(Protocol):
    """What services and agents need of a log; :class:`EventLog` is the one that ships."""

    @property
    def id(self) -> str:
        """The session's id."""
        ...

    @property
    def events(self) -> Sequence[Event]:
        """All events, in order; a live read-only view."""
        ...

    @property
    def turn(self) -> int | None:
        """The number of the open turn, or None."""
        ...

    @property
    def step(self) -> int | None:
        """The number of the open step, or None."""
        ...

    def append(
        self,
        type: str,
        data: object,
        surface_op: object = None,
        source_event_seqs: Sequence[int] | None = None,
        *,
        ignorable: bool = False,
    ) -> Event:
        """Append one event; see :meth:`EventLog.append`."""
        ...

    def derive_messages(self) -> list[Message]:
        """Return the history a model sees; see :meth:`EventLog.derive_messages`."""
        ...

    async def flush(self) -> None:
        """Wait until everything appended so far is durable; see :meth:`EventLog.flush`."""
        ...
