"""Questions of turns that wait: answered in the log, by whatever process they were asked, and gone on with (D34)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import msgspec

from ..agent import TURN_END, Agent
from ..errors import HarnessError, SessionError
from ..services import answer_question
from ..session import SessionHeader
from .stored import OpenQuestion, StoredQuestions, questions_with_times

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..kernel import Context
    from ..session import Sessions
    from .source import Source

__all__ = ["Resume", "WaitingQuestion", "WaitingTurns"]

_log = logging.getLogger("dsh_tools")

Resume: TypeAlias = Callable[[SessionHeader], "AbstractAsyncContextManager[Agent] | None"]
"""Opens a stored session that waits, and makes the agent that goes on with it; left when its turn has ended.

None says that it cannot go on here. It is also called to find that out, so nothing may happen before it is entered.
"""


class WaitingQuestion(msgspec.Struct, frozen=True):
    """A question that waits for an answer beyond the turn that asked it.

    Parameters:
        question: what was asked, where and when.
        agent: whose turn waits, where the agent lives here.
        goes_on: the turn goes on here with the answer; otherwise the answer is only kept.
        answerable: it can be answered from here at all.
    """

    question: OpenQuestion
    agent: Agent | None
    goes_on: bool
    answerable: bool


class WaitingTurns:
    """The turns that wait for a person: those of agents that live here, and those in the source's store.

    Parameters:
        ctx: the context whose sessions are looked at; what was begun here ends with it.
        source: where the stored sessions are.
        resume: goes on with stored sessions; None only keeps their answers.
        changed: called when questions may have come or gone.
        went_on: called with a session and how its turn has ended here: ``completed``, ``waiting`` and so on.
    """

    def __init__(
        self,
        ctx: Context,
        source: Source,
        resume: Resume | None,
        changed: Callable[[], object],
        went_on: Callable[[str, str], object],
    ) -> None:
        self._ctx = ctx
        self._source = source
        self._resume = resume
        self._changed = changed
        self._went_on = went_on
        self._stored = StoredQuestions(source)
        self._going: dict[str, asyncio.Task[None]] = {}
        self._closing = False
        ctx.on(TURN_END, lambda _agent, _reason: changed())
        ctx.effect(lambda: self.dispose, "waiting turns")

    @property
    def answers(self) -> bool:
        """Whether questions in the store can be answered from here."""
        return self._source.sessions is not None

    # ── what waits ────────────────────────────────────────────────────────────

    async def look(self) -> bool:
        """Look for questions in the store; say whether any have come or gone."""
        return await self._stored.look()

    def questions(self) -> list[WaitingQuestion]:
        """Return the open questions of turns that wait here; then those in the store, as they were last seen."""
        sessions = cast("Sessions | None", self._ctx.get("sessions"))
        live = [] if sessions is None else [log for log in sessions.live_logs() if isinstance(log.owner, Agent)]
        found = [
            WaitingQuestion(OpenQuestion(log.header, asked, since, True), cast("Agent", log.owner), True, True)
            for log in live
            if log.is_waiting
            for asked, since in questions_with_times(log.events)
        ]
        ours = {log.id for log in live}
        return found + [self._stored_one(question) for question in self._stored.found if question.header.id not in ours]

    def find(self, question_id: str) -> WaitingQuestion | None:
        """Return a question that can be answered here."""
        for one in self.questions():
            if one.question.asked.id == question_id and one.answerable:
                return one
        return None

    def _stored_one(self, question: OpenQuestion) -> WaitingQuestion:
        is_kept = self._source.sessions is not None
        goes_on = is_kept and self._resume is not None and self._resume(question.header) is not None
        return WaitingQuestion(question, None, goes_on, is_kept and (goes_on or question.waits))

    def how_to_go_on(self, waiting: WaitingQuestion) -> str:
        """Say how a session goes on that does not go on here."""
        return self._source.how_to_go_on(waiting.question.header.id)

    # ── answering ─────────────────────────────────────────────────────────────

    def is_going_on(self, session_id: str) -> bool:
        """Whether a session goes on here now, with an earlier answer."""
        return session_id in self._going

    async def answer(
        self, waiting: WaitingQuestion, outcome: str, reason: str | None, digest: str | None
    ) -> Literal["kept", "goes-on"]:
        """Answer a question. When this returns the answer is durable, and its turn goes on if it can.

        Raises:
            ApprovalError: see :func:`dsh_tools.services.answer_question`.
            SessionError: the session cannot go on, and why: nothing was answered. ``SESSION_BUSY`` while another
                process has it.
            ConfigError: what goes on with it cannot be set up.
        """
        answered: asyncio.Future[Literal["kept", "goes-on"]] = asyncio.get_running_loop().create_future()
        # Whoever asked may have left when it fails.
        answered.add_done_callback(lambda future: future.exception())
        session = waiting.question.header.id
        work = self._answered(waiting, outcome, reason, digest, answered)
        task = self._going[session] = asyncio.create_task(work)
        task.add_done_callback(lambda _task: self._ended(session))
        # Whoever asked for it may leave; an answer is given or not, never half.
        return await asyncio.shield(answered)

    async def _answered(
        self,
        waiting: WaitingQuestion,
        outcome: str,
        reason: str | None,
        digest: str | None,
        answered: asyncio.Future[Literal["kept", "goes-on"]],
    ) -> None:
        header, question = waiting.question.header, waiting.question.asked.id
        given = cast("Literal['allowed-once', 'rejected']", outcome)
        try:
            opened = self._opened(waiting)
            if opened is None:
                sessions = cast("Sessions", self._source.sessions)
                await answer_question(sessions, header.id, question, given, reason, digest=digest, by="page")
                answered.set_result("kept")
                return
            async with opened as agent:
                # Before the answer: one that nothing can act on is of no use.
                await agent.check_resume()
                sessions = agent.ctx.sessions
                await answer_question(sessions, header.id, question, given, reason, digest=digest, by="page")
                answered.set_result("goes-on")
                turn = asyncio.ensure_future(agent.resume())
                turn.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
                # Where this is cancelled the turn ends with its agent, which lets it wait on if it can.
                await asyncio.wait({turn})
            self._went_on(header.id, str(turn.result().reason.__struct_config__.tag))
        except BaseException as error:
            if not answered.done():
                answered.set_exception(_without_cancellation(error))
            elif isinstance(error, HarnessError):
                _log.warning("session %s does not go on: %s", header.id, error)
                self._went_on(header.id, error.message)
            else:
                raise

    def _opened(self, waiting: WaitingQuestion) -> AbstractAsyncContextManager[Agent] | None:
        if waiting.agent is not None:
            return _as_it_is(waiting.agent)
        return None if self._resume is None else self._resume(waiting.question.header)

    def _ended(self, session: str) -> None:
        task = self._going.pop(session)
        if not task.cancelled() and task.exception() is not None:
            _log.error("going on with session %s failed", session, exc_info=task.exception())
        if not self._closing:
            self._changed()

    async def dispose(self) -> None:
        """End what was gone on with here; a turn that waits for a person waits on."""
        self._closing = True
        while self._going:
            tasks = set(self._going.values())
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


@asynccontextmanager
async def _as_it_is(agent: Agent) -> AsyncGenerator[Agent]:
    """An agent that lives here anyway."""
    yield agent


def _without_cancellation(error: BaseException) -> BaseException:
    """The error for whoever waits for the answer to be taken; nobody has cancelled them."""
    if isinstance(error, asyncio.CancelledError):
        return SessionError("the page is closing; whether it was answered shows when it is opened again", "CLOSED")
    return error
