"""An answer put together from its stream."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from ..content import TextBlock
from ..messages import AssistantBlock, AssistantMessage, ReasoningBlock, ToolCallBlock
from .base import (
    Finish,
    ModelEvent,
    ModelFailed,
    ReasoningDelta,
    ReasoningDone,
    Retrying,
    TextDelta,
    ToolCallDone,
)

__all__ = ["AnswerCollector", "join_pieces"]

_log = logging.getLogger("dsh_tools")


class AnswerCollector:
    """Takes a stream's events in and gives the message they make.

    Text and reasoning that follow each other are one block each; calls stand where they were
    complete. ``Retrying`` begins anew.
    """

    def __init__(self) -> None:
        self._blocks: list[AssistantBlock] = []
        self._pieces: list[str] = []
        self._kind: type[TextBlock] | type[ReasoningBlock] = TextBlock
        self.end: Finish | ModelFailed | None = None

    def feed(self, event: ModelEvent) -> None:
        """Take one event in."""
        if isinstance(event, TextDelta):
            self._piece(TextBlock, event.text)
        elif isinstance(event, ReasoningDelta):
            self._piece(ReasoningBlock, event.text)
        elif isinstance(event, ReasoningDone):
            if self._kind is ReasoningBlock:
                self._pieces.clear()
            self._close_run()
            self._blocks.append(event.block)
        elif isinstance(event, ToolCallDone):
            self._close_run()
            self._blocks.append(event.call)
        elif isinstance(event, Retrying):
            self._blocks.clear()
            self._pieces.clear()
        elif isinstance(event, (Finish, ModelFailed)):
            self._close_run()
            self.end = event
            self._report_duplicates()

    @property
    def complete(self) -> bool:
        """Whether the stream ended in order and was not aborted."""
        return isinstance(self.end, Finish) and self.end.reason != "aborted"

    def message(self) -> AssistantMessage | None:
        """Return the answer, or None where there is nothing to keep.

        An answer that was cut short by an abort or a failure keeps its visible prefix and is marked
        ``interrupted``; its calls are left out, since they may be incomplete (HOST-166). An answer
        that hit its length limit loses its calls for the same reason (HOST-165). A complete answer
        is kept even if it is empty.
        """
        blocks = (*self._blocks, *([self._kind(join_pieces(self._pieces))] if self._pieces else []))
        if self.complete:
            if isinstance(self.end, Finish) and self.end.reason == "max-tokens":
                blocks = _without_calls(blocks)
            return AssistantMessage(blocks, model=self._model())
        blocks = _without_calls(blocks)
        if not any(isinstance(block, (TextBlock, ReasoningBlock)) and block.text for block in blocks):
            return None
        return AssistantMessage(blocks, interrupted=True, model=self._model())

    def _model(self) -> str | UnsetType:
        return self.end.model if isinstance(self.end, Finish) and self.end.model else UNSET

    def _piece(self, kind: type[TextBlock] | type[ReasoningBlock], text: str) -> None:
        if kind is not self._kind:
            self._close_run()
            self._kind = kind
        if text:
            self._pieces.append(text)

    def _close_run(self) -> None:
        if self._pieces:
            self._blocks.append(self._kind(join_pieces(self._pieces)))
            self._pieces.clear()

    def _report_duplicates(self) -> None:
        ids = [block.id for block in self._blocks if isinstance(block, ToolCallBlock)]
        repeated = sorted({each for each in ids if ids.count(each) > 1})
        if repeated:
            _log.warning("the model used a call id twice in one answer: %s; each call runs", ", ".join(repeated))


def join_pieces(pieces: Sequence[str]) -> str:
    """Join the pieces of a text, also where one was cut between the two escapes of a character."""
    text = "".join(pieces)
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _without_calls(blocks: tuple[AssistantBlock, ...]) -> tuple[AssistantBlock, ...]:
    return tuple(block for block in blocks if not isinstance(block, ToolCallBlock))
