"""An agent: a scope, a session, a model, and whatever drives its turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import pydantic

from ..content import Content, content_text
from ..errors import SessionError
from ..kernel.abort import AbortController, AbortSignal
from ..messages import AssistantMessage, UserMessage
from ..model import ModelAdapter
from ..session import EventLog
from ..session.events import Aborted, Failed, TurnEndReason, Waiting
from .hooks import AGENT_DISPOSED, AGENT_IDLE, TURN_END
from .inbox import Inbox
from .resume import PendingCall, discard, pending_calls
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
        self._pending: list[PendingCall] = []
        self._resuming = False
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
        once every call of it has its result.

        Raises:
            SessionError: the agent is disposed, or ``TURN_WAITING``: its turn waits for a person.
            asyncio.CancelledError: the awaiting task was cancelled.
        """
        if self.is_waiting:
            raise SessionError(
                f'agent "{self.name}" waits for a person; go on with resume(), or give up what waits '
                "with discard_waiting(), before you say something",
                "TURN_WAITING",
            )
        self.inbox.followup(message)
        return await self._until_idle(signal)

    async def resume(self, *, signal: AbortSignal | None = None) -> TurnOutcome:
        """Go on with a turn that waits for a person; returns how the turn that this begins ends (D34).

        The calls that wait run first, without a request to the model; a question that nobody has answered
        is put to people again. The session may have waited in another process.

        Raises:
            SessionError: ``NOT_WAITING``; ``AGENT_BUSY`` while a turn runs; ``RESUME_REFUSED`` where the
                program, a tool's schema, the language or the runtime has changed: nothing has run, and the
                session still waits.
            asyncio.CancelledError: the awaiting task was cancelled.
        """
        self._pending = await self._to_resume()
        self._wake()
        return await self._until_idle(signal)

    async def check_resume(self) -> None:
        """Check that :meth:`resume` would go on, before anybody is asked about it; nothing is changed.

        Raises:
            SessionError: as :meth:`resume`.
        """
        await self._to_resume()

    async def _to_resume(self) -> list[PendingCall]:
        """Return the calls to go on with, if they can."""
        self._require_waiting()
        self._resuming = True
        try:
            return await pending_calls(self)
        finally:
            self._resuming = False

    def _require_waiting(self) -> None:
        if self._driver is not None or self._resuming:
            raise SessionError(f'agent "{self.name}" is busy', "AGENT_BUSY")
        if self._ending is not None:
            raise SessionError(f'agent "{self.name}" is disposed and goes on with nothing', "AGENT_DISPOSED")
        if not self.is_waiting:
            raise SessionError(f'agent "{self.name}" waits for nobody', "NOT_WAITING")

    async def discard_waiting(self) -> None:
        """Give up the calls that wait for a person: each gets a result that says so, and the agent is free again.

        Raises:
            SessionError: ``NOT_WAITING``; ``AGENT_BUSY`` while a turn runs.
        """
        self._require_waiting()
        discard(self)
        await self.session.flush()

    async def _until_idle(self, signal: AbortSignal | None) -> TurnOutcome:
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
        assert self.last_outcome is not None
        return self.last_outcome

    def cancel(self, reason: AbortReason = "user", *, keep_inbox: bool = False) -> None:
        """Cancel the turn that runs. What waited in the inbox is dropped, unless it is to be kept (HOST-159)."""
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
                pending, self._pending = self._pending, []
                try:
                    reason = await run_turn(self, self._turn_signal.signal, pending)
                finally:
                    self._turn_signal = None
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
            return bool(self._pending)
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

        A turn that waits for a person and can be suspended is suspended instead of cancelled (D34).

        Every caller awaits the same end (D13), and nothing that cancels a caller stops it.
        """
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        return asyncio.shield(self._ending)

    async def _end(self) -> None:
        # A turn that waits for a person waits on, for another process; what runs beside the question is waited for.
        approval = cast("Approval | None", self.ctx.get("approval"))
        if approval is None or not approval.suspend(self):
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
