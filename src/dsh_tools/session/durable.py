"""Calls that are kept over the end of the process, and the plugin that keeps them (D34).

Mount the plugin where sessions are kept, and calls can wait for a person without a process that waits::

    ctx.plugin(JournalPlugin())

A program's calls are journaled then, its clock, its random numbers and its timers repeat themselves, and
where an approval is not given within ``suspend_after`` seconds the turn ends as waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET

from ..code_mode import DurableProgram, ProgramFacts, ProgramJournal, schema_digest
from ..errors import SessionError
from ..json_value import digest
from ..tools.registered import RegisteredTool
from ..tools.registry import RESERVED_NAME
from .events import CodeDispatch, CodeDispatchStart, Event, ToolResultRecord
from .journal import Journal, JournalRun, ParkedCall, journal_of, new_run
from .log import EventLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Sequence

    from ..kernel.context import Context
    from ..tools.execution import ToolExecution

__all__ = ["RESUME_REFUSED", "DurableModelCall", "JournalPlugin", "JournalService", "dispatches_since"]

RESUME_REFUSED: Final = "RESUME_REFUSED"
"""The code of a resumption that is refused because something has changed; the session stays waiting."""


class DurableModelCall(DurableProgram):
    """One call of the model in a session with a journal: the pipeline's ``DurableCall``.

    Parameters:
        journal: where its state is kept.
        log: the session's log.
        parked: what was kept of the call when it was suspended; None for a call that is new.
        run: what was kept of its program; None for one that has not begun.
    """

    def __init__(
        self, journal: Journal, log: EventLog, parked: ParkedCall | None = None, run: JournalRun | None = None
    ) -> None:
        self._journal = journal
        self._log = log
        self._parked = parked
        self._run = run
        self.call_key = -1
        self.is_resumed = False
        self.has_begun = False

    def starting(self, name: str, call_key: int, *, is_resumed: bool = False) -> None:
        """Take the place of the call in the log; a program is announced, so that it is known if it never begins."""
        self.call_key = call_key
        self.is_resumed = is_resumed
        if name == RESERVED_NAME and self._run is None:
            self._journal.announce(self._log.id, call_key)

    def begin(self, execution: ToolExecution) -> Awaitable[None] | None:
        """Note that the body of a call that was parked is about to be called; a new call is in the log already."""
        # A program that has run before repeats what it did, and says itself when it goes on.
        self.has_begun = self._run is None
        parked, self._parked = self._parked, None
        if parked is None:
            return None
        return self._journal.park(self._log.id, msgspec.structs.replace(parked, state="started"))

    async def park(self, execution: ToolExecution, tool: RegisteredTool | None) -> None:
        """Keep the frozen arguments of a call that is suspended before its body has begun.

        Its question is stored first: whoever finds the call parked can answer it.
        """
        await self._log.flush()
        call = ParkedCall(
            self.call_key,
            execution.name,
            execution.arguments,
            digest(execution.arguments),
            "" if tool is None else schema_digest(tool),
        )
        await self._journal.park(self._log.id, call)

    def goes_on(self) -> None:
        """Note that the program does something that its journal does not have."""
        self.has_begun = True

    async def open_program(self, facts: ProgramFacts) -> ProgramJournal:
        """Begin the journal of a program, or open the one that there is; see ``DurableProgram``."""
        session_id, run = self._log.id, self._run
        if run is None:
            others = {*await self._journal.known(session_id)} - {self.call_key}
            over = _all_answered(self._log, others)
            return await self._journal.begin_run(session_id, self.call_key, new_run(facts), drop_others=over)
        changes = run.facts.changes(facts)
        if changes:
            raise SessionError(f"the program cannot go on: {'; '.join(changes)}", RESUME_REFUSED)
        logged = dispatches_since(self._log.events, self.call_key)
        return await self._journal.reopen_run(session_id, self.call_key, run, logged)


def _all_answered(log: EventLog, calls: Collection[int]) -> bool:
    """Whether the store has the results of all these calls, so that nothing of them is needed any more."""
    if not calls:
        return False
    left = set(calls)
    events = log.events
    for seq in range(min(calls) + 1, log.stored_length):
        event = events[seq]
        if event.type == ToolResultRecord.event_type and event.source_event_seqs is not UNSET:
            left.difference_update(event.source_event_seqs)
    return not left


def dispatches_since(events: Sequence[Event], call_key: int) -> dict[str, Event | None]:
    """Return the calls of programs in a log from a place on: the event of the start, None for one that has settled."""
    found: dict[str, Event | None] = {}
    for seq in range(call_key + 1, len(events)):
        event = events[seq]
        if event.type == CodeDispatchStart.event_type:
            found[event.data["subCallId"]] = event
        elif event.type == CodeDispatch.event_type:
            found[event.data["subCallId"]] = None
    return found


class JournalService:
    """What agents find under ``journal``: who keeps the state of their calls."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def keeps(self, log: EventLog) -> bool:
        """Whether calls of this session's agent can be suspended and resumed.

        A delegated agent's cannot: whoever has delegated waits for it, and cannot wait for a turn that has ended.
        """
        return log.is_stored and log.header.delegation_depth is UNSET

    def new_call(
        self, log: EventLog, parked: ParkedCall | None = None, run: JournalRun | None = None
    ) -> DurableModelCall:
        """Return who keeps one call of the model."""
        return DurableModelCall(self.journal, log, parked, run)


class JournalPlugin:
    """Provides ``journal`` where the mounted store of sessions has journals; without one it changes nothing."""

    name = "journal"
    inject = ("sessions",)

    def apply(self, ctx: Context, config: object = None) -> None:
        """Provide the service."""
        journal = journal_of(ctx.sessions.store)
        if journal is not None:
            ctx.provide("journal", JournalService(journal))
