"""Models behind the messages API. Needs the extra ``[anthropic]``."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET

from ..json_value import to_json_text
from ..messages import ReasoningBlock, Usage
from .anthropic_wire import message_list, system_blocks, tool_choice
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
from .provider import ProviderModel, read_text
from .pump import Emit

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ["AnthropicModel"]

_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "max-tokens",
    "model_context_window_exceeded": "max-tokens",
    "refusal": "content-filter",
}


class AnthropicModel(ProviderModel["AsyncAnthropic"]):
    """A :class:`ModelAdapter` for the messages API.

    It sends each request once; wrap it in ``RetryingModel``.

    Args:
        model: the model's name.
        base_url: the server's address; None is the SDK's own default.
        api_key: the key; None takes ``ANTHROPIC_API_KEY``, and with a ``base_url`` may be absent.
        headers: further headers of each request.
        timeout: how many seconds to wait for a connection, and for each next piece of an answer.
        max_tokens: the longest answer, where the request does not say; the API wants one.
        cache: let the provider keep the prompt's beginning for the next request.
        extra: further fields of each request, such as ``thinking``.

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
        max_tokens: int = 8192,
        cache: bool = True,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            "anthropic",
            model,
            ToolExporter("anthropic"),
            base_url=base_url,
            api_key=api_key,
            headers=headers,
            timeout=timeout,
            extra=extra,
        )
        self._max_tokens = max_tokens
        self._cache = cache

    @property
    def accepts_images(self) -> bool:
        """Images are sent, in results as well."""
        return True

    async def _ask(self, request: ModelRequest, emit: Emit) -> Finish | ModelFailed:
        tools = self._exporter.export(request.tools)
        answer = _Answer(tools, emit)
        # Untyped on purpose: what a server sends need not be what the SDK declares.
        create = cast("Callable[..., Awaitable[Any]]", self._connected().messages.create)
        async with await create(**self._body(request, tools)) as events:
            async for event in events:
                answer.take(event)
        return answer.end()

    def _body(self, request: ModelRequest, tools: ExportedTools) -> dict[str, Any]:
        # What can be left out goes past the SDK's own parameters, which come and go with its versions.
        fields: dict[str, Any] = {}
        if request.system.strip():
            fields["system"] = system_blocks(request.system, cache=self._cache)
        if tools.records:
            fields["tools"] = tools.records
            fields["tool_choice"] = tool_choice(request, tools)
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.stop:
            fields["stop_sequences"] = list(request.stop)
        return {
            "model": self.model,
            "messages": message_list(request, tools, cache=self._cache),
            "max_tokens": self._max_tokens if request.max_tokens is None else request.max_tokens,
            "stream": True,
            "extra_body": {**fields, **self._extra, **request.extra},
        }

    def _connect(self, settings: dict[str, Any]) -> AsyncAnthropic:
        # Imported late: the package needs the extra.
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(**settings)

    def _describe(self, error: Exception) -> ModelFailure:
        # Imported late: the package needs the extra.
        import anthropic

        if isinstance(error, anthropic.APIStatusError):
            message, kind = _error_of(error.body)
            if error.status_code < 400:
                # An error event inside a stream that had begun well.
                return failure_of_kind(message or error.message, (kind,))
            wait = retry_after(error.response.headers)
            return failure_of_status(error.status_code, message or error.message, (kind,), wait)
        if isinstance(error, anthropic.APIConnectionError):
            timeout = isinstance(error, anthropic.APITimeoutError)
            return connection_failure(f"{error.message} {error.__cause__ or ''}", timeout=timeout)
        if isinstance(error, anthropic.AnthropicError) or "authentication method" in str(error):
            return ModelFailure("AUTHENTICATION", str(error))
        return transport_failure(error)


class _Block:
    """A content block that is coming in."""

    def __init__(self, kind: str, start: Any) -> None:
        self.kind = kind
        self.start = start
        self.pieces: list[str] = []
        self.signature: list[str] = []
        self.call_index = 0


