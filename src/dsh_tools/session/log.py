"""The session log: append-only, in memory at once, in a store soon, and the history it folds to."""

from __future__ import annotations

import inspect
import logging
import time as clock_module
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import overload

import msgspec
from msgspec import UNSET

from ..errors import SessionError
from ..json_value import snapshot
from ..messages import Message, record_json
from .events import Event, SessionHeader
from .pending import PendingMessages
from .protocol import EventDraft
from .state import LogState
from .store import SessionWriter
from .surface import Surface, read_sources, read_surface_op
from .tail import Tail
from .vocabulary import EventVocabulary

__all__ = ["EventLog", "now_ms"]

_log = logging.getLogger("dsh_tools")


class EventLog:
    """One session's log.

    ``append`` is synchronous: the event is in memory and in the history when it returns. It goes
    to the store at the end of the loop's tick, together with its neighbours, in one transaction.
    It is *durable* when a ``flush`` that was called after it has returned; whatever must not be
    lost (the call before its body runs, say) is flushed first (HOST-127).

    A log belongs to the event loop's thread.

    Args:
        header: the session's header.
        vocabulary: the event types that may occur; the built-in ones by default.
        check_pairing: refuse results whose call is not pending in the open step (HOST-125).
        clock: gives the time in milliseconds since the epoch.
        publish: is told of every event after it is committed; contained like an observer.
    """

    def __init__(
        self,
        header: SessionHeader,
        *,
        vocabulary: EventVocabulary | None = None,
        check_pairing: bool = False,
        clock: Callable[[], int] | None = None,
        publish: Callable[[EventLog, Event], object] | None = None,
    ) -> None:
        self.header = header
        self._vocabulary = vocabulary or EventVocabulary()
        self._clock = clock or now_ms
        self._publish = publish
        self._events: list[Event] = []
        self._view = _View(self._events)
        self._surface = Surface(self._events.__getitem__)
        self._state = LogState(check_pairing=check_pairing)
        self._observers: dict[object, Callable[[Event], object]] = {}
        self._publishing = False
        self._closed = False
        self._owner: object = None
        self._tail: Tail | None = None

    def __repr__(self) -> str:
        return f"<EventLog {self.id!r} of {len(self._events)} events>"

    @property
    def id(self) -> str:
        """The session's id."""
        return self.header.id

    @property
    def events(self) -> Sequence[Event]:
        """All events, in order: a live view that cannot be changed."""
        return self._view

    @property
    def turn(self) -> int | None:
        """The number of the open turn, or None."""
        return self._state.turn if self._state.turn_open else None

    @property
    def step(self) -> int | None:
        """The number of the open step, or None."""
        return self._state.step if self._state.step_open else None

    @property
    def last_turn(self) -> int:
        """The number of the last turn that started; 0 before the first."""
        return self._state.turn

    @property
    def is_waiting(self) -> bool:
        """Whether the last turn waits for a person: it ended so, and has not been resumed (D34)."""
        return self._state.waiting

    @property
    def pending(self) -> PendingMessages:
        """The messages that wait for a step or a turn (HOST-192)."""
        return self._state.pending

    @property
    def surface(self) -> tuple[int, ...]:
        """The ``seq`` of each event a model sees, in that order; what a replacement refers to (HOST-110)."""
        return self._surface.nodes

    @property
    def is_live(self) -> bool:
        """Whether events can be appended: False once the log is closed."""
        return not self._closed

    @property
    def is_stored(self) -> bool:
        """Whether a store keeps this log."""
        return self._tail is not None

    @property
    def stored_length(self) -> int:
        """How many events are durable; a log without a store has none."""
        return 0 if self._tail is None else self._tail.stored

    # ── appending ──────────────────────────────────────────────────────────────

    def append(
        self,
        type: str,
        data: object,
        surface_op: object = None,
        source_event_seqs: Sequence[int] | None = None,
        *,
        ignorable: bool = False,
        time: int | None = None,
    ) -> Event:
        """Append one event and return it; its data is a frozen copy (HOST-107).

        Args:
            type: a type the vocabulary knows, or any type if ``ignorable``.
            data: a lossless JSON value, or a record of ``session.events``.
            surface_op: ``"append"`` or a ``Replace`` for the three surface types, otherwise None (HOST-109).
            source_event_seqs: the earlier events this one stands on (HOST-110).
            ignorable: True lets readers that do not know the type pass over it (HOST-115).
            time: milliseconds since the epoch; for repair and import, which must not invent times.

        Raises:
            LossyJsonError: the data is not JSON; the path says where.
            SessionError: the event breaks a rule of the log; the code says which. Whatever is
                raised, nothing has changed (HOST-108).
        """
        if self._closed:
            raise SessionError(f'session "{self.id}" is closed', "SESSION_NOT_LIVE")
        if self._publishing:
            raise SessionError("an observer of the log cannot append to it", "REENTRANT_APPEND")
        event = self._commit(type, data, surface_op, source_event_seqs, ignorable, time)
        if self._tail is not None:
            self._tail.add(event)
        if self._observers or self._publish is not None:
            self._notify(event)
        return event

    def append_draft(self, draft: EventDraft) -> Event:
        """Append an event given as a value; see :meth:`append`."""
        return self.append(
            draft.type,
            draft.data,
            draft.surface_op,
            draft.source_event_seqs,
            ignorable=draft.ignorable,
            time=draft.time,
        )

    def observe(self, observer: Callable[[Event], object]) -> Callable[[], object]:
        """Call ``observer(event)`` after each append; return a function that ends it.

        Observers are synchronous and contained: one that raises is logged, the event stands, and
        the others run (HOST-108, D16). An observer that appends is refused the append.

        Raises:
            SessionError: ``INVALID_OBSERVER``: the observer is a coroutine function.
        """
        if inspect.iscoroutinefunction(observer):
            raise SessionError("an observer of the log must be synchronous", "INVALID_OBSERVER")
        key = object()
        self._observers[key] = observer
        return partial(self._observers.pop, key, None)

    def _commit(
        self,
        type_name: str,
        data: object,
        surface_op: object,
        source_event_seqs: object,
        ignorable: bool,
        time: int | None,
    ) -> Event:
        """Check everything, then change everything."""
        seq = len(self._events)
        op = read_surface_op(type_name, surface_op)
        sources = read_sources(type_name, source_event_seqs, seq)
        frozen = snapshot(record_json(data) if isinstance(data, msgspec.Struct) else data)
        record = self._vocabulary.read(type_name, frozen, ignorable=ignorable)
        self._surface.check(record, op, sources)
        self._state.check(record, op, sources)
        event = Event(
            seq,
            self._clock() if time is None else time,
            type_name,
            frozen,
            op,
            sources,
            True if ignorable else UNSET,
        )
        self._events.append(event)
        if record is not None and op is not UNSET:
            self._surface.apply(seq, record, op)
        self._state.apply(seq, record, sources)
        return event

    def _notify(self, event: Event) -> None:
        self._publishing = True
        try:
            for observer in tuple(self._observers.values()):
                try:
                    observer(event)
                except Exception:
                    _log.exception("an observer of session %s failed on event %d", self.id, event.seq)
            if self._publish is not None:
                try:
                    self._publish(self, event)
                except Exception:
                    _log.exception("publishing event %d of session %s failed", event.seq, self.id)
        finally:
            self._publishing = False

    # ── reading ────────────────────────────────────────────────────────────────

    def derive_messages(self) -> list[Message]:
        """Return the history a model sees: a new list over shared immutable messages (HOST-111, 112)."""
        return self._surface.messages()

    # ── loading and keeping ────────────────────────────────────────────────────

    def load(self, events: Iterable[Event | EventDraft]) -> None:
        """Take in the events of a stored or copied session, each checked as an append is (HOST-113, 115).

        Nobody is told of them. The log must be empty.

        Raises:
            SessionError: the events are not a log this vocabulary can reconstruct; the text names the event.
        """
        if self._events:
            raise SessionError("only an empty log can be loaded", "INVALID_SEED")
        for seq, item in enumerate(events):
            if isinstance(item, Event) and item.seq != seq:
                raise SessionError(f"event {item.seq} stands in place {seq}", "CORRUPT_LOG")
            try:
                self._commit(
                    item.type,
                    item.data,
                    item.surface_op,
                    item.source_event_seqs,
                    item.ignorable is True,
                    item.time,
                )
            except SessionError as error:
                raise SessionError(f"event {seq}: {error.message}", error.code) from error

    def seed(self, events: Iterable[Event | EventDraft]) -> None:
        """Begin with the events of another log, and mark where they end (HOST-113).

        The mark ``session/end-seed`` is not repeated where the seed ends in one. Nobody is told.

        Raises:
            SessionError: as :meth:`load`.
        """
        self.load(events)
        if not self._events or self._events[-1].type != "session/end-seed":
            self._commit("session/end-seed", {}, None, None, False, None)

    def keep(self, writer: SessionWriter, stored: int) -> None:
        """Store events through ``writer`` from now on.

        Args:
            writer: the right to append to this session; the log closes it.
            stored: how many of the events that are here are stored already.
        """
        if self._tail is not None:
            raise SessionError(f'session "{self.id}" has a writer', "SESSION_BUSY")
        self._tail = Tail(writer, stored)
        for event in self._events[stored:]:
            self._tail.add(event)

    async def flush(self) -> None:
        """Wait until everything appended so far is durable. A log without a store has nothing to wait for.

        Raises:
            SessionError: the store could not keep it; the events stay here and the next flush tries
                again. Whoever needs durability stops at this (HOST-127).
        """
        if self._tail is not None:
            await self._tail.flush()

    async def close(self) -> None:
        """Flush, give the store's writer back, and refuse further appends.

        Raises:
            SessionError: the rest could not be stored; the log is closed all the same.
        """
        if self._closed:
            return
        self._closed = True
        if self._tail is not None:
            await self._tail.close()

    def claim(self, owner: object) -> Callable[[], object]:
        """Make ``owner`` the one live agent of this session; return a function that ends it.

        A log that is owned is never repaired (HOST-129).

        Raises:
            SessionError: ``SESSION_BUSY``: another owner is live.
        """
        if self._owner is not None and self._owner is not owner:
            raise SessionError(f'session "{self.id}" has a live agent', "SESSION_BUSY")
        self._owner = owner
        return partial(self._release, owner)

    @property
    def owner(self) -> object:
        """Whoever claimed the log, or None."""
        return self._owner

    def _release(self, owner: object) -> None:
        if self._owner is owner:
            self._owner = None


class _View(Sequence[Event]):
    """The events of a log, as they are now, for reading only."""

    __slots__ = ("_events",)

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Event, ...]: ...
    def __getitem__(self, index: int | slice) -> Event | tuple[Event, ...]:
        return tuple(self._events[index]) if isinstance(index, slice) else self._events[index]


def now_ms() -> int:
    """Return the time in milliseconds since the epoch."""
    return clock_module.time_ns() // 1_000_000
