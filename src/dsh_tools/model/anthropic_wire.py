"""A request in the words of the messages API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from ..content import Content, ImageBlock, TextBlock
from ..errors import HarnessError
from ..json_value import parse_json
from ..messages import ReasoningBlock, ToolCallBlock
from .base import ModelRequest
from .exported import ExportedTools
from .pairing import Answer, Said, Spoken, clean_text, paired, plain_text

__all__ = ["CACHE", "message_list", "system_blocks", "tool_choice"]

CACHE = {"type": "ephemeral"}
"""Marks where the part of a request ends that the provider keeps for the next one."""


def message_list(request: ModelRequest, tools: ExportedTools, *, cache: bool) -> list[dict[str, Any]]:
    """Return the conversation: roles take turns, and results lead the message behind their calls."""
    messages: list[dict[str, Any]] = []
    for exchange in paired(request.messages):
        if isinstance(exchange, Spoken):
            blocks = _spoken(exchange, tools)
            if blocks:
                _add(messages, "assistant", blocks)
            _add(messages, "user", [_answer(answer) for answer in exchange.answers])
        else:
            _add(messages, "user", _said(exchange))
    if cache and messages and messages[-1]["role"] == "user":
        messages[-1]["content"][-1]["cache_control"] = CACHE
    return messages


def system_blocks(system: str, *, cache: bool) -> list[dict[str, Any]]:
    """Return the system prompt; the tools stand before it and are kept with it."""
    block: dict[str, Any] = {"type": "text", "text": clean_text(system)}
    return [{**block, "cache_control": CACHE}] if cache else [block]


def tool_choice(request: ModelRequest, tools: ExportedTools) -> dict[str, Any]:
    """Return the choice in the API's words."""
    known = {"auto": "auto", "none": "none", "required": "any"}.get(request.tool_choice)
    if known is not None:
        return {"type": known}
    return {"type": "tool", "name": tools.wire_name(request.tool_choice)}


def _add(messages: list[dict[str, Any]], role: str, blocks: list[dict[str, Any]]) -> None:
    if not blocks:
        return
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"].extend(blocks)
    else:
        messages.append({"role": role, "content": blocks})


def _spoken(exchange: Spoken, tools: ExportedTools) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for block in exchange.blocks:
        if isinstance(block, ToolCallBlock):
            name = tools.wire_name(block.name)
            blocks.append({"type": "tool_use", "id": block.id, "name": name, "input": _input(block.arguments)})
        elif isinstance(block, ReasoningBlock):
            blocks.extend(_reasoning(block))
        elif block.text.strip():
            # The API refuses text blocks that are blank.
            blocks.append({"type": "text", "text": clean_text(block.text)})
    return blocks


def _reasoning(block: ReasoningBlock) -> Sequence[dict[str, Any]]:
    """Only what the provider signed or encrypted itself can be sent back."""
    if block.redacted is not UNSET:
        return [{"type": "redacted_thinking", "data": block.redacted}]
    if block.signature is not UNSET:
        return [{"type": "thinking", "thinking": clean_text(block.text), "signature": block.signature}]
    return []


def _input(arguments: str) -> Any:
    """Return the arguments as the object the API insists on, also where the model wrote none."""
    try:
        value = parse_json(arguments)
    except HarnessError:
        return {"invalid_json": clean_text(arguments)}
    return value if isinstance(value, dict) else {"invalid_arguments": value}


def _answer(answer: Answer) -> dict[str, Any]:
    record: dict[str, Any] = {"type": "tool_result", "tool_use_id": answer.wire_id}
    content = _blocks(answer.content)
    if content:
        record["content"] = content
    if answer.is_error:
        record["is_error"] = True
    return record


def _said(exchange: Said) -> list[dict[str, Any]]:
    return _blocks(exchange.content)


def _blocks(content: Content) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for block in content:
        if isinstance(block, ImageBlock):
            source = {"type": "base64", "media_type": block.mime_type, "data": block.data}
            blocks.append({"type": "image", "source": source})
            continue
        shown = block.text if isinstance(block, TextBlock) else plain_text((block,))
        if shown.strip():
            blocks.append({"type": "text", "text": clean_text(shown)})
    return blocks
