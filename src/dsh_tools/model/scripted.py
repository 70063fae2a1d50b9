"""A model that says what a script says: for demonstrations and tests, without a network."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from ..errors import HarnessError
from ..json_value import to_json_text
from ..kernel.abort import AbortSignal
from ..messages import ReasoningBlock, ToolCallBlock, Usage
from .base import (
    Finish,
    FinishReason,
    ModelEvent,
    ModelFailed,
    ModelFailure,
    ModelRequest,
    ReasoningDelta,
    ReasoningDone,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
)
from .pump import Emit, pumped

__all__ = ["ScriptedCall", "ScriptedModel", "ScriptedStep", "call", "say"]


class ScriptedCall(msgspec.Struct, frozen=True):
    """A call that a script asks for; ``arguments`` is the raw text. Without an id it gets ``call_<step>_<n>``."""

    name: str
    arguments: str = "{}"
    id: str | None = None


class ScriptedStep(msgspec.Struct, frozen=True, kw_only=True):
    """What the model answers to one request.

    Parameters:
        text: what it says.
        reasoning: what it thinks before.
        calls: what it calls after.
        finish: how the answer ends; by default ``tool-calls`` where there are some, otherwise ``stop``.
        usage: what it is said to cost.
        failure: how the request fails, once everything above has come; instead of ``finish``.
        delay: how many seconds pass before each piece.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    finish: FinishReason | None = None
    usage: Usage = Usage()
    failure: ModelFailure | None = None
    delay: float = 0.0


Answer: TypeAlias = ScriptedStep | ScriptedCall | str
ScriptItem: TypeAlias = Answer | Callable[[ModelRequest], Answer | Awaitable[Answer]]
"""A step, a lone text, a lone call, or a function that makes one of these from the request."""


def say(text: str, *calls: ScriptedCall, **fields: Any) -> ScriptedStep:
    """Return a step that says something and then calls something; ``fields`` as in :class:`ScriptedStep`."""
    return ScriptedStep(text=text, calls=calls, **fields)


def call(tool: str, arguments: object = None, /, *, id: str | None = None, **given: Any) -> ScriptedCall:
    """Return a call: arguments as keywords, as a JSON value, or as the raw text a model might write.

    Raises:
        LossyJsonError: the arguments are not JSON.
    """
    if isinstance(arguments, str):
        return ScriptedCall(tool, arguments, id)
    return ScriptedCall(tool, to_json_text(given if arguments is None else arguments), id)


class ScriptedModel:
    """A :class:`ModelAdapter` that answers the n-th request with the n-th item of its script.

    Answers and ids are the same in every run. Past its end the script fails, clearly.

    Args:
        script: the items, in order.
        piece: how many characters come at a time; None gives each text whole.
        name: the model's name.
        accepts_images: whether it claims to see images.
    """

    def __init__(
        self,
        script: Iterable[ScriptItem],
        *,
        piece: int | None = None,
        name: str = "scripted:script",
        accepts_images: bool = True,
    ) -> None:
        self._script = tuple(script)
        self._piece = piece
        self._name = name
        self._accepts_images = accepts_images
        self.requests: list[ModelRequest] = []

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    @property
    def accepts_images(self) -> bool:
        """What it was told to claim."""
        return self._accepts_images

    @property
    def remaining(self) -> int:
        """How many items nobody has asked for yet."""
        return max(0, len(self._script) - len(self.requests))

    def stream(self, request: ModelRequest, signal: AbortSignal) -> AsyncGenerator[ModelEvent, None]:
        """Answer with the next item; see :meth:`ModelAdapter.stream`."""

        async def produce(emit: Emit) -> Finish | ModelFailed:
            number = len(self.requests)
            self.requests.append(request)
            if number >= len(self._script):
                message = f"the script has {len(self._script)} steps, and this is request {number + 1}"
                return ModelFailed(ModelFailure("SCRIPT_EXHAUSTED", message))
            step = await _resolve(self._script[number], request)
            for event in self._events(step, number):
                await asyncio.sleep(step.delay)
                emit(event)
            if step.failure is not None:
                return ModelFailed(step.failure)
            reason = step.finish or ("tool-calls" if step.calls else "stop")
            return Finish(reason, step.usage, self._name)

        return pumped(produce, signal, _describe)

    async def close(self) -> None:
        """Nothing to let go of."""

    def _events(self, step: ScriptedStep, number: int) -> Iterator[ModelEvent]:
        if step.reasoning:
            for piece in self._pieces(step.reasoning):
                yield ReasoningDelta(piece)
            yield ReasoningDone(ReasoningBlock(step.reasoning))
        for piece in self._pieces(step.text):
            yield TextDelta(piece)
        for index, wanted in enumerate(step.calls):
            call_id = wanted.id or f"call_{number + 1}_{index + 1}"
            for piece in self._pieces(wanted.arguments):
                yield ToolCallDelta(index, call_id, wanted.name, piece)
            yield ToolCallDone(index, ToolCallBlock(call_id, wanted.name, wanted.arguments))

    def _pieces(self, text: str) -> Iterator[str]:
        size = len(text) if self._piece is None else self._piece
        for start in range(0, len(text), max(size, 1)):
            yield text[start : start + size]


async def _resolve(item: ScriptItem, request: ModelRequest) -> ScriptedStep:
    answer: Any = item
    if not isinstance(item, (ScriptedStep, ScriptedCall, str)):
        answer = item(request)
        if inspect.isawaitable(answer):
            answer = await answer
    if isinstance(answer, str):
        return ScriptedStep(text=answer)
    if isinstance(answer, ScriptedCall):
        return ScriptedStep(calls=(answer,))
    if isinstance(answer, ScriptedStep):
        return answer
    raise TypeError(f"a script item must be a step, a call or a text, got {answer!r}")


def _describe(error: Exception) -> ModelFailure:
    code = error.code if isinstance(error, HarnessError) else "MODEL_ERROR"
    return ModelFailure(code, f"the script failed: {type(error).__name__}: {error}")
