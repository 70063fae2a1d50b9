"""What a model is to this package: something that turns a request into a stream of events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from ..kernel.abort import AbortSignal
from ..messages import Message, ReasoningBlock, ToolCallBlock, Usage
from ..tools.registered import ToolSchema

__all__ = [
    "Finish",
    "FinishReason",
    "ModelAdapter",
    "ModelEvent",
    "ModelFailed",
    "ModelFailure",
    "ModelRequest",
    "ReasoningDelta",
    "ReasoningDone",
    "Retrying",
    "TextDelta",
    "ToolCallDelta",
    "ToolCallDone",
]

FinishReason: TypeAlias = Literal["stop", "tool-calls", "max-tokens", "content-filter", "aborted", "other"]
"""Why a stream ended in order. ``aborted`` is the caller's signal."""


class ModelRequest(msgspec.Struct, frozen=True):
    """One request to a model.

    Parameters:
        messages: the history, oldest first.
        system: the system prompt; ``""`` sends none.
        tools: what the model may call.
        tool_choice: ``auto``, ``none``, ``required``, or the name of the one tool to call.
        max_tokens: the longest answer, in tokens; None leaves it to the adapter or the provider.
        temperature: how much chance there is; None leaves it to the provider.
        stop: texts at which the answer ends.
        extra: further fields of the provider's own request, merged into it as they are.
    """

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSchema, ...] = ()
    tool_choice: str = "auto"
    max_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    extra: Mapping[str, Any] = {}


class TextDelta(msgspec.Struct, frozen=True, tag_field="type", tag="text-delta", rename="camel"):
    """The next piece of the answer's text."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning-delta", rename="camel"):
    """The next piece of what the model thinks."""

    text: str


class ReasoningDone(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning-done", rename="camel"):
    """A block of reasoning is complete; it replaces its pieces, and has the provider's signature."""

    block: ReasoningBlock


class ToolCallDelta(msgspec.Struct, frozen=True, tag_field="type", tag="tool-call-delta", rename="camel"):
    """The next piece of a call's arguments, for showing it while it comes.

    Parameters:
        index: which call of this answer, from 0.
        id: the call's id, as far as it is known.
        name: the tool's name, as far as it is known.
        arguments: the piece of the arguments' text; pieces may split anything anywhere.
    """

    index: int
    id: str
    name: str
    arguments: str


class ToolCallDone(msgspec.Struct, frozen=True, tag_field="type", tag="tool-call-done", rename="camel"):
    """A call is complete. Its arguments are what the model wrote, JSON or not."""

    index: int
    call: ToolCallBlock


class ModelFailure(msgspec.Struct, frozen=True, rename="camel"):
    """Why a request to a model failed.

    Parameters:
        code: stable: ``RATE_LIMITED``, ``OVERLOADED``, ``PROVIDER_ERROR``, ``CONNECTION_FAILED``,
            ``TIMEOUT``, ``STREAM_CUT``, ``STREAM_INVALID``, ``QUOTA_EXCEEDED``, ``AUTHENTICATION``,
            ``MODEL_NOT_FOUND``, ``CONTEXT_TOO_LONG``, ``INVALID_REQUEST``, ``MODEL_ERROR``.
        message: what the provider said, for a person.
        retryable: whether the same request may succeed later.
        retry_after: how many seconds the provider asks to wait, if it does.
        status: the HTTP status, if there was one.
    """

    code: str
    message: str
    retryable: bool = False
    retry_after: float | None = None
    status: int | None = None


class Retrying(msgspec.Struct, frozen=True, tag_field="type", tag="retrying", rename="camel"):
    """The request failed and is sent again. Everything this stream has given so far is void.

    Parameters:
        attempt: how many attempts have failed.
        delay: how long the next one waits, in seconds.
        failure: why this one failed.
    """

    attempt: int
    delay: float
    failure: ModelFailure


class Finish(msgspec.Struct, frozen=True, tag_field="type", tag="finish", rename="camel"):
    """The stream is over, in order.

    Parameters:
        reason: why it ended.
        usage: what it cost, as far as the provider told.
        model: which model answered, in the provider's words; ``""`` where it did not say.
    """

    reason: FinishReason
    usage: Usage = Usage()
    model: str = ""


class ModelFailed(msgspec.Struct, frozen=True, tag_field="type", tag="failed", rename="camel"):
    """The stream is over because the request failed."""

    failure: ModelFailure


ModelEvent: TypeAlias = (
    TextDelta | ReasoningDelta | ReasoningDone | ToolCallDelta | ToolCallDone | Retrying | Finish | ModelFailed
)


class ModelAdapter(Protocol):
    """A model that can be asked.

    A stream ends in exactly one ``Finish`` or ``ModelFailed``; it raises nothing for what the
    provider or the network did. After an abort it ends soon, in ``Finish("aborted")``. Whoever
    stops reading early closes the stream (``aclose``), which ends the request.
    """

    @property
    def name(self) -> str:
        """Which model this is, for logs: ``provider:model``."""
        ...

    @property
    def accepts_images(self) -> bool:
        """Whether image blocks reach the model as images (HOST-217)."""
        ...

    def stream(self, request: ModelRequest, signal: AbortSignal) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model; the request is sent when the stream is first read."""
        ...

    async def close(self) -> None:
        """Let go of the connections; streams that are open fail."""
        ...
