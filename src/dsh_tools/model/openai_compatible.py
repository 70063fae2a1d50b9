"""Models behind the chat completions API: OpenAI's own, DeepSeek, vLLM, Ollama and many more.

Needs the extra ``[openai]``.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from ..json_value import to_json_text
from ..messages import ReasoningBlock, Usage
from .base import (
    Finish,
    FinishReason,
    ModelFailed,
    ModelFailure,
    ModelRequest,
    ReasoningDelta,
    ReasoningDone,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
)
from .collect import join_pieces
from .exported import ExportedTools, ToolExporter
from .failures import (
    connection_failure,
    failure_of_kind,
    failure_of_status,
    retry_after,
    stream_cut,
    transport_failure,
)
from .openai_wire import chat_messages, tool_choice
from .provider import ProviderModel, read_text
from .pump import Emit

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAICompatibleModel"]

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "max-tokens",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
}


class OpenAICompatibleModel(ProviderModel["AsyncOpenAI"]):
    """A :class:`ModelAdapter` for chat completions.

    It sends each request once; wrap it in ``RetryingModel``.

    Args:
        model: the model's name, as the server knows it.
        base_url: the server's address; None is the SDK's own default.
        api_key: the key; None takes ``OPENAI_API_KEY``, and with a ``base_url`` may be absent.
        headers: further headers of each request.
        timeout: how many seconds to wait for a connection, and for each next piece of an answer.
        max_tokens: the longest answer, where the request does not say.
        max_tokens_field: the name the server has for that.
        accepts_images: whether images are sent; otherwise a marker stands for each.
        include_usage: ask for token counts; some servers refuse the question.
        send_reasoning: send the model's earlier reasoning back, as ``reasoning_content``.
        strict: ask the provider to keep to the tools' schemas.
        extra: further fields of each request.

    Raises:
        ConfigError: the extra is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 120.0,
        max_tokens: int | None = None,
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
        accepts_images: bool = True,
        include_usage: bool = True,
        send_reasoning: bool = False,
        strict: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            "openai",
            model,
            ToolExporter("openai-chat", strict=strict),
            base_url=base_url,
            api_key=api_key,
            headers=headers,
            timeout=timeout,
            extra=extra,
        )
        self._max_tokens = max_tokens
        self._max_tokens_field = max_tokens_field
        self._accepts_images = accepts_images
        self._include_usage = include_usage
        self._send_reasoning = send_reasoning

    @property
    def accepts_images(self) -> bool:
        """Whether images are sent."""
        return self._accepts_images

    async def _ask(self, request: ModelRequest, emit: Emit) -> Finish | ModelFailed:
        tools = self._exporter.export(request.tools)
        answer = _Answer(tools, emit)
        # Untyped on purpose: what a server sends need not be what the SDK declares.
        create = cast("Callable[..., Awaitable[Any]]", self._connected().chat.completions.create)
        async with await create(**self._body(request, tools)) as chunks:
            async for chunk in chunks:
                answer.take(chunk)
        return answer.end()

    def _body(self, request: ModelRequest, tools: ExportedTools) -> dict[str, Any]:
        # What can be left out goes past the SDK's own parameters, which come and go with its versions.
        fields: dict[str, Any] = {}
        if self._include_usage:
            fields["stream_options"] = {"include_usage": True}
        if tools.records:
            fields["tools"] = tools.records
            fields["tool_choice"] = tool_choice(request, tools)
        longest = self._max_tokens if request.max_tokens is None else request.max_tokens
        if longest is not None:
            fields[self._max_tokens_field] = longest
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.stop:
            fields["stop"] = list(request.stop)
        messages = chat_messages(request, tools, send_reasoning=self._send_reasoning, send_images=self._accepts_images)
        extra = {**fields, **self._extra, **request.extra}
        return {"model": self.model, "messages": messages, "stream": True, "extra_body": extra}

    def _connect(self, settings: dict[str, Any]) -> AsyncOpenAI:
        # Imported late: the package needs the extra.
        from openai import AsyncOpenAI

        return AsyncOpenAI(**settings)

    def _describe(self, error: Exception) -> ModelFailure:
        # Imported late: the package needs the extra.
        import openai

        if isinstance(error, openai.APIStatusError):
            wait = retry_after(error.response.headers)
            return failure_of_status(error.status_code, error.message, (error.code, error.type), wait)
        if isinstance(error, openai.APIConnectionError):
            timeout = isinstance(error, openai.APITimeoutError)
            return connection_failure(f"{error.message} {error.__cause__ or ''}", timeout=timeout)
        if isinstance(error, openai.APIError):
            return failure_of_kind(error.message, (error.code, error.type))
        if isinstance(error, openai.OpenAIError):
            return ModelFailure("AUTHENTICATION", str(error))
        return transport_failure(error)


