"""The records of a session log: the event itself, and the data of each event type.

What is stored is the camelCase JSON form. A record here is the typed reading of it; keys that a
record does not name are kept in the log and ignored by the reading, so that data may grow.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ..content import Content
from ..messages import AssistantMessage, Usage, UserMessage
from ..tools.result import ErrorInfo

__all__ = [
    "SURFACE_TYPES",
    "Aborted",
    "ApprovalAsked",
    "ApprovalDecided",
    "ApprovalPolicy",
    "AssistantChunk",
    "AssistantMessageRecord",
    "Blocked",
    "CodeDispatch",
    "CodeDispatchStart",
    "Completed",
    "EndSeed",
    "Event",
    "Failed",
    "InboxClaim",
    "InboxEdit",
    "InboxInsert",
    "InboxRemove",
    "Interrupted",
    "MaxTokens",
    "ModelRetry",
    "Replace",
    "SessionHeader",
    "StepEnd",
    "StepStart",
    "SurfaceOp",
    "ToolCallRecord",
    "ToolResultRecord",
    "TurnEnd",
    "TurnEndReason",
    "TurnStart",
    "Waiting",
]

Ordinal: TypeAlias = Annotated[int, Meta(ge=1)]
"""The number of a turn, or of a step in its turn: 1-based, without gaps (HOST-124)."""

Seq: TypeAlias = Annotated[int, Meta(ge=0)]
Name: TypeAlias = Annotated[str, Meta(min_length=1)]


class Record(msgspec.Struct, frozen=True, rename="camel"):
    """The data of one event type; ``event_type`` is its name in the log."""

    event_type: ClassVar[str] = ""


# ── the log itself ─────────────────────────────────────────────────────────────


class Replace(msgspec.Struct, frozen=True, tag_field="op", tag="replace", rename="camel"):
    """Put this event in the place of the surface nodes from ``start`` to ``end`` (HOST-109, 110).

    Both are the ``seq`` of an event that is on the surface now, and both are included.
    """

    start: Seq
    end: Seq


SurfaceOp: TypeAlias = Literal["append"] | Replace
"""How an event enters the surface: at its end, or in the place of others (HOST-109)."""

SURFACE_TYPES: frozenset[str] = frozenset({"user/message", "assistant/message", "tool/result"})
"""The event types that a model sees; exactly these carry a ``surfaceOp`` (HOST-109)."""


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of a session log.

    Parameters:
        seq: its place in the log, from 0, without gaps (HOST-107).
        time: when it was appended, in milliseconds since the epoch.
        type: the event type, such as ``tool/call``.
        data: the event's data: a frozen JSON value.
        surface_op: how it enters the surface; only on surface types (HOST-109).
        source_event_seqs: the earlier events it stands on; only on surface types (HOST-110).
        ignorable: True where a reader that does not know the type may pass over it (HOST-115).
    """

    seq: Seq
    time: Seq
    type: Name
    data: Any
    surface_op: SurfaceOp | UnsetType = UNSET
    source_event_seqs: tuple[Seq, ...] | UnsetType = UNSET
    ignorable: bool | UnsetType = UNSET


class SessionHeader(msgspec.Struct, frozen=True, rename="camel"):
    """What is known of a session apart from its events; kept beside the log, not in it (HOST-116).

    Parameters:
        id: the session's name in its store.
        created_at: milliseconds since the epoch.
        cwd: the working directory that paths are relative to.
        parent_session: the session this one was forked or delegated from.
        seed_length: how many events were copied from the parent.
        origin: what started the session, in the starter's own words.
        delegation_depth: how many agents stand above this one.
        agent_preset: the name of the preset the agent was made from.
    """

    id: Name
    created_at: Seq
    version: Literal[0] = 0
    cwd: str | UnsetType = UNSET
    parent_session: str | UnsetType = UNSET
    seed_length: Seq | UnsetType = UNSET
    origin: str | UnsetType = UNSET
    delegation_depth: Seq | UnsetType = UNSET
    agent_preset: str | UnsetType = UNSET


class EndSeed(Record, frozen=True):
    """Everything before this event was copied in when the session began (HOST-113)."""

    event_type: ClassVar[str] = "session/end-seed"


# ── turns and steps ────────────────────────────────────────────────────────────


class Completed(msgspec.Struct, frozen=True, tag_field="kind", tag="completed", rename="camel"):
    """The model had nothing more to do."""


class Aborted(msgspec.Struct, frozen=True, tag_field="kind", tag="aborted", rename="camel"):
    """The turn was cancelled; ``reason`` says by whom."""

    reason: Literal["user", "parent", "hook", "disposed", "legacy"]


class Blocked(msgspec.Struct, frozen=True, tag_field="kind", tag="blocked", rename="camel"):
    """A policy refused to let the turn go on."""

    reason: str | UnsetType = UNSET


class Failed(msgspec.Struct, frozen=True, tag_field="kind", tag="error", rename="camel"):
    """The turn could not go on, because of the model's provider or of the harness itself."""

    message: str
    code: str


class MaxTokens(msgspec.Struct, frozen=True, tag_field="kind", tag="max-tokens", rename="camel"):
    """The model's answer hit its length limit (HOST-165)."""


class Interrupted(msgspec.Struct, frozen=True, tag_field="kind", tag="interrupted", rename="camel"):
    """The process died during the turn; written by repair (HOST-128)."""


