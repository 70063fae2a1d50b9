"""An agent: a scope, a session, a model, and whatever drives its turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import pydantic

from ..content import Content, content_text
from ..errors import CallSuspended, SessionError
from ..kernel.abort import AbortController, AbortSignal
from ..messages import AssistantMessage, UserMessage
from ..model import ModelAdapter
from ..session import EventLog
from ..session.events import Aborted, Failed, TurnEndReason, Waiting
from .hooks import AGENT_DISPOSED, AGENT_IDLE, TURN_END
from .inbox import Inbox
from .resume import discard, pending_calls
from .resumption import Resumption
from .turn import run_turn

if TYPE_CHECKING:
    from ..kernel.context import Context
    from ..kernel.scope import Scope
    from ..services import Approval

__all__ = ["Agent", "AgentConfig", "TurnOutcome"]

AbortReason: TypeAlias = Literal["user", "parent", "hook", "disposed", "legacy"]


class AgentConfig(pydantic.BaseModel):
    """Settings of one agent.

    Parameters:
        instructions: what the system prompt begins with.
        max_parallel_tool_calls: how many tool bodies may overlap; 1 runs them one by one (HOST-144).
        max_steps: how many requests to the model a turn may take.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    instructions: str = ""
    max_parallel_tool_calls: int = pydantic.Field(default=10, ge=1, strict=True)
    max_steps: int = pydantic.Field(default=50, ge=1, strict=True)


class TurnOutcome:
    """How a turn ended, and what the model said last in it."""

    __slots__ = ("reason", "text")

    def __init__(self, reason: TurnEndReason, text: str) -> None:
        self.reason = reason
        self.text = text

    def __repr__(self) -> str:
        if isinstance(self.reason, Failed):
            return f"<TurnOutcome Failed {self.reason.code}: {self.reason.message}>"
        return f"<TurnOutcome {type(self.reason).__name__}: {self.text[:60]!r}>"


