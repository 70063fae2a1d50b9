"""One call on its way through the pipeline: its identity, and the state that travels with it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from ..content import TextBlock
from ..messages import MessageSource, UserMessage
from .blocks import checked_contexts
from .stopping import CallNotes, PartialOutput

if TYPE_CHECKING:
    from ..kernel.abort import AbortSignal
    from ..kernel.scope import Scope
    from .stopping import CallStatus, StopReport
    from .trace import CallTrace

__all__ = [
    "AgentLike",
    "CallState",
    "CallToken",
    "DurableCall",
    "ToolCall",
    "ToolExecution",
    "ToolRunContext",
    "check_call",
]


_PLUGIN = MessageSource("plugin")


class AgentLike(Protocol):
    """Whoever makes calls: anything with a ``scope``. Policies and visibility follow that scope."""

    @property
    def scope(self) -> Scope | None:
        """The scope whose view of the registry the caller has."""
        ...


class CallToken(msgspec.Struct, eq=False):
    """The opaque identity of one execution, compared by identity (PIPE-89).

    A nested call hands its parent's token in; the registry accepts it only while that call is live (D21).
    """

    owner: object

    def __repr__(self) -> str:
        return f"<CallToken {'settled' if self.owner is None else 'live'} at {id(self):#x}>"

    def is_live_in(self, owner: object) -> bool:
        """Whether this token belongs to ``owner`` and its call has not settled yet."""
        return self.owner is owner

    def retire(self) -> None:
        """Mark the call as settled; from now on the token authorises nothing."""
        self.owner = None


class DurableCall(Protocol):
    """Who keeps what is known of one call over the end of the process; such a call may be suspended (D34)."""

    @property
    def call_key(self) -> int:
        """The place in the session's log of the model's call that this one is, or belongs to."""
        ...

    @property
    def is_resumed(self) -> bool:
        """Whether the model's call began in an earlier turn; people may have been asked about this one then."""
        ...

    @property
    def has_begun(self) -> bool:
        """Whether a body has been called, its own or one of its program's, beyond what was kept before."""
        ...

    def begin(self, execution: ToolExecution) -> Awaitable[None] | None:
        """Note that the body is about to be called; what is returned is awaited first.

        Raises:
            Exception: it could not be noted, so the body must not run.
        """
        ...


class ToolCall(msgspec.Struct, frozen=True, eq=False):
    """A request to run one tool.

    Parameters:
        name: the tool's name, as the model wrote it.
        arguments: JSON text from a model (``""`` counts as ``{}``), or a JSON value (PIPE-93, D25).
        call_id: the model's id for the call.
        root_call_id: the outermost call this one belongs to; defaults to ``call_id`` (PIPE-88).
        agent: the caller; its scope decides what is visible and which policies apply.
        parent: the live token of the call that makes this nested call.
        signal: the caller's abort signal; absent means that the caller never aborts (D21).
        by_program: a program calls a tool that was bound into it. Its arguments are a value whatever their
            type, a string too; and if the tool has gone, no policy looks at the call (CODE-84, 97).
        durable: who keeps the call's state; with it, a call that waits for a person may be suspended (D34).
    """

    name: str
    arguments: Any = ""
    call_id: str = "call"
    root_call_id: str | None = None
    agent: AgentLike | None = None
    parent: CallToken | None = None
    signal: AbortSignal | None = None
    by_program: bool = False
    durable: DurableCall | None = None


def check_call(call: object, taker: str) -> None:
    """Refuse what is no request to run a tool, or has a name or an id that is no text.

    Parameters:
        call: what was given.
        taker: who was given it, for the message.

    Raises:
        TypeError: it says what was expected where.
    """
    if not isinstance(call, ToolCall):
        raise TypeError(f'{taker} takes a ToolCall, such as ToolCall("name", arguments), got {call!r}')
    for field, value in (("name", call.name), ("call_id", call.call_id)):
        if not isinstance(cast("object", value), str):
            raise TypeError(f"{taker} takes a ToolCall whose {field} is a string, got {field}={value!r}")


class ToolRunContext(Protocol):
    """What a tool body gets beside its arguments."""

    @property
    def call_id(self) -> str:
        """The model's id for the call."""
        ...

    @property
    def root_call_id(self) -> str:
        """The outermost call this one belongs to."""
        ...

    @property
    def name(self) -> str:
        """The tool's name."""
        ...

    @property
    def agent(self) -> AgentLike | None:
        """The caller, if there is one."""
        ...

    @property
    def token(self) -> CallToken:
        """This execution's identity; hand it on as ``parent`` of nested calls."""
        ...

    @property
    def signal(self) -> AbortSignal:
        """Fires when the body should stop."""
        ...

    def defer_context(self, context: UserMessage | str) -> None:
        """Add a message that the model reads after this batch of calls (PIPE-169)."""
        ...

    def conclude_turn(self) -> None:
        """End the agent's turn after this batch, if the call succeeds (PIPE-173)."""
        ...

    def progress(self, value: object) -> None:
        """Tell observers how far the body is; never blocks, never reaches the model."""
        ...


