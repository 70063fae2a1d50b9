"""An MCP server inside the test's process, with the official SDK: it lists, changes, fails and dies as told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.runner import serve_loop
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams

from dsh_tools.kernel import Context
from dsh_tools.toolkits.mcp import McpPlugin

OBJECT = {"type": "object"}


def listed(name: str, **fields: Any) -> types.Tool:
    fields.setdefault("input_schema", OBJECT)
    return types.Tool(name=name, **fields)


def answer(text: str = "ok", **fields: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], **fields)


Handler = Callable[[Any, types.CallToolRequestParams], Awaitable[types.CallToolResult]]


class FakeServer:
    """A server whose tools and moods a test sets.

    ``tools`` is what it lists, ``handler`` what a call does; ``refuse`` makes connecting fail, ``mute`` leaves lists unanswered; ``drop()``
    cuts the live connection; ``connections`` counts, ``calls`` collects, ``cancelled`` counts handlers
    that were cancelled, ``live`` those that run. ``modern`` speaks the protocol of 2026-07-28 on.
    """

    def __init__(
        self, *tools: types.Tool, handler: Handler | None = None, page: int = 100, modern: bool = False
    ) -> None:
        self.tools = list(tools)
        self.page = page
        self.handler = handler
        self.refuse = False
        self.mute = False
        self.list_error: str | None = None
        self.connections = 0
        self.lists = 0
        self.calls: list[tuple[str, Any]] = []
        self.cancelled = 0
        self.live = 0
        self.closing_takes = 0.0
        self.raw: Callable[[str, dict[str, Any]], dict[str, Any]] | None = None
        self._sessions: list[Any] = []
        self._cut: list[Callable[[], Awaitable[None]]] = []
        self.modern = modern
        self._bus = InMemorySubscriptionBus()
        self.server: Server[Any] = Server(
            "fake",
            version="1",
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=ListenHandler(self._bus),
        )

    async def _list(self, ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        self.lists += 1
        self._sessions = [ctx.session]
        if self.mute:
            await asyncio.sleep(60)
        if self.list_error is not None:
            raise MCPError(types.INTERNAL_ERROR, self.list_error)
        start = int(params.cursor) if params is not None and params.cursor else 0
        end = start + self.page
        return types.ListToolsResult(
            tools=self.tools[start:end], next_cursor=str(end) if end < len(self.tools) else None
        )

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.calls.append((params.name, params.arguments))
        self.live += 1
        try:
            return answer() if self.handler is None else await self.handler(ctx, params)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.live -= 1

    async def changed(self) -> None:
        """Tell the client that the tools have changed."""
        if self.modern:
            await self._bus.publish(ToolsListChanged())
        else:
            for session in self._sessions:
                await session.send_tool_list_changed()

    async def drop(self) -> None:
        """Die: the connection ends in the middle of whatever goes on."""
        for cut in self._cut:
            await cut()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        self.connections += 1
        if self.refuse:
            raise ConnectionRefusedError("nobody listens")
        options = self.server.create_initialization_options(NotificationOptions(tools_changed=True))
        async with create_client_server_memory_streams() as (client, (reading, writing)):
            if self.modern:
                serving = self.server.run(reading, writing, options)
            else:
                serving = serve_loop(self.server, reading, writing, lifespan_state={}, init_options=options)
            running = asyncio.create_task(serving)

            async def cut() -> None:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running
                await writing.aclose()

            self._cut.append(cut)
            try:
                yield (_Raw(client[0], self), client[1])
            finally:
                self._cut.remove(cut)
                await cut()
                await asyncio.sleep(self.closing_takes)


class _Raw:
    """Lets a test change what goes over the wire, to what the SDK would never send."""

    def __init__(self, inner: Any, fake: FakeServer) -> None:
        self._inner = inner
        self._fake = fake

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __aiter__(self) -> _Raw:
        return self

    async def __anext__(self) -> Any:
        item = await self._inner.__anext__()
        message = getattr(item, "message", None)
        if self._fake.raw is not None and isinstance(message, types.JSONRPCResponse):
            kind = "list" if "tools" in message.result else "call" if "content" in message.result else "other"
            message.result = self._fake.raw(kind, message.result)
        return item

    async def __aenter__(self) -> _Raw:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)


async def mount(ctx: Context, fake: FakeServer, name: str = "fake", **config: Any) -> Any:
    """Mount the client for this server; returns the fiber, loaded."""
    settings = {"server_name": name, "transport": "stdio", "command": "unused", **config}
    fiber = ctx.plugin(McpPlugin(fake.connect), settings)
    await fiber
    return fiber


async def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
