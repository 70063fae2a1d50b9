"""Content from authors, checked and frozen before anyone else reads it."""

from __future__ import annotations

from typing import Any, cast

from ..content import Content, ContentBlock, ImageBlock, JsonBlock, TextBlock, as_content
from ..errors import LossyJsonError
from ..json_value import snapshot
from ..messages import UserMessage

__all__ = ["checked_content", "checked_contexts"]


def checked_content(value: Any) -> Content | None:
    """Return author-made content as immutable blocks; None when it is not a list of blocks (D21).

    Raises:
        LossyJsonError: a block holds something that is not lossless JSON (PIPE-168).
    """
    if type(value) is tuple and _is_one_text(cast("tuple[Any, ...]", value)):
        return cast("Content", value)
    content = as_content(cast("object", value))
    if content is None:
        return None
    return tuple(_checked_block(block, index) for index, block in enumerate(content))


def _is_one_text(blocks: tuple[Any, ...]) -> bool:
    """What most tools return; it is known to be fine without a copy."""
    return len(blocks) == 1 and type(blocks[0]) is TextBlock and type(blocks[0].text) is str


def _checked_block(block: ContentBlock, index: int) -> ContentBlock:
    if isinstance(block, JsonBlock):
        return JsonBlock(snapshot(block.value))
    fields: tuple[object, ...] = (block.data, block.mime_type) if isinstance(block, ImageBlock) else (block.text,)
    if not all(type(field) is str for field in fields):
        raise LossyJsonError(f"[{index}]", f"a {type(block).__name__} holds something that is not a string")
    return block


def checked_contexts(value: Any) -> tuple[UserMessage, ...] | None:
    """Return author-made context messages as immutable copies; None when they are something else.

    Raises:
        LossyJsonError: a message's content is not lossless JSON.
    """
    if not isinstance(value, (list, tuple)):
        return None
    messages: list[UserMessage] = []
    for item in value:  # pyright: ignore[reportUnknownVariableType]
        content = checked_content(item.content) if isinstance(item, UserMessage) else None
        if content is None:
            return None
        messages.append(UserMessage(content, item.source, item.id))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return tuple(messages)
