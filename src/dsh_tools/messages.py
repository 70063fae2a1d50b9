"""Message records: what a conversation consists of, for the session log and for model adapters.

A message is immutable. Its JSON form is camelCase, tagged by ``role``, and its blocks are tagged by
``type``. A model's call arguments stay the raw text the model wrote (HOST-118).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from .content import Content, ContentBlock, ImageBlock, JsonBlock, TextBlock, text

__all__ = [
    "AssistantBlock",
    "AssistantMessage",
    "Message",
    "MessageSource",
    "ReasoningBlock",
    "ToolCallBlock",
    "ToolResultBlock",
    "Usage",
    "UserBlock",
    "UserMessage",
    "as_message",
    "record_json",
    "tool_result_message",
    "user_message",
]


class MessageSource(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who put a message into the conversation: ``kind`` is ``user``, ``tool``, ``plugin`` or ``job``."""

    kind: str
    plugin: str | None = None
    call_id: str | None = None


class ToolResultBlock(msgspec.Struct, frozen=True, tag_field="type", tag="tool-result", rename="camel"):
    """The answer to one tool call, as the model reads it (HOST-119)."""

    tool_call_id: str
    content: Content
    is_error: bool


class ReasoningBlock(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning", rename="camel"):
    """What a model thought before it answered.

    Parameters:
        text: the readable part; may be empty.
        signature: the provider's proof that the text is its own; needed to send the block back.
        redacted: the provider's encrypted form, where it keeps the text to itself.
    """

    text: str
    signature: str | UnsetType = UNSET
    redacted: str | UnsetType = UNSET


class ToolCallBlock(msgspec.Struct, frozen=True, tag_field="type", tag="tool-call", rename="camel"):
    """A call that a model asks for. ``arguments`` is the raw text, also where it is not JSON (HOST-118)."""

    id: str
    name: str
    arguments: str


UserBlock: TypeAlias = TextBlock | ImageBlock | JsonBlock | ToolResultBlock
AssistantBlock: TypeAlias = TextBlock | ReasoningBlock | ToolCallBlock


class UserMessage(msgspec.Struct, frozen=True, tag_field="role", tag="user", rename="camel"):
    """A message in the user's role: typed by a person, put in by a plugin or a job, or a tool's result.

    Parameters:
        content: the blocks; a tool's result is exactly one :class:`ToolResultBlock`.
        source: who put it there.
        id: names the message, where somebody has to find it again.
    """

    content: tuple[UserBlock, ...]
    source: MessageSource = MessageSource("user")
    id: str | UnsetType = UNSET


class AssistantMessage(msgspec.Struct, frozen=True, tag_field="role", tag="assistant", rename="camel"):
    """A message of the model's, its blocks in the order in which they came.

    Parameters:
        content: text, reasoning and calls.
        interrupted: True where the stream was cut short and only a prefix is known (HOST-166).
        model: the model that wrote it, where that is known.
    """

    content: tuple[AssistantBlock, ...]
    interrupted: bool | UnsetType = UNSET
    model: str | UnsetType = UNSET

    @property
    def tool_calls(self) -> tuple[ToolCallBlock, ...]:
        """The calls in this message, in the model's order."""
        return tuple(block for block in self.content if type(block) is ToolCallBlock)


Message: TypeAlias = UserMessage | AssistantMessage


class Usage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a request cost, in tokens; what the provider does not tell is 0."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


def user_message(content: str | Content, source: MessageSource | None = None, *, id: str | None = None) -> UserMessage:
    """Return a user message; a string becomes one text block."""
    blocks = text(content) if isinstance(content, str) else content
    return UserMessage(blocks, source or MessageSource("user"), UNSET if id is None else id)


def tool_result_message(
    call_id: str, content: tuple[ContentBlock, ...], is_error: bool, *, id: str | None = None
) -> UserMessage:
    """Return the message that answers the call ``call_id`` (HOST-119)."""
    return UserMessage(
        (ToolResultBlock(call_id, content, is_error),),
        MessageSource("tool", call_id=call_id),
        UNSET if id is None else id,
    )


def as_message(value: object) -> Message:
    """Read a message from its JSON form. Values inside JSON blocks are kept as they are, not copied.

    Raises:
        msgspec.ValidationError: the value is not a message; the text says where.
    """
    return msgspec.convert(value, Message)


def record_json(record: msgspec.Struct) -> dict[str, Any]:
    """Return the JSON form of a record of plain fields, nested records and tuples of them.

    Unlike ``msgspec.to_builtins`` it leaves values (the ``value`` of a JSON block, say) alone, so
    that their depth costs no stack; whoever keeps the result takes a snapshot of it.
    """
    tag, fields = _layout(type(record))
    result: dict[str, Any] = dict(tag)
    for attribute, key, default in fields:
        value = getattr(record, attribute)
        if value is UNSET or (default is not _NO_DEFAULT and value == default):
            continue
        result[key] = _json_field(value)
    return result


_NO_DEFAULT: Any = object()


def _json_field(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return record_json(value)
    if type(value) is tuple:
        return [_json_field(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


@lru_cache(maxsize=256)
def _layout(
    kind: type[msgspec.Struct],
) -> tuple[tuple[tuple[str, Any], ...], tuple[tuple[str, str, Any], ...]]:
    config = kind.__struct_config__
    tag = () if config.tag_field is None else ((config.tag_field, config.tag),)
    names = kind.__struct_fields__
    defaults: tuple[Any, ...] = (_NO_DEFAULT,) * len(names)
    if config.omit_defaults:
        known = kind.__struct_defaults__
        defaults = (_NO_DEFAULT,) * (len(names) - len(known)) + tuple(known)
    return tag, tuple(zip(names, kind.__struct_encode_fields__, defaults, strict=True))
