"""What a model is shown of a server's result (HOST-237 to 239)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...content import Content, ContentBlock, ImageBlock, TextBlock
from ...json_value import to_json_text

__all__ = ["IMAGE_TYPES", "project", "result_value"]

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The kinds of image that models take."""


def result_value(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tool's value for a raw result: its blocks as they are, and the structured content if there is one.

    Results of the protocol's first version (``toolResult``) become text.
    """
    listed: object = result.get("content")
    if isinstance(listed, list):
        content = cast("list[Any]", listed)
    elif "toolResult" in result:
        content = [{"type": "text", "text": to_json_text(result["toolResult"])}]
    elif "structuredContent" in result:
        content = []
    else:
        content = [{"type": "text", "text": "(no output)"}]
    value: dict[str, Any] = {"content": content}
    if "structuredContent" in result:
        value["structuredContent"] = result["structuredContent"]
    return value


def project(raw_name: str, value: Mapping[str, Any]) -> Content:
    """Return the blocks that a model reads for a tool's value.

    Text that follows text is joined by newlines; what a model cannot be given leaves a line that says so.

    Parameters:
        raw_name: what the server calls the tool.
        value: as :func:`result_value` makes it.
    """
    blocks: Sequence[Any] = value["content"]
    show_images = all(_is_image(block) for block in blocks if _kind(block) == "image")
    shown: list[ContentBlock] = []
    run: list[str] = []
    for block in blocks:
        if show_images and _kind(block) == "image":
            _flush(run, shown)
            shown.append(ImageBlock(block["data"], block["mimeType"]))
        else:
            run.append(_text(block))
    _flush(run, shown)
    if shown:
        return tuple(shown)
    if "structuredContent" in value:
        return (TextBlock(to_json_text(value["structuredContent"], indent=2)),)
    return (TextBlock(f"({raw_name} returned no model-visible content)"),)


def _flush(run: list[str], shown: list[ContentBlock]) -> None:
    if run:
        shown.append(TextBlock("\n".join(run)))
        run.clear()


def _kind(block: Any) -> str:
    kind: object = cast("dict[str, object]", block).get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else "unknown"


def _is_image(block: Any) -> bool:
    """Whether a block is an image that a model can be given: a known type, and base64 in its one spelling."""
    data, kind = block.get("data"), block.get("mimeType")
    if not isinstance(data, str) or not data or kind not in IMAGE_TYPES:
        return False
    try:
        return base64.b64encode(base64.b64decode(data, validate=True)).decode() == data
    except (binascii.Error, ValueError):
        return False


def _text(block: Any) -> str:
    kind = _kind(block)
    if kind == "text" and isinstance(block.get("text"), str):
        return block["text"]
    if kind == "resource_link" and isinstance(block.get("uri"), str):
        name = block.get("name")
        return f"{name}: {block['uri']}" if isinstance(name, str) and name else block["uri"]
    if kind == "resource" and isinstance(block.get("resource"), dict):
        return _resource(block["resource"])
    if kind in ("image", "audio"):
        return f"[{kind} content of type {block.get('mimeType')} cannot be shown]"
    return f"[content of type {kind} cannot be shown]"


def _resource(resource: Mapping[str, Any]) -> str:
    uri, text = resource.get("uri"), resource.get("text")
    if isinstance(text, str):
        return f"[resource {uri}]\n{text}"
    return f"[resource {uri} of type {resource.get('mimeType')} is binary and cannot be shown]"
