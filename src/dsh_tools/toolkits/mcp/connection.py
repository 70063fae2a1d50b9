"""One connection to a server, from its start until it is closed."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client import Client, Transport
from mcp.client.session import IncomingMessage
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    ToolListChangedNotification,
)
from pydantic import TypeAdapter

from ...json_value import thaw
from .config import McpConfig
from .errors import McpError
from .wire import RawTransport, raw_result, raw_tools

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT

__all__ = ["Connect", "Connection", "open_connection", "open_transport"]

_log = logging.getLogger("dsh_tools")

Connect = Callable[[], "Transport"]
"""Makes a transport of the SDK; called for each connection."""

_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)
_STDERR_KEPT = 2000
_LISTEN_AGAIN = 1.0


class Connection:
    """A live connection.

    Parameters:
        client: the SDK's client, connected.
        wake: set whenever the connection ends or the server's tools have changed.
    """

    def __init__(self, client: Client, wake: asyncio.Event) -> None:
        self._client = client
        self._wake = wake
        self.ended = False
        self.changed = False

    def end(self) -> None:
        """Note that the connection is of no more use."""
        self.ended = True
        self._wake.set()

    def tools_changed(self) -> None:
        """Note that the server's tools have changed."""
        self.changed = True
        self._wake.set()

    async def list_tools(self, limit: int) -> list[object]:
        """Return all tools as the server lists them, from every page (HOST-232).

        Raises:
            McpError: there are more than ``limit``, or the pages lead in a circle.
            MCPError: the server refuses.
        """
        if self._client.server_capabilities.tools is None:
            return []
        listed: list[object] = []
        cursor: str | None = None
        seen: set[str] = set()
        while True:
            page = await self._client.list_tools(cursor=cursor, cache_mode="bypass")
            listed += raw_tools(page)
            if len(listed) > limit:
                raise McpError(f"the server lists more than {limit} tools")
            cursor = page.next_cursor
            if cursor is None:
                return listed
            if cursor in seen:
                raise McpError("the server's list of tools has no end")
            seen.add(cursor)

    async def call(
        self, raw_name: str, arguments: Mapping[str, Any], seconds: float, on_progress: ProgressFnT
    ) -> dict[str, Any]:
        """Run a tool and return the raw result; a cancellation is told to the server.

        Raises:
            McpError: the server wants input that nobody gives here.
            MCPError: the server refuses, the time is up, or the connection is lost.
        """
        request = CallToolRequest(params=CallToolRequestParams(name=raw_name, arguments=thaw(arguments)))  # pyright: ignore[reportArgumentType]
        answer = await self._client.session.send_request(
            request, _ANSWER, request_read_timeout_seconds=seconds, progress_callback=on_progress
        )
        if isinstance(answer, InputRequiredResult):
            raise McpError(f'tool "{raw_name}" asks its user for input, which is not supported here')
        return raw_result(answer)

    async def watch(self) -> None:
        """Subscribe to changes where the protocol wants it (2026-07-28 on); ends with the connection's trouble."""
        tools = self._client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        while not self.ended:
            try:
                async with self._client.listen(tools_list_changed=True) as events:
                    async for _ in events:
                        self.tools_changed()
            except ListenNotSupportedError:
                return
            except SubscriptionLost:
                # What happened while nobody listened is not known.
                self.tools_changed()
            except (MCPError, TimeoutError) as error:
                _log.warning("the server does not report changes of its tools: %s", error)
                return
            await asyncio.sleep(_LISTEN_AGAIN)


@asynccontextmanager
async def open_connection(
    connect: Connect, seconds: float, wake: asyncio.Event, on_close: Callable[[], None]
) -> AsyncGenerator[Connection]:
    """Connect, and close at the end of the block.

    Parameters:
        connect: makes the transport.
        seconds: how long each answer may take.
        wake: see :class:`Connection`.
        on_close: called when the transport begins to close, also where connecting failed.
    """
    made: list[Connection] = []

    def on_end() -> None:
        for connection in made:
            connection.end()

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            for connection in made:
                connection.tools_changed()

    client = Client(
        RawTransport(connect(), on_end, on_close),
        read_timeout_seconds=seconds,
        message_handler=on_message,
        client_info=Implementation(name="dsh-tools", version="1"),
        cache=None,
    )
    async with client:
        connection = Connection(client, wake)
        made.append(connection)
        watcher = asyncio.create_task(connection.watch())
        try:
            yield connection
        finally:
            connection.ended = True
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher


@asynccontextmanager
async def open_transport(config: McpConfig) -> AsyncGenerator[Any]:
    """The transport that a configuration describes."""
    if config.transport == "stdio":
        parameters = StdioServerParameters(
            command=config.command or "", args=config.args, env=config.env, cwd=config.cwd
        )
        async with _error_output(config.server_name) as output:
            try:
                async with stdio_client(parameters, output.stream) as streams:
                    yield streams
            except Exception as error:
                output.explain(error)
                raise
    else:
        # A stream may be silent for as long as nothing happens; calls have time limits of their own.
        http = httpx2.AsyncClient(headers=config.headers, timeout=httpx2.Timeout(30, read=None))
        async with http, streamable_http_client(config.url or "", http_client=http) as streams:
            yield streams


class _ErrorOutput:
    """What a server writes to its error output: kept from the terminal, and at hand where the server fails."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._heard, written = os.pipe()
        os.set_blocking(self._heard, False)
        self._rest = bytearray()
        self._last = ""
        self.stream = os.fdopen(written, "w")
        asyncio.get_running_loop().add_reader(self._heard, self._read)

    def _read(self) -> bool:
        try:
            data = os.read(self._heard, 65_536)
        except BlockingIOError:
            return False
        if not data:
            asyncio.get_running_loop().remove_reader(self._heard)
        *lines, last = (self._rest + data).split(b"\n")
        self._rest = last[-_STDERR_KEPT:]
        for line in lines:
            text = line[:_STDERR_KEPT].decode("utf-8", "replace").strip()
            self._last = text or self._last
            _log.debug('MCP server "%s": %s', self._server, text)
        return bool(data)

    def explain(self, error: Exception) -> None:
        """Add the last line that the server wrote to what went wrong."""
        while self._read():
            pass
        if self._last:
            error.add_note(f"the server's last words: {self._last}")

    def close(self) -> None:
        """Stop listening."""
        self.stream.close()
        asyncio.get_running_loop().remove_reader(self._heard)
        os.close(self._heard)


@asynccontextmanager
async def _error_output(server: str) -> AsyncGenerator[_ErrorOutput]:
    output = _ErrorOutput(server)
    try:
        yield output
    finally:
        output.close()