class _Call:
    """A call that is coming in."""

    def __init__(self, index: int, key: object) -> None:
        self.index = index
        self.key = key
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class _Answer:
    """Reads chunks into events. Fields may be missing or odd: servers differ, and the SDK checks nothing."""

    def __init__(self, tools: ExportedTools, emit: Emit) -> None:
        self._tools = tools
        self._emit = emit
        self._calls: list[_Call] = []
        self._done = 0
        self._reasoning: list[str] = []
        self._finish: str | None = None
        self._usage = Usage()
        self._model = ""

    def take(self, chunk: Any) -> None:
        """Take one chunk in."""
        self._model = read_text(chunk, "model") or self._model
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            self._usage = _usage(usage)
        for choice in getattr(chunk, "choices", None) or ():
            delta = getattr(choice, "delta", None)
            if delta is not None:
                self._take_delta(delta)
            self._finish = read_text(choice, "finish_reason") or self._finish
            # Only one answer is asked for; what a server sends beyond it is not ours.
            break

    def end(self) -> Finish | ModelFailed:
        """Return how the stream ended, after its last chunk."""
        if self._finish is None:
            return ModelFailed(stream_cut("the model's stream ended before its answer did"))
        self._close_reasoning()
        reason = _FINISH.get(self._finish, "other")
        # Some servers say "stop" and mean the calls before it; a call that was cut off says "length".
        if self._calls and reason in ("stop", "other"):
            reason = "tool-calls"
        self._close_calls()
        return Finish(reason, self._usage, self._model)

    def _take_delta(self, delta: Any) -> None:
        reasoning = read_text(delta, "reasoning_content") or read_text(delta, "reasoning")
        if reasoning:
            self._reasoning.append(reasoning)
            self._emit(ReasoningDelta(reasoning))
        # A refusal is what the model says instead of an answer.
        text = read_text(delta, "content") or read_text(delta, "refusal")
        if text:
            self._close_reasoning()
            self._emit(TextDelta(text))
        for piece in getattr(delta, "tool_calls", None) or ():
            self._close_reasoning()
            self._take_call(piece)

    def _take_call(self, piece: Any) -> None:
        function = getattr(piece, "function", None)
        call_id, name = read_text(piece, "id"), read_text(function, "name")
        call = self._find(getattr(piece, "index", None), call_id, name)
        call.id = call.id or call_id
        if name and name != call.name:
            call.name += name
        arguments: Any = getattr(function, "arguments", None)
        # A few servers send the arguments as the object itself.
        text = arguments if isinstance(arguments, str) else "" if arguments is None else to_json_text(arguments)
        call.arguments.append(text)
        self._emit(ToolCallDelta(call.index, call.id, call.name, text))

    def _find(self, key: object, call_id: str, name: str) -> _Call:
        """Return the call a piece belongs to.

        The index says it, but for servers that leave it out or number every call 0: there, another
        id begins another call.
        """
        for call in reversed(self._calls):
            if call.key == key and (not call_id or not call.id or call.id == call_id):
                return call
            if key is None and not call_id and not name:
                return call
        call = _Call(len(self._calls), key)
        self._calls.append(call)
        return call

    def _close_reasoning(self) -> None:
        if self._reasoning:
            self._emit(ReasoningDone(ReasoningBlock(join_pieces(self._reasoning))))
            self._reasoning.clear()

    def _close_calls(self) -> None:
        for call in self._calls:
            call_id = call.id or f"call_{secrets.token_hex(8)}"
            self._emit(ToolCallDone(call.index, self._tools.call(call_id, call.name, join_pieces(call.arguments))))


def _usage(usage: Any) -> Usage:
    prompt = getattr(usage, "prompt_tokens_details", None)
    completion = getattr(usage, "completion_tokens_details", None)
    return Usage(
        input_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        cache_read_tokens=_count(prompt, "cached_tokens"),
        reasoning_tokens=_count(completion, "reasoning_tokens"),
    )


def _count(record: Any, field: str) -> int:
    value = getattr(record, field, None)
    return value if isinstance(value, int) and value > 0 else 0
