"""Content blocks: what a model, a terminal and a page are shown.

A block is an immutable record. Its JSON form is the wire form: ``{"type": "text", "text": …}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

__all__ = [
    "Content",
    "ContentBlock",
    "ImageBlock",
    "JsonBlock",
    "TextBlock",
    "as_content",
    "content_text",
    "text",
]


class TextBlock(msgspec.Struct, frozen=True, tag_field="type", tag="text", rename="camel"):
    """A run of text."""

    text: str


class ImageBlock(msgspec.Struct, frozen=True, tag_field="type", tag="image", rename="camel"):
    """An image: ``data`` is base64 text, ``mime_type`` its media type."""

    data: str
    mime_type: str


class JsonBlock(msgspec.Struct, frozen=True, tag_field="type", tag="json", rename="camel"):
    """A JSON value that is shown as such. The value is a frozen snapshot."""

    value: Any


ContentBlock: TypeAlias = TextBlock | ImageBlock | JsonBlock
Content: TypeAlias = tuple[ContentBlock, ...]

_BLOCK_TYPES = (TextBlock, ImageBlock, JsonBlock)


def text(value: str) -> Content:
    """Return content of one text block."""
    return (TextBlock(value),)


def as_content(value: object) -> Content | None:
    """Read a list of blocks, given as records or as their JSON form; None when it is something else.

    A bare string is not content: the contract wants a list of blocks (D21, D37).
    """
    if not isinstance(value, (list, tuple)):
        return None
    blocks: list[ContentBlock] = []
    for item in value:  # pyright: ignore[reportUnknownVariableType]
        if isinstance(item, _BLOCK_TYPES):
            blocks.append(item)
            continue
        if not isinstance(item, dict):
            return None
        try:
            blocks.append(msgspec.convert(item, ContentBlock))
        except (msgspec.ValidationError, TypeError):
            return None
    return tuple(blocks)


def content_text(content: Sequence[ContentBlock]) -> str:
    """Flatten content to text; a block that is not text leaves the marker ``[<type> content]`` (PIPE-164)."""
    parts: list[str] = []
    for block in content:
        if type(block) is TextBlock:
            parts.append(block.text)
        else:
            parts.append(f"[{block.__struct_config__.tag} content]")
    return "\n".join(parts)