class Agent:
    """One agent. Made by ``ctx.agents.create``; ended by ``dispose()``.

    ``ctx`` is the agent's own scoped context: what is registered through it is the agent's alone.
    """

    def __init__(
        self, name: str, ctx: Context, session: EventLog, model: ModelAdapter, config: AgentConfig | None = None
    ) -> None:
        self.name = name
        self.ctx = ctx
        self.session = session
        self.model = model
        self.config = config if config is not None else AgentConfig()
        self.inbox = Inbox(session, self._wake)
        self.last_outcome: TurnOutcome | None = None
        self._turn_signal: AbortController | None = None
        self._driver: asyncio.Task[None] | None = None
        self._to_begin: Resumption | None = None
        self._resumption: Resumption | None = None
        self._resuming = False
        # What was cancelled last, and how often: a turn that is asked for may be cancelled before it begins.
        self._cancelled: AbortReason = "user"
        self._cancellations = 0
        self._detach: list[Callable[[], object]] = []
        self._ended: list[Callable[[], object]] = []
        self._ending: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<Agent {self.name!r}>"

    @property
    def scope(self) -> Scope:
        """The agent's scope: what it sees and which policies watch it."""
        assert self.ctx.scope is not None
        return self.ctx.scope

    @property
    def is_idle(self) -> bool:
        """Whether no turn is running and none is about to."""
        return self._driver is None

    @property
    def is_waiting(self) -> bool:
        """Whether the last turn waits for a person, and for :meth:`resume` or :meth:`discard_waiting`."""
        return self.session.is_waiting

    # ── running ───────────────────────────────────────────────────────────────

    async def run(self, message: str | Content | UserMessage, *, signal: AbortSignal | None = None) -> TurnOutcome:
        """Say something and wait until the agent is idle again; returns how its last turn ended.

        Cancelling the awaiting task, or firing ``signal``, cancels the turn; this returns or raises
        once every call of it has its result. A turn that is cancelled before it has begun is an aborted one, too;
        where the signal has fired already, nothing is said at all.

        Raises:
            SessionError: ``AGENT_DISPOSED``, or ``TURN_WAITING``: its turn waits for a person.
            asyncio.CancelledError: the awaiting task was cancelled.
        """
        self._require_alive()
        if self.is_waiting:
            raise SessionError(
                f'agent "{self.name}" waits for a person; go on with resume(), or give up what waits '
                "with discard_waiting(), before you say something",
                "TURN_WAITING",
            )
        if signal is not None and signal.aborted:
            return TurnOutcome(Aborted("parent"), "")
        before = self.last_outcome
        self.inbox.followup(message)
        return await self._until_idle(signal, before)

    async def resume(self, *, signal: AbortSignal | None = None) -> TurnOutcome:
        """Go on with a turn that waits for a person; returns how the turn that this begins ends (D34).

        The calls that wait run first, without a request to the model; a question that nobody has answered
        is put to people again. The session may have waited in another process.

        What is cancelled before any of the calls has been looked at, by ``signal``, by :meth:`cancel` or with the
        awaiting task, waits on as it did: its end is ``Waiting``. Later each of them gets its result.

        Raises:
            SessionError: ``NOT_WAITING``; ``AGENT_BUSY`` while a turn runs; ``RESUME_REFUSED`` where the
                program, a tool's schema, the language or the runtime has changed; ``CORRUPT_LOG`` where the
                journal is damaged; ``AGENT_DISPOSED``: nothing has run, and the session still waits.
            asyncio.CancelledError: the awaiting task was cancelled.
        """
        before, cancellations = self.last_outcome, self._cancellations
        resumption = await self._to_resume()
        self._require_waiting()
        if cancellations == self._cancellations and (signal is None or not signal.aborted):
            self._to_begin = resumption
            self._wake()
        return await self._until_idle(signal, before)

    async def check_resume(self) -> None:
        """Check that :meth:`resume` would go on, before anybody is asked about it; nothing is changed.

        Raises:
            SessionError: as :meth:`resume`.
        """
        await self._to_resume()

    async def _to_resume(self) -> Resumption:
        """Return what to go on with, if that can go on."""
        self._require_waiting()
        self._resuming = True
        try:
            return Resumption(self.session, await pending_calls(self))
        finally:
            self._resuming = False

    def _require_waiting(self) -> None:
        if self._driver is not None or self._resuming:
            raise SessionError(f'agent "{self.name}" is busy', "AGENT_BUSY")
        self._require_alive()
        if not self.is_waiting:
            raise SessionError(f'agent "{self.name}" waits for nobody', "NOT_WAITING")

    def _require_alive(self) -> None:
        if self._ending is not None:
            raise SessionError(f'agent "{self.name}" is disposed and goes on with nothing', "AGENT_DISPOSED")

    async def discard_waiting(self) -> None:
        """Give up the calls that wait for a person: each gets a result that says so, and the agent is free again.

        Raises:
            SessionError: ``NOT_WAITING``; ``AGENT_BUSY`` while a turn runs.
        """
        self._require_waiting()
        discard(self)
        await self.session.flush()

    async def _until_idle(self, signal: AbortSignal | None, before: TurnOutcome | None) -> TurnOutcome:
        """Wait until no turn is running; return the outcome of the last, if there was one after ``before``."""
        remove = None if signal is None else signal.add_callback(lambda: self.cancel("parent"))
        cancelled = False
        try:
            while self._driver is not None:
                try:
                    await asyncio.shield(self._driver)
                except asyncio.CancelledError:
                    cancelled = True
                    self.cancel("user")
        finally:
            if remove is not None:
                remove()
        if cancelled:
            raise asyncio.CancelledError
        if self.last_outcome is None or self.last_outcome is before:
            # Cancelled before it began: what waited still does, and what was to be said was taken back.
            return TurnOutcome(Waiting() if self.is_waiting else Aborted(self._cancelled), "")
        return self.last_outcome

    def cancel(self, reason: AbortReason = "user", *, keep_inbox: bool = False) -> None:
        """Cancel the turn that runs. What waited in the inbox is dropped, unless it is to be kept (HOST-159).

        A turn that waits for a person, and has not begun to go on, waits on.
        """
        self._cancelled = reason
        self._cancellations += 1
        self._to_begin = None
        if not keep_inbox:
            self.inbox.clear()
        if self._turn_signal is not None:
            self._turn_signal.abort(reason)

    async def idle(self) -> None:
        """Wait until no turn is running."""
        while self._driver is not None:
            await asyncio.shield(self._driver)

    def abort_reason(self, signal: AbortSignal) -> Aborted:
        """The turn's end for a cancellation, by the reason its signal carries."""
        reason = signal.reason
        if isinstance(reason, CallSuspended):
            return Aborted("disposed")
        known = ("user", "parent", "hook", "disposed")
        return Aborted(cast("AbortReason", reason) if reason in known else "user")

    def append_user_message(self, message: UserMessage) -> None:
        """Put a message at the end of the history."""
        self.session.append("user/message", message, "append")

    def _wake(self) -> None:
        if self._driver is None and self._ending is None and self._has_work():
            self._driver = asyncio.ensure_future(self._drive())

    async def _drive(self) -> None:
        """Run turns while something waits for one."""
        try:
            while self._has_work():
                self._turn_signal = AbortController()
                self._resumption, self._to_begin = self._to_begin, None
                try:
                    reason = await run_turn(self, self._turn_signal.signal, self._resumption)
                finally:
                    self._turn_signal = self._resumption = None
                self.last_outcome = TurnOutcome(reason, self._last_text())
                self.ctx.bus.emit(TURN_END, self, reason, scope=self.scope)
                if isinstance(reason, (Aborted, Waiting)):
                    break
        finally:
            self._driver = None
        self.ctx.bus.emit(AGENT_IDLE, self, scope=self.scope)

    def _has_work(self) -> bool:
        if self._ending is not None:
            return False
        if self.is_waiting:
            return self._to_begin is not None
        return bool(self.inbox.waiting("next-turn") or self.inbox.waiting("next-step"))

    def _last_text(self) -> str:
        for message in reversed(self.session.derive_messages()):
            if isinstance(message, AssistantMessage):
                blocks = [block for block in message.content if block.__struct_config__.tag == "text"]
                return content_text(cast("Content", tuple(blocks)))
        return ""

    # ── the end ───────────────────────────────────────────────────────────────

    def on_detach(self, detach: Callable[[], object]) -> None:
        """Call ``detach`` when the scope is unwound: what takes the agent off the list of those alive."""
        self._detach.append(detach)

    def on_ended(self, ended: Callable[[], object]) -> None:
        """Call ``ended`` when the agent's end is over, its session included."""
        self._ended.append(ended)

    def dispose(self) -> Awaitable[None]:
        """End the agent: cancel, drain, unwind the scope, detach the agent, detach its session (D15).

        A turn that waits for a person and can be suspended is suspended instead of cancelled, and one that has been
        resumed, and has run nothing yet that it had not run before, is left waiting (D34).

        Every caller awaits the same end (D13), and nothing that cancels a caller stops it.
        """
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        return asyncio.shield(self._ending)

    async def _end(self) -> None:
        if not self._suspend():
            self.cancel("disposed")
        self.inbox.close()
        await self.idle()
        try:
            await self.ctx.dispose()
        finally:
            for detach in self._detach:
                detach()
            self.ctx.root.bus.emit(AGENT_DISPOSED, self)
            try:
                await self.session.close()
            finally:
                for ended in self._ended:
                    ended()

    def _suspend(self) -> bool:
        """Let a turn wait on for another process, where it can; what runs beside a question is waited for."""
        approval = cast("Approval | None", self.ctx.get("approval"))
        if approval is not None and approval.suspend(self):
            return True
        # A question that cannot be suspended is withdrawn, and that is the end of its call.
        is_asking = approval is not None and any(request.agent is self for request in approval.pending)
        if is_asking or self._turn_signal is None or self._resumption is None or not self._resumption.may_be_left:
            return False
        self._turn_signal.abort(CallSuspended())
        return True