class Waiting(msgspec.Struct, frozen=True, tag_field="kind", tag="waiting", rename="camel"):
    """The turn waits for a person and may be resumed by another process; repair leaves it alone (D34).

    Parameters:
        interrupted: True where the process died during the turn, and a later one has found that it can go on.
    """

    interrupted: bool | UnsetType = UNSET


TurnEndReason: TypeAlias = Completed | Aborted | Blocked | Failed | MaxTokens | Interrupted | Waiting


class TurnStart(Record, frozen=True):
    """A turn begins."""

    event_type: ClassVar[str] = "turn/start"
    turn: Ordinal


class TurnEnd(Record, frozen=True):
    """A turn is over (HOST-124)."""

    event_type: ClassVar[str] = "turn/end"
    turn: Ordinal
    reason: TurnEndReason


class StepStart(Record, frozen=True):
    """A step begins: one request to the model and the calls it asks for."""

    event_type: ClassVar[str] = "step/start"
    turn: Ordinal
    step: Ordinal


class StepEnd(Record, frozen=True):
    """A step is over; every call in it has its result."""

    event_type: ClassVar[str] = "step/end"
    turn: Ordinal
    step: Ordinal


# ── messages ───────────────────────────────────────────────────────────────────


class AssistantMessageRecord(Record, frozen=True):
    """What the model answered in a step; not on the surface where its content is empty (HOST-111)."""

    event_type: ClassVar[str] = "assistant/message"
    turn: Ordinal
    step: Ordinal
    message: AssistantMessage
    finish: str | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET


class AssistantChunk(Record, frozen=True):
    """A piece of an answer while it streams; never a message (HOST-111)."""

    event_type: ClassVar[str] = "assistant/chunk"
    turn: Ordinal
    step: Ordinal
    kind: Literal["text", "reasoning"]
    text: str


class ModelRetry(Record, frozen=True):
    """A request to the model failed and is sent again after ``delay_ms`` milliseconds."""

    event_type: ClassVar[str] = "model/retry"
    turn: Ordinal
    step: Ordinal
    attempt: Ordinal
    delay_ms: int
    code: str
    message: str


# ── tools ──────────────────────────────────────────────────────────────────────


class ToolCallRecord(Record, frozen=True):
    """A call the model asked for; ``arguments`` is its raw text, byte for byte (HOST-118)."""

    event_type: ClassVar[str] = "tool/call"
    turn: Ordinal
    step: Ordinal
    call_id: Name
    name: str
    arguments: str


class ToolResultRecord(Record, frozen=True):
    """The one result of a call (HOST-119 to 121).

    ``error`` is there only for failures that carry a code: read ``is_error`` of the message to
    know whether the call failed. The canonical value is never logged.
    """

    event_type: ClassVar[str] = "tool/result"
    turn: Ordinal
    step: Ordinal
    message: UserMessage
    error: ErrorInfo | UnsetType = UNSET
    meta: Any = UNSET


class CodeDispatchStart(Record, frozen=True):
    """A call made by a program has started (HOST-122)."""

    event_type: ClassVar[str] = "tool/code-dispatch-start"
    root_call_id: Name
    parent_call_id: Name
    sub_call_id: Name
    name: str
    arguments: Any


class CodeDispatch(Record, frozen=True):
    """A call made by a program has settled; exactly one for each start (HOST-122)."""

    event_type: ClassVar[str] = "tool/code-dispatch"
    root_call_id: Name
    parent_call_id: Name
    sub_call_id: Name
    name: str
    arguments: Any
    is_error: bool
    content: Content


# ── approval ───────────────────────────────────────────────────────────────────


class ApprovalAsked(Record, frozen=True):
    """A person was asked (HOST-84); the answer is bound to the digests of the arguments and the rules (D43).

    ``purpose`` is there only where something else than running the call was asked for.
    """

    event_type: ClassVar[str] = "approval/asked"
    id: Name
    tool_name: str
    call_id: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    arguments: Any = UNSET
    arguments_digest: str | UnsetType = UNSET
    policy_digest: str | UnsetType = UNSET
    purpose: str | UnsetType = UNSET


class ApprovalDecided(Record, frozen=True):
    """The answer to a question; exactly one for each (HOST-84). ``by`` says who gave it."""

    event_type: ClassVar[str] = "approval/decided"
    id: Name
    outcome: Literal["allowed-once", "rejected", "cancelled", "unavailable"]
    reason: str | UnsetType = UNSET
    remember: Any = UNSET
    by: str | UnsetType = UNSET


class ApprovalPolicy(Record, frozen=True):
    """Whether people are asked from now on (HOST-90)."""

    event_type: ClassVar[str] = "approval/policy"
    policy: Literal["ask", "never"]


# ── the inbox ──────────────────────────────────────────────────────────────────

InboxList: TypeAlias = Literal["next-step", "next-turn"]


class InboxInsert(Record, frozen=True):
    """A message waits for the next step or the next turn; its id is unique among those (HOST-192)."""

    event_type: ClassVar[str] = "inbox/insert"
    list: InboxList
    message: UserMessage


class InboxEdit(Record, frozen=True):
    """A waiting message was replaced by another with the same id."""

    event_type: ClassVar[str] = "inbox/edit"
    message: UserMessage


class InboxRemove(Record, frozen=True):
    """Waiting messages were taken back."""

    event_type: ClassVar[str] = "inbox/remove"
    ids: tuple[Name, ...]


class InboxClaim(Record, frozen=True):
    """Waiting messages were taken into a step; from now on they no longer wait (HOST-191)."""

    event_type: ClassVar[str] = "inbox/claim"
    ids: tuple[Name, ...]
