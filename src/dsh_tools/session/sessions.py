"""All sessions of an application: creating, resuming, forking, listing, importing (``ctx.sessions``)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from ..errors import SessionError
from ..kernel.hooks import EmitHook
from .events import Event, SessionHeader
from .journal import journal_of
from .log import EventLog, now_ms
from .open_end import OpenEnd
from .protocol import EventDraft
from .repair import repair_log
from .store import SessionStore, SessionSummary, StoredSession
from .vocabulary import EventVocabulary

if TYPE_CHECKING:
    from ..kernel.hooks import HookBus
    from ..kernel.scope import Scope

__all__ = ["SESSION_EVENT", "SESSION_OPEN", "Sessions", "new_session_id"]

_Field = TypeVar("_Field", str, int)

SESSION_EVENT: EmitHook[EventLog, Event] = EmitHook("session/event")
"""Observe each event after it is committed. Dispatched by the scope of the log's owner."""

SESSION_OPEN: EmitHook[EventLog] = EmitHook("session/open")
"""Observe that a session is live: created, forked or resumed."""


class Sessions:
    """The sessions in a store, and those of them that are live here.

    Args:
        store: where they are kept; the caller closes it.
        bus: where ``session/event`` and ``session/open`` are dispatched; None dispatches nothing.
        vocabulary: the event types that may occur; declare further ones before opening sessions.
        check_pairing: see :class:`EventLog`.
        clock: gives the time in milliseconds since the epoch.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        bus: HookBus | None = None,
        vocabulary: EventVocabulary | None = None,
        check_pairing: bool = False,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.store = store
        self.vocabulary = vocabulary or EventVocabulary()
        self._bus = bus
        self._check_pairing = check_pairing
        self._clock = clock or now_ms
        self._live: dict[str, EventLog] = {}

    # ── live sessions ──────────────────────────────────────────────────────────

    def live(self, session_id: str) -> EventLog | None:
        """Return the session's log if it is live here."""
        log = self._live.get(session_id)
        return log if log is not None and log.is_live else None

    def live_logs(self) -> list[EventLog]:
        """Return the logs that are live here."""
        return [log for log in self._live.values() if log.is_live]

    async def create(
        self,
        *,
        id: str | None = None,
        cwd: str | None = None,
        parent_session: str | None = None,
        origin: str | None = None,
        delegation_depth: int | None = None,
        agent_preset: str | None = None,
        seed: Sequence[Event | EventDraft] = (),
    ) -> EventLog:
        """Create a session and return its live log; see :class:`SessionHeader` for the fields.

        ``seed`` are events to begin with; see :meth:`EventLog.seed` (HOST-113).

        Raises:
            SessionError: ``SESSION_ALREADY_EXISTS``, ``INVALID_SESSION_ID``, ``STORE_FAILED``, or
                what is wrong with the seed; nothing was created.
        """
        header = SessionHeader(
            id=new_session_id(self._clock()) if id is None else id,
            created_at=self._clock(),
            cwd=_given(cwd),
            parent_session=_given(parent_session),
            seed_length=len(seed) if seed else UNSET,
            origin=_given(origin),
            delegation_depth=_given(delegation_depth),
            agent_preset=_given(agent_preset),
        )
        log = self._new_log(header)
        if seed:
            log.seed(seed)
        writer = await self.store.create(header, tuple(log.events))
        log.keep(writer, len(log.events))
        return self._announce(log)

    async def open(self, session_id: str, *, repair: bool = True, resume: bool = False) -> EventLog:
        """Resume a session: take the right to write, load its events, and close what a crash left open.

        The repair is durable when this returns (HOST-128). With ``resume`` calls that can go on are left
        pending in a turn that waits: programs with a journal, and calls that nobody has allowed yet (D34).
        An agent on the session goes on with them by ``agent.resume()``.

        Raises:
            SessionError: ``SESSION_NOT_FOUND``; ``SESSION_BUSY`` while it is live, here or elsewhere
                (HOST-129); ``UNKNOWN_EVENT_TYPE`` or another code for a log that cannot be
                reconstructed (HOST-115).
        """
        writer = await self.store.open(session_id)
        try:
            log = await self._loaded(session_id)
            log.keep(writer, len(log.events))
            if repair:
                repair_log(log, await self._resumable(log) if resume else ())
                await log.flush()
        except BaseException:
            await writer.close()
            raise
        return self._announce(log)

    async def fork(
        self, session_id: str, boundary: int | None = None, *, id: str | None = None, origin: str | None = None
    ) -> EventLog:
        """Create a session that begins with the first ``boundary`` events of another (HOST-114).

        The source may be live, here or elsewhere, or not; it stays as it is. Without a boundary
        all its events are taken.

        Raises:
            SessionError: ``SESSION_NOT_FOUND``; ``INVALID_BOUNDARY``: no such place in the source;
                ``OPEN_TURN``: the boundary is inside a turn, or right after one that still waits
                for a person; ``SESSION_ALREADY_EXISTS``.
        """
        source = await self.read(session_id)
        length = len(source.events)
        end = length if boundary is None else boundary
        if type(end) is not int or not 0 <= end <= length:
            raise SessionError(f"boundary must be from 0 to {length}, got {end!r}", "INVALID_BOUNDARY")
        seed = source.events[:end]
        if _in_turn(seed):
            raise SessionError(f"a fork at event {end} would cut through a turn", "OPEN_TURN")
        depth = source.header.delegation_depth
        return await self.create(
            id=id,
            cwd=None if source.header.cwd is UNSET else source.header.cwd,
            parent_session=session_id,
            origin=origin,
            delegation_depth=None if depth is UNSET else depth,
            agent_preset=None if source.header.agent_preset is UNSET else source.header.agent_preset,
            seed=seed,
        )

    async def close(self) -> None:
        """Close all live sessions. The store stays open.

        Raises:
            ExceptionGroup: sessions whose last events could not be stored; all are closed nevertheless.
        """
        failures: list[Exception] = []
        for log in tuple(self._live.values()):
            try:
                await log.close()
            except Exception as error:
                failures.append(error)
        self._live.clear()
        if failures:
            raise ExceptionGroup("sessions could not be stored to their end", failures)

    # ── all sessions ───────────────────────────────────────────────────────────

    async def read(self, session_id: str) -> StoredSession:
        """Return a session's header and events as they are now; those of a live one from memory.

        Raises:
            SessionError: ``SESSION_NOT_FOUND``, ``CORRUPT_LOG``, ``STORE_FAILED``.
        """
        live = self.live(session_id)
        if live is not None:
            return StoredSession(live.header, tuple(live.events))
        return await self.store.read(session_id)

    async def view(self, session_id: str) -> EventLog:
        """Return a session as a log that only reads: its history, its state, no appends, no repair.

        Raises:
            SessionError: as :meth:`open`, without ``SESSION_BUSY``.
        """
        log = await self._loaded(session_id)
        await log.close()
        return log

    async def list(
        self, *, cwd: str | None = None, parent_session: str | None = None, text: str | None = None
    ) -> list[SessionSummary]:
        """Return the sessions in the store, the most recently used first.

        Args:
            cwd: only those with this working directory.
            parent_session: only those forked or delegated from this one.
            text: only those whose title or id contains this text, in any case.
        """
        rows = await self.store.list_sessions()
        wanted = None if text is None else text.casefold()
        return [
            row
            for row in rows
            if (cwd is None or row.header.cwd == cwd)
            and (parent_session is None or row.header.parent_session == parent_session)
            and (wanted is None or wanted in row.title.casefold() or wanted in row.header.id.casefold())
        ]

    async def import_session(self, session: StoredSession, *, id: str | None = None) -> None:
        """Keep a session that was exported elsewhere, under its own id or another; it is not live then.

        Raises:
            SessionError: ``SESSION_ALREADY_EXISTS``, or why its events are not a log (HOST-113, 115).
        """
        header = session.header if id is None else msgspec.structs.replace(session.header, id=id)
        self._new_log(header).load(session.events)
        writer = await self.store.create(header, session.events)
        await writer.close()

    async def delete(self, session_id: str) -> None:
        """Remove a session that is not live.

        Raises:
            SessionError: ``SESSION_NOT_FOUND`` or ``SESSION_BUSY``.
        """
        await self.store.delete(session_id)

    # ── inside ─────────────────────────────────────────────────────────────────

    def _new_log(self, header: SessionHeader) -> EventLog:
        return EventLog(
            header,
            vocabulary=self.vocabulary,
            check_pairing=self._check_pairing,
            clock=self._clock,
            publish=None if self._bus is None else self._dispatch,
        )

    async def _loaded(self, session_id: str) -> EventLog:
        stored = await self.read(session_id)
        log = self._new_log(stored.header)
        log.load(stored.events)
        return log

    def _announce(self, log: EventLog) -> EventLog:
        self._live = {key: kept for key, kept in self._live.items() if kept.is_live}
        self._live[log.id] = log
        if self._bus is not None:
            self._bus.emit(SESSION_OPEN, log)
        return log

    async def _resumable(self, log: EventLog) -> set[int]:
        """The calls of the open turn that can go on in this process, by their place in the log."""
        journal = journal_of(self.store)
        if journal is None:
            return set()
        known = await journal.known(log.id)
        return {
            call.call_seq
            for call in OpenEnd(log.events).unanswered
            if call.call_seq is not None and (call.call_seq in known or call.question or call.held_over)
        }

    def _dispatch(self, log: EventLog, event: Event) -> None:
        if self._bus is not None:
            scope: Scope | None = getattr(log.owner, "scope", None)
            self._bus.emit(SESSION_EVENT, log, event, scope=scope)


def new_session_id(now: int) -> str:
    """Return a fresh id that sorts by time: the second ``now`` is in, in UTC, and 8 random digits."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime(now / 1000)) + secrets.token_hex(4)


def _given(value: _Field | None) -> _Field | UnsetType:
    return UNSET if value is None else value


def _in_turn(events: Iterable[Event]) -> bool:
    """Whether a log of these events has a turn that is not over, or over only until a person answers."""
    inside = False
    for event in events:
        if event.type == "turn/start":
            inside = True
        elif event.type == "turn/end":
            inside = event.data["reason"]["kind"] == "waiting"
    return inside
