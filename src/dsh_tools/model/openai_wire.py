"""A request in the words of the chat completions API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..content import Content, ContentBlock, ImageBlock, TextBlock
from ..messages import ReasoningBlock, ToolCallBlock
from .base import ModelRequest
from .exported import ExportedTools
from .pairing import Answer, Spoken, clean_text, paired, plain_text

__all__ = ["chat_messages", "tool_choice"]


def chat_messages(
    request: ModelRequest, tools: ExportedTools, *, send_reasoning: bool, send_images: bool
) -> list[dict[str, Any]]:
    """Return the conversation, the system prompt first.

    Results go right behind the answer whose calls they are. A result can only be text there, so
    images in results follow in a user's message.
    """
    messages: list[dict[str, Any]] = []
    if request.system:
        messages.append({"role": "system", "content": clean_text(request.system)})
    for exchange in paired(request.messages):
        if isinstance(exchange, Spoken):
            messages.extend(_spoken(exchange, tools, send_reasoning=send_reasoning))
            messages.extend(_answers(exchange.answers, send_images=send_images))
        else:
            messages.append({"role": "user", "content": _parts(exchange.content, send_images=send_images)})
    return messages


def tool_choice(request: ModelRequest, tools: ExportedTools) -> str | dict[str, Any]:
    """Return the choice: one of the three words, or the one tool by its wire name."""
    if request.tool_choice in ("auto", "none", "required"):
        return request.tool_choice
    return {"type": "function", "function": {"name": tools.wire_name(request.tool_choice)}}


def _spoken(exchange: Spoken, tools: ExportedTools, *, send_reasoning: bool) -> Iterator[dict[str, Any]]:
    message: dict[str, Any] = {"role": "assistant"}
    text = "".join(block.text for block in exchange.blocks if isinstance(block, TextBlock))
    calls = [_call(block, tools) for block in exchange.blocks if isinstance(block, ToolCallBlock)]
    reasoning = "".join(block.text for block in exchange.blocks if isinstance(block, ReasoningBlock))
    if text or not calls:
        message["content"] = clean_text(text)
    if calls:
        message["tool_calls"] = calls
    if send_reasoning and reasoning:
        message["reasoning_content"] = clean_text(reasoning)
    if text or calls or "reasoning_content" in message:
        yield message


def _call(block: ToolCallBlock, tools: ExportedTools) -> dict[str, Any]:
    # Servers that render the history into a prompt choke on an empty text; it means no arguments.
    arguments = block.arguments if block.arguments.strip() else "{}"
    function = {"name": tools.wire_name(block.name), "arguments": clean_text(arguments)}
    return {"id": block.id, "type": "function", "function": function}


def _answers(answers: Sequence[Answer], *, send_images: bool) -> Iterator[dict[str, Any]]:
    images: list[ContentBlock] = []
    for answer in answers:
        yield {"role": "tool", "tool_call_id": answer.wire_id, "content": plain_text(answer.content)}
        pictures = [block for block in answer.content if isinstance(block, ImageBlock)]
        if pictures and send_images:
            images += [TextBlock(f"[images of the result of {answer.wire_id}]"), *pictures]
    if images:
        yield {"role": "user", "content": _parts(tuple(images), send_images=True)}


def _parts(content: Content, *, send_images: bool) -> str | list[dict[str, Any]]:
    if not send_images or not any(isinstance(block, ImageBlock) for block in content):
        return plain_text(content)
    parts: list[dict[str, Any]] = []
    for block in content:
        if isinstance(block, ImageBlock):
            url = f"data:{block.mime_type};base64,{block.data}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        else:
            parts.append({"type": "text", "text": plain_text((block,))})
    return parts
