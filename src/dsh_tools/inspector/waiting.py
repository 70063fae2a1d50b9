"""Questions of turns that wait: shown beside the pending ones, answered in the log, and gone on with (D34)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ..agent import TURN_END, Agent
from ..errors import HarnessError
from ..services import answer_question, open_questions
from ..session import EventLog, Sessions
from ..session.events import ApprovalAsked

if TYPE_CHECKING:
    from ..kernel import Context

__all__ = ["WaitingTurns"]

_log = logging.getLogger("dsh_tools")


class WaitingTurns:
    """The turns of this application's agents that wait for a person.

    Parameters:
        ctx: the context whose sessions are looked at; what was begun here ends with it.
        changed: called when a turn has ended, so that questions may have come or gone.
    """

    def __init__(self, ctx: Context, changed: Callable[[], object]) -> None:
        self._ctx = ctx
        self._tasks: set[asyncio.Task[None]] = set()
        ctx.on(TURN_END, lambda _agent, _reason: changed())
        ctx.effect(lambda: self.dispose, "waiting turns")

    def questions(self) -> list[tuple[Agent, ApprovalAsked]]:
        """Return the open questions of turns that wait here, oldest first."""
        sessions = cast("Sessions | None", self._ctx.get("sessions"))
        logs: list[EventLog] = [] if sessions is None else sessions.live_logs()
        return [
            (log.owner, asked)
            for log in logs
            if log.is_waiting and isinstance(log.owner, Agent)
            for asked in open_questions(log.events)
        ]

    def answer(
        self, question_id: str, outcome: str, reason: str | None, digest: str | None = None
    ) -> ApprovalAsked | None:
        """Answer a question and have its agent go on; None where no turn here waits for it."""
        for agent, asked in self.questions():
            if asked.id == question_id and outcome in ("allowed-once", "rejected"):
                task = asyncio.ensure_future(self._go_on(agent, question_id, outcome, reason, digest))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                return asked
        return None

    async def _go_on(
        self, agent: Agent, question_id: str, outcome: str, reason: str | None, digest: str | None
    ) -> None:
        given = "allowed-once" if outcome == "allowed-once" else "rejected"
        session = agent.session.id
        try:
            await answer_question(self._ctx.sessions, session, question_id, given, reason, digest=digest, by="page")
            await agent.resume()
        except HarnessError as error:
            _log.warning("session %s does not go on: %s", agent.session.id, error)

    async def dispose(self) -> None:
        """Let go of the turns that were gone on with; they end with their agents."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
