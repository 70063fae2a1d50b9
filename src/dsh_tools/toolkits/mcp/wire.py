"""Between the SDK and the transport: servers' answers as they were sent.

The SDK validates a list of tools as a whole and knows a closed set of content blocks, so one odd tool would
hide all of them, and one odd block would lose a result. Here the answers to ``tools/list`` and ``tools/call``
travel as opaque ``_meta`` of an answer that the SDK finds valid, and are read by our own rules.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.client import Transport

__all__ = ["RAW", "RawTransport", "raw_result", "raw_tools"]

RAW = "dsh-tools/raw"
"""The key of ``_meta`` under which the original travels."""

_INTERCEPTED = ("tools/call", "tools/list")


class RawTransport:
    """A transport around another one.

    Parameters:
        inner: the transport that does the work.
        on_end: called when the server's side of the stream has ended.
        on_close: called when our side begins to close it; from then on a cancellation would cut the
            closing short.
    """

    def __init__(self, inner: Transport, on_end: Callable[[], None], on_close: Callable[[], None]) -> None:
        self._inner = inner
        self._on_end = on_end
        self._on_close = on_close

    async def __aenter__(self) -> Any:
        reading, writing = await self._inner.__aenter__()
        methods: dict[Any, str] = {}
        return _Reading(reading, methods, self._on_end), _Writing(writing, methods)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._on_close()
        return await self._inner.__aexit__(kind, error, trace)


class _Wrapped:
    """What both directions share."""

    def __init__(self, inner: Any, methods: dict[Any, str]) -> None:
        self._inner = inner
        self._methods = methods

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Any:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)


class _Writing(_Wrapped):
    """Notes which requests are on their way."""

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest):
            if message.method in _INTERCEPTED:
                self._methods[message.id] = message.method
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._methods.pop((message.params or {}).get("requestId"), None)
        await self._inner.send(item)


class _Reading(_Wrapped):
    """Puts the originals of answers aside."""

    def __init__(self, inner: Any, methods: dict[Any, str], on_end: Callable[[], None]) -> None:
        super().__init__(inner, methods)
        self._on_end = on_end

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._seen(await self._inner.receive())

    def __aiter__(self) -> _Reading:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            item = await self._inner.__anext__()
        except StopAsyncIteration:
            self._on_end()
            raise
        return self._seen(item)

    def _seen(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, Exception) or not isinstance(item.message, JSONRPCResponse):
            return item
        message = item.message
        method = self._methods.pop(message.id, None)
        if method is None:
            return item
        envelope = _call_envelope if method == "tools/call" else _list_envelope
        return SessionMessage(message.model_copy(update={"result": envelope(message.result)}), item.metadata)


def _call_envelope(result: dict[str, Any]) -> dict[str, Any]:
    if result.get("resultType", "complete") != "complete":
        return result
    return {"resultType": "complete", "content": [], "_meta": {RAW: result}}


def _list_envelope(result: dict[str, Any]) -> dict[str, Any]:
    listed = result.get("tools")
    if not isinstance(listed, list):
        return result
    tools = [_tool_envelope(tool) for tool in cast("list[object]", listed)]
    return {**result, "tools": tools}


def _tool_envelope(tool: object) -> dict[str, Any]:
    record = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
    name: object = record.get("name")
    schema: object = record.get("inputSchema")
    # The SDK reads headers to send from the schema, so it gets to see a valid one.
    fits = isinstance(schema, dict) and _has_object_root(cast("dict[str, Any]", schema))
    visible: Any = cast("Any", schema) if fits else {"type": "object"}
    return {"name": name if isinstance(name, str) else "", "inputSchema": visible, "_meta": {RAW: tool}}


def _has_object_root(schema: dict[str, Any]) -> bool:
    properties: object = schema.get("properties", {})
    required: object = schema.get("required", [])
    return (
        schema.get("type") == "object"
        and isinstance(schema.get("$schema", ""), str)
        and isinstance(properties, dict)
        and all(isinstance(value, (dict, bool)) for value in cast("dict[str, object]", properties).values())
        and isinstance(required, list)
        and all(isinstance(value, str) for value in cast("list[object]", required))
    )


def raw_result(result: Any) -> dict[str, Any]:
    """Return the answer to ``tools/call`` as it was sent."""
    meta: dict[str, Any] = result.meta or {}
    return meta[RAW]


def raw_tools(result: Any) -> list[object]:
    """Return the tools of one page of ``tools/list`` as they were sent."""
    return [(tool.meta or {})[RAW] for tool in result.tools]
