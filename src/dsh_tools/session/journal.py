"""Journals: what is kept beside a session's log so that its calls can wait for a person, and go on (D34).

A log says what happened, for people and models. A journal holds what only the machine needs: the
canonical outcome of each step of a program, in the order in which the program was told, and the frozen
arguments of calls that wait. It is written at another pace, too: an outcome is kept before the program
gets it, in microseconds, where the log is stored a tick later.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from ..code_mode import JournalStep, ProgramFacts, ProgramJournal

__all__ = ["Journal", "JournalContents", "JournalRun", "OpenRun", "ParkedCall", "RunState", "journal_of", "new_run"]

RunState = Literal["running", "suspended", "done"]


class JournalRun(msgspec.Struct, frozen=True):
    """One program, as the journal has it.

    Parameters:
        facts: what its course depends on.
        seed: where its random numbers come from; hexadecimal digits.
        started_at: when it was run first, in milliseconds since the epoch.
        state: whether it runs, waits, or has ended.
        steps: its requests, by number.
    """

    facts: ProgramFacts
    seed: str
    started_at: int
    state: RunState = "running"
    steps: Sequence[JournalStep] = ()


class ParkedCall(msgspec.Struct, frozen=True):
    """A call of the model that waits for a person.

    Parameters:
        call_key: the place of its ``tool/call`` event.
        name: the tool.
        arguments: the frozen arguments, as they were shown and will run.
        arguments_digest: their digest.
        schema: the digest of the tool's schema; a call of another shape is not the one that was shown.
        state: ``parked``, or ``started`` once its body has begun after an approval.
    """

    call_key: int
    name: str
    arguments: Any
    arguments_digest: str
    schema: str
    state: Literal["parked", "started"] = "parked"


class JournalContents(msgspec.Struct):
    """All that a journal has of one session, by the place of the call.

    ``announced`` are programs that were about to be run; those without a run have not begun.
    """

    runs: dict[int, JournalRun] = {}
    parked: dict[int, ParkedCall] = {}
    announced: set[int] = set()


class OpenRun:
    """What a store's :class:`ProgramJournal` says of its run; how it is written is the store's.

    Parameters:
        session_id: the session.
        call_key: the place of the call of ``run_code``.
        run: the program's run, as it was when its journal was opened.
        logged: the calls that the session's log has already.
    """

    def __init__(self, session_id: str, call_key: int, run: JournalRun, logged: Mapping[str, object | None]) -> None:
        self.session_id = session_id
        self.call_key = call_key
        self.seed = run.seed
        self.started_at = run.started_at
        self.steps = run.steps
        self.logged = logged


class Journal(Protocol):
    """The journals of the sessions in one store. Sessions and calls are named by id and ``call_key``."""

    async def load(self, session_id: str) -> JournalContents:
        """Return what is kept of a session.

        Raises:
            SessionError: ``STORE_FAILED``, ``CORRUPT_LOG``.
        """
        ...

    async def known(self, session_id: str) -> Collection[int]:
        """Return the ``call_key`` of each call that something is kept of.

        Raises:
            SessionError: ``STORE_FAILED``.
        """
        ...

    def announce(self, session_id: str, call_key: int) -> None:
        """Note that a program is about to be run; a journal that cannot do it at once leaves it.

        Raises:
            SessionError: ``STORE_FAILED``.
        """
        ...

    async def begin_run(
        self, session_id: str, call_key: int, run: JournalRun, *, drop_others: bool = False
    ) -> ProgramJournal:
        """Begin the journal of a program; with ``drop_others`` nothing else of the session is needed any more.

        Raises:
            SessionError: ``STORE_FAILED``.
        """
        ...

    async def reopen_run(
        self, session_id: str, call_key: int, run: JournalRun, logged: Mapping[str, object | None]
    ) -> ProgramJournal:
        """Go on with the journal of a program, which :meth:`load` gave; ``logged`` is that of the program's journal.

        Raises:
            SessionError: ``STORE_FAILED``.
        """
        ...

    async def park(self, session_id: str, call: ParkedCall) -> None:
        """Keep a call that waits, or its new state; durable when this returns.

        Raises:
            SessionError: ``STORE_FAILED``.
        """
        ...

    async def forget(self, session_id: str) -> None:
        """Remove all that is kept of a session.

        Raises:
            SessionError: ``STORE_FAILED``.
        """
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


def journal_of(store: object) -> Journal | None:
    """Return the journal of a store: what its ``journal()`` gives; None for a store that has none."""
    find = getattr(store, "journal", None)
    return None if find is None else find()


def new_run(facts: ProgramFacts) -> JournalRun:
    """Return the run of a program that begins now."""
    return JournalRun(facts, secrets.token_hex(16), time.time_ns() // 1_000_000)
