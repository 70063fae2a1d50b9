"""The history in the order every provider insists on: each answer, then exactly one result for each call.

A log may hold what providers refuse: two calls of one id, a result whose call was summarised
away, a call that still waits. Refusing the whole conversation would help nobody.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from ..content import Content, ImageBlock, JsonBlock, TextBlock, content_text
from ..json_value import to_json_text
from ..messages import AssistantMessage, Message, ReasoningBlock, ToolCallBlock, ToolResultBlock

__all__ = ["Answer", "Exchange", "Said", "Spoken", "clean_text", "paired", "plain_text"]

_SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_NO_RESULT = "Error: no result of this tool call was recorded"


class Said(msgspec.Struct, frozen=True):
    """What stands in the user's role and is no result."""

    content: Content


class Answer(msgspec.Struct, frozen=True):
    """The result of one call, under the id the provider sees."""

    wire_id: str
    content: Content
    is_error: bool


class Spoken(msgspec.Struct, frozen=True):
    """What the model said, its calls under ids the provider takes, and their results in the same order."""

    blocks: tuple[TextBlock | ReasoningBlock | ToolCallBlock, ...]
    answers: tuple[Answer, ...]


Exchange: TypeAlias = Said | Spoken


def paired(messages: Sequence[Message]) -> list[Exchange]:
    """Put a history into exchanges.

    Ids become unique in the whole conversation, at most 40 characters, and of letters, digits,
    ``_`` and ``-``. Of calls that share an id, the first result belongs to the first call. A call
    without a result gets an error that says so; a result without a call becomes a user's text.
    """
    pairing = _Pairing()
    for message in messages:
        if isinstance(message, AssistantMessage):
            pairing.speak(message)
        else:
            pairing.listen(message.content)
    return pairing.finish()


class _Pairing:
    def __init__(self) -> None:
        self._found: list[Exchange] = []
        self._used: set[str] = set()
        # The last message of the model's: its blocks, its calls as (id, wire id), results by wire id,
        # and what was said before all its results had come.
        self._blocks: tuple[TextBlock | ReasoningBlock | ToolCallBlock, ...] = ()
        self._calls: list[tuple[str, str]] = []
        self._answers: dict[str, Answer] = {}
        self._said: list[Said] = []

    def speak(self, message: AssistantMessage) -> None:
        self._close()
        blocks: list[TextBlock | ReasoningBlock | ToolCallBlock] = []
        for block in message.content:
            if isinstance(block, ToolCallBlock):
                wire_id = self._wire_id(block.id)
                self._calls.append((block.id, wire_id))
                block = ToolCallBlock(wire_id, block.name, block.arguments)
            blocks.append(block)
        self._blocks = tuple(blocks)

    def listen(self, content: Sequence[object]) -> None:
        said: list[TextBlock | ImageBlock | JsonBlock] = []
        for block in content:
            if isinstance(block, ToolResultBlock):
                if not self._answer(block):
                    said.append(TextBlock("[result of an earlier tool call]\n" + content_text(block.content)))
            elif isinstance(block, (TextBlock, ImageBlock, JsonBlock)):
                said.append(block)
        if said:
            self._said.append(Said(tuple(said)))

    def finish(self) -> list[Exchange]:
        self._close()
        return self._found

    def _answer(self, block: ToolResultBlock) -> bool:
        for call_id, wire_id in self._calls:
            if call_id == block.tool_call_id and wire_id not in self._answers:
                self._answers[wire_id] = Answer(wire_id, block.content, block.is_error)
                return True
        return False

    def _close(self) -> None:
        if self._blocks:
            answers = tuple(
                self._answers.get(wire_id) or Answer(wire_id, (TextBlock(_NO_RESULT),), True)
                for _call_id, wire_id in self._calls
            )
            self._found.append(Spoken(self._blocks, answers))
        self._found.extend(self._said)
        self._blocks = ()
        self._calls.clear()
        self._answers.clear()
        self._said.clear()

    def _wire_id(self, call_id: str) -> str:
        base = call_id
        if not _SAFE_ID.fullmatch(call_id):
            digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
            base = f"{re.sub(r'[^A-Za-z0-9_-]', '_', call_id)[:24]}_{digest}"
        wire_id, number = base, 1
        while wire_id in self._used:
            number += 1
            wire_id = f"{base[:34]}_{number}"
        self._used.add(wire_id)
        return wire_id


def plain_text(content: Content) -> str:
    """Return content as text that can be sent: JSON blocks as JSON, a marker for each image."""
    shown = tuple(TextBlock(to_json_text(block.value)) if isinstance(block, JsonBlock) else block for block in content)
    return clean_text(content_text(shown))


def clean_text(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 request can carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