class ProgressSink(Protocol):
    """Whoever hands progress on to observers; the pipeline's service."""

    def report_progress(self, execution: ToolExecution, value: object) -> None:
        """Deliver one progress value, contained like every observer call."""
        ...


class CallState(msgspec.Struct, eq=False):
    """The pipeline's own notes on one execution. Listeners have no business here.

    ``caller_signal`` is the signal captured at entry (PIPE-146); ``cancelled`` is a native
    cancellation of the awaiting task (D30); ``phase`` is 0 until just before the body is called (PIPE-199), 1 while
    it runs, 2 when it has ended; ``notes`` is what only some calls have to note;
    ``durable`` keeps what is known of the call over the end of the process.
    """

    sink: ProgressSink
    caller_signal: AbortSignal
    contexts: list[UserMessage] | None = None
    concludes: bool = False
    phase: int = 0
    cancelled: bool = False
    frozen: bool = False
    trace: CallTrace | None = None
    durable: DurableCall | None = None
    notes: CallNotes | None = None

    @property
    def body_ran(self) -> bool:
        """Whether the body has been called."""
        return self.phase > 0

    def note(self) -> CallNotes:
        """Return the call's notes, made now if there are none."""
        if self.notes is None:
            self.notes = CallNotes()
        return self.notes


class ToolExecution(msgspec.Struct, eq=False):
    """One execution, as every listener, guard, wrapper, body and observer sees it.

    All fields are read-only, but for ``signal``, which a ``tools/execute`` wrapper may replace
    until the execution is frozen (PIPE-98, 180). It is also the body's :class:`ToolRunContext`.
    """

    call_id: str
    root_call_id: str
    name: str
    arguments: Any
    agent: AgentLike | None
    parent: CallToken | None
    token: CallToken
    signal: AbortSignal
    state: CallState

    def __setattr__(self, key: str, value: object) -> None:
        if key != "signal":
            raise AttributeError(f"execution.{key} is read-only")
        if self.state.frozen:
            raise AttributeError("execution.signal is frozen: the call has settled")
        if value is None:
            raise AttributeError("execution.signal may be replaced, not removed")
        super().__setattr__(key, value)

    @property
    def scope(self) -> Scope | None:
        """The caller's scope, by which listeners are admitted (PIPE-37)."""
        return None if self.agent is None else self.agent.scope

    @property
    def status(self) -> CallStatus:
        """Where the call stands now: ``queued``, ``running``, ``stopping`` or ``stopped``."""
        state = self.state
        notes = state.notes
        if state.frozen or state.phase > 1:
            return "stopped"
        if state.phase == 0 or (notes is not None and notes.waiting):
            return "queued"
        watch = None if notes is None else notes.watch
        told = state.cancelled or state.caller_signal.aborted or self.signal.aborted
        return "stopping" if told or (watch is not None and watch.stopping_since is not None) else "running"

    @property
    def stop(self) -> StopReport | None:
        """How the body stopped, if it was told to; None for all others."""
        notes = self.state.notes
        return None if notes is None else notes.stop

    @property
    def partial_output(self) -> PartialOutput | None:
        """The text that the body has reported before it was told to stop."""
        notes = self.state.notes
        return None if notes is None else notes.output

    @property
    def log_label(self) -> str:
        """How a log line calls this execution (PIPE-181)."""
        return f'tool "{self.name}", call {self.call_id}'

    def defer_context(self, context: UserMessage | str) -> None:
        """Add a message that the model reads after this batch of calls (PIPE-169).

        Raises:
            TypeError: it is neither a string nor a message of text, images and JSON.
            LossyJsonError: its content is not lossless JSON.
        """
        if self.state.frozen:
            return
        given = UserMessage((TextBlock(context),), _PLUGIN) if isinstance(context, str) else context
        messages = checked_contexts((given,))
        if messages is None:
            raise TypeError(f"defer_context() takes a string or a UserMessage of content blocks, got {context!r}")
        self.state.contexts = [*(self.state.contexts or ()), *messages]

    def conclude_turn(self) -> None:
        """End the agent's turn after this batch, if the call succeeds (PIPE-173)."""
        self.state.concludes = True

    def progress(self, value: object) -> None:
        """Tell observers of ``tools/progress`` how far the body is; ignored once the call has settled.

        Text is kept, too: the model reads it if the call is stopped before its end.
        """
        state = self.state
        if state.frozen:
            return
        if isinstance(value, str) and not self.signal.aborted:
            notes = state.note()
            if notes.output is None:
                notes.output = PartialOutput()
            notes.output.add(value)
        state.sink.report_progress(self, value)
