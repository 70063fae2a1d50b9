"""Journals of sessions in memory: a call may wait for a person there, too, as long as the process lives."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from ..code_mode import JournalStep
from .journal import JournalContents, JournalRun, ParkedCall, RunState

__all__ = ["MemoryJournal"]


class MemoryJournal:
    """A :class:`Journal` that lasts as long as it is referred to."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], _MemoryRun] = {}
        self._parked: dict[tuple[str, int], ParkedCall] = {}
        self._announced: dict[tuple[str, int], None] = {}

    async def load(self, session_id: str) -> JournalContents:
        """Return what is kept of a session."""
        return JournalContents(
            {key: run.as_run() for (owner, key), run in self._runs.items() if owner == session_id},
            {key: call for (owner, key), call in self._parked.items() if owner == session_id},
            {key for owner, key in self._announced if owner == session_id},
        )

    async def known(self, session_id: str) -> set[int]:
        """Return the places of all calls that are known."""
        return {key for owner, key in (*self._runs, *self._parked, *self._announced) if owner == session_id}

    def announce(self, session_id: str, call_key: int) -> None:
        """Note that a program is about to be run."""
        self._announced[(session_id, call_key)] = None

    async def begin_run(
        self, session_id: str, call_key: int, run: JournalRun, *, drop_others: bool = False
    ) -> _MemoryRun:
        """Begin the journal of a program."""
        if drop_others:
            await self.forget(session_id)
        begun = self._runs[(session_id, call_key)] = _MemoryRun(run)
        return begun

    async def reopen_run(
        self, session_id: str, call_key: int, run: JournalRun, logged: Mapping[str, object | None]
    ) -> _MemoryRun:
        """Go on with the journal of a program."""
        found = self._runs[(session_id, call_key)]
        found.logged = logged
        found.state = "running"
        return found

    async def park(self, session_id: str, call: ParkedCall) -> None:
        """Keep a call that waits."""
        self._parked[(session_id, call.call_key)] = call

    async def forget(self, session_id: str) -> None:
        """Remove all that is kept of a session."""
        for table in (self._runs, self._parked, self._announced):
            for key in [key for key in table if key[0] == session_id]:
                del table[key]

    async def close(self) -> None:
        """Nothing is held."""


class _MemoryRun:
    """The journal of one program."""

    def __init__(self, run: JournalRun) -> None:
        self._run = run
        self._steps: dict[int, JournalStep] = {}
        self.state: RunState = "running"
        self.logged: Mapping[str, object | None] = {}

    @property
    def seed(self) -> str:
        return self._run.seed

    @property
    def started_at(self) -> int:
        return self._run.started_at

    @property
    def steps(self) -> Sequence[JournalStep]:
        return tuple(self._steps[number] for number in sorted(self._steps))

    def write(self, step: JournalStep) -> asyncio.Future[None] | None:
        self._steps[step.number] = step
        return None

    async def end(self, state: Literal["suspended", "done"]) -> None:
        self.state = state

    def close(self) -> None:
        """Nothing is held."""

    def as_run(self) -> JournalRun:
        return msgspec.structs.replace(self._run, state=self.state, steps=self.steps)