class _Answer:
    """Reads the API's events into ours. Blocks come one after another, each with its pieces."""

    def __init__(self, tools: ExportedTools, emit: Emit) -> None:
        self._tools = tools
        self._emit = emit
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        self._stop_reason: str | None = None
        self._stopped = False
        self._counts: dict[str, int] = {}
        self._model = ""

    def take(self, event: Any) -> None:
        """Take one event in; kinds that are not known are passed over."""
        kind = read_text(event, "type")
        if kind == "message_start":
            message = getattr(event, "message", None)
            self._model = read_text(message, "model")
            self._count(getattr(message, "usage", None))
        elif kind == "content_block_start":
            self._start(event)
        elif kind == "content_block_delta":
            block = self._blocks.get(getattr(event, "index", -1))
            if block is not None:
                self._piece(block, getattr(event, "delta", None))
        elif kind == "content_block_stop":
            block = self._blocks.pop(getattr(event, "index", -1), None)
            if block is not None:
                self._finish_block(block)
        elif kind == "message_delta":
            self._stop_reason = read_text(getattr(event, "delta", None), "stop_reason") or self._stop_reason
            self._count(getattr(event, "usage", None))
        elif kind == "message_stop":
            self._stopped = True

    def end(self) -> Finish | ModelFailed:
        """Return how the stream ended, after its last event."""
        if not self._stopped or self._stop_reason is None:
            return ModelFailed(stream_cut("the model's stream ended before its answer did"))
        for index in sorted(self._blocks):
            self._finish_block(self._blocks[index])
        counts = self._counts
        usage = Usage(
            # The provider counts cached input apart; we count all input, and say how much was cached.
            input_tokens=sum(
                counts.get(name, 0)
                for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            ),
            output_tokens=counts.get("output_tokens", 0),
            cache_read_tokens=counts.get("cache_read_input_tokens", 0),
            cache_write_tokens=counts.get("cache_creation_input_tokens", 0),
        )
        return Finish(_FINISH.get(self._stop_reason, "other"), usage, self._model)

    def _start(self, event: Any) -> None:
        start = getattr(event, "content_block", None)
        block = _Block(read_text(start, "type"), start)
        self._blocks[getattr(event, "index", len(self._blocks))] = block
        if block.kind == "tool_use":
            block.call_index = self._calls
            self._calls += 1
            self._emit(ToolCallDelta(block.call_index, read_text(start, "id"), read_text(start, "name"), ""))
        elif block.kind == "text" and read_text(start, "text"):
            self._emit(TextDelta(read_text(start, "text")))
        elif block.kind == "thinking" and read_text(start, "thinking"):
            block.pieces.append(read_text(start, "thinking"))
            self._emit(ReasoningDelta(block.pieces[0]))

    def _piece(self, block: _Block, delta: Any) -> None:
        kind = read_text(delta, "type")
        if kind == "text_delta":
            self._emit(TextDelta(read_text(delta, "text")))
        elif kind == "input_json_delta" and block.kind == "tool_use":
            piece = read_text(delta, "partial_json")
            block.pieces.append(piece)
            start = block.start
            self._emit(ToolCallDelta(block.call_index, read_text(start, "id"), read_text(start, "name"), piece))
        elif kind == "thinking_delta":
            block.pieces.append(read_text(delta, "thinking"))
            self._emit(ReasoningDelta(block.pieces[-1]))
        elif kind == "signature_delta":
            block.signature.append(read_text(delta, "signature"))

    def _finish_block(self, block: _Block) -> None:
        if block.kind == "tool_use":
            call_id = read_text(block.start, "id") or f"call_{secrets.token_hex(8)}"
            call = self._tools.call(call_id, read_text(block.start, "name"), _arguments(block))
            self._emit(ToolCallDone(block.call_index, call))
        elif block.kind == "thinking":
            signature = "".join(block.signature) or read_text(block.start, "signature")
            self._emit(ReasoningDone(ReasoningBlock(join_pieces(block.pieces), signature or UNSET)))
        elif block.kind == "redacted_thinking":
            self._emit(ReasoningDone(ReasoningBlock("", redacted=read_text(block.start, "data"))))

    def _count(self, usage: Any) -> None:
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ):
            value = getattr(usage, name, None)
            if isinstance(value, int):
                # Counts are totals so far, and the last one stands.
                self._counts[name] = value


def _arguments(block: _Block) -> str:
    text = join_pieces(block.pieces)
    whole: Any = getattr(block.start, "input", None)
    # Compatible servers may send the arguments whole, in the block's start.
    return to_json_text(whole) if not text and whole else text


def _error_of(body: object) -> tuple[str, str | None]:
    """Read message and type of an error's body."""
    error: Any = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return "", None
    fields = cast("dict[str, Any]", error)
    message, kind = fields.get("message"), fields.get("type")
    return message if isinstance(message, str) else "", kind if isinstance(kind, str) else None
