"""A server's tools in the registry, through connections that come and go (HOST-232 to 234, 240 to 243)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
from pydantic import ValidationError

from ...errors import HarnessError, ToolTimeoutError, describe_exception
from ...tools import ToolRunContext
from .config import McpConfig
from .connection import Connect, Connection, open_connection
from .errors import McpDisconnectedError, McpError
from .tool import RemoteTool

if TYPE_CHECKING:
    from ...kernel.context import Context
    from ...kernel.effect import Disposer

__all__ = ["McpClient"]

_log = logging.getLogger("dsh_tools")

# How long a failed connection may take to close before no further one is made, in seconds (HOST-242).
_CLOSE_LIMIT = 5.0


class McpClient:
    """Keeps one server's tools registered.

    Parameters:
        context: tools are registered through it.
        config: of the server.
        connect: makes a transport for each connection.
    """

    def __init__(self, context: Context, config: McpConfig, connect: Connect) -> None:
        self.config = config
        self.tools: tuple[RemoteTool, ...] = ()
        self._context = context
        self._connect = connect
        self._connection: Connection | None = None
        self._registered: list[Disposer] = []
        self._wake = asyncio.Event()
        self._stopping = False
        self._closing_since: float | None = None
        self._failures = 0
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    # ── life ──────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Connect and register the tools; a first connection that fails is logged and tried again (HOST-240).

        Raises:
            McpError: it failed, and the config says that this fails the loading.
        """
        self._task = asyncio.create_task(self._run(), name=f"mcp {self.config.server_name}")
        try:
            await asyncio.shield(self._first)
        except McpError:
            if self.config.fail_on_startup_error:
                await self.stop()
                raise

    async def stop(self) -> None:
        """Close the connection, end the process, and wait for both; silent from here on (HOST-243)."""
        self._stopping = True
        task = self._task
        if task is not None and not task.done():
            # While a connection closes, a cancellation would cut the closing short.
            if self._closing_since is None:
                task.cancel()
            while not task.done():
                await asyncio.wait({task})
        if self._first.done():
            self._first.exception()
        self._unregister()

    async def _run(self) -> None:
        """Connect, and connect again, until stopped or given up."""
        try:
            again = True
            while again:
                again = await self._one_connection()
                if again:
                    await asyncio.sleep(self.config.reconnect.delay(self._failures))
        except asyncio.CancelledError:
            if not self._stopping:
                raise
        finally:
            if not self._stopping:
                self._unregister()
            if not self._first.done():
                self._first.set_result(None)

    async def _one_connection(self) -> bool:
        """Connect, serve until the connection ends, close; say whether to try again."""
        since: float | None = None
        error: BaseException | None = None
        try:
            seconds = self.config.connect_timeout_ms / 1000
            async with open_connection(self._connect, seconds, self._wake, self._note_closing) as connection:
                try:
                    await self._synchronize(connection)
                    since = time.monotonic()
                    self._connection = connection
                    self._settle_first(None)
                    await self._serve(connection)
                finally:
                    self._connection = None
        except Exception as failure:
            error = failure
        closing, self._closing_since = self._closing_since, None
        if self._stopping:
            return False
        return self._judge(error, since, 0.0 if closing is None else time.monotonic() - closing)

    def _note_closing(self) -> None:
        self._closing_since = time.monotonic()

    def _judge(self, error: BaseException | None, since: float | None, closing: float) -> bool:
        reconnect = self.config.reconnect
        what = "the connection was lost" if since is not None else f"cannot connect: {_reason(error)}"
        if since is not None and time.monotonic() - since - closing >= reconnect.max_delay_ms / 1000:
            self._failures = 0
        self._failures += 1
        self._settle_first(McpError(f'MCP server "{self.config.server_name}": {what}'))
        if closing > _CLOSE_LIMIT:
            self._say(logging.ERROR, "%s, and closing it took %.1f s; its tools are gone", what, closing)
            return False
        if not reconnect.enabled or self._failures > reconnect.max_attempts:
            self._say(logging.ERROR, "%s (failure %d in a row); its tools are gone", what, self._failures)
            return False
        self._say(logging.WARNING, "%s; trying again in %.1f s", what, reconnect.delay(self._failures))
        return True

    async def _serve(self, connection: Connection) -> None:
        while not connection.ended:
            await self._wake.wait()
            self._wake.clear()
            if connection.changed and not connection.ended:
                await self._refresh(connection)

    async def _refresh(self, connection: Connection) -> None:
        """Follow a change of the server's tools; where that fails, the ones we know stay (HOST-232)."""
        try:
            await self._synchronize(connection)
        except (MCPError, McpError, ValidationError) as error:
            if not connection.ended:
                self._say(logging.WARNING, "its changed list of tools cannot be used: %s", _reason(error))

    def _settle_first(self, error: McpError | None) -> None:
        if self._first.done():
            return
        if error is None:
            self._first.set_result(None)
        else:
            self._first.set_exception(error)
            # The failure is logged; nobody has to look at it.
            self._first.exception()

    def _say(self, level: int, text: str, *values: object) -> None:
        _log.log(level, f'MCP server "%s": {text}', self.config.server_name, *values)

    # ── tools ─────────────────────────────────────────────────────────────────

    async def _synchronize(self, connection: Connection) -> None:
        """Fetch the whole list, then replace the old generation by it (HOST-232 to 234).

        Raises:
            McpError: the list cannot be used; nothing was touched.
            MCPError: the server refuses.
        """
        connection.changed = False
        tools = _read(await connection.list_tools(self.config.max_tools), self)
        if [tool.document for tool in tools] == [tool.document for tool in self.tools] and self._registered:
            return
        definitions = [tool.definition() for tool in tools]
        self._unregister()
        try:
            for definition in definitions:
                self._registered.append(self._context.tools.register(definition))
        except HarnessError as error:
            # HOST-233: no half of a generation, and not the old one either: the server no longer has it.
            self._unregister()
            self._say(logging.ERROR, "none of its tools is registered: %s", error)
            return
        self.tools = tuple(tools)

    def _unregister(self) -> None:
        self.tools = ()
        registered, self._registered = self._registered, []
        for disposer in reversed(registered):
            disposer()

    # ── calls ─────────────────────────────────────────────────────────────────

    async def call(self, raw_name: str, arguments: Mapping[str, Any], run: ToolRunContext) -> dict[str, Any]:
        """Run a tool of the server and return the raw result.

        Raises:
            McpDisconnectedError: there is no connection, or it was lost on the way.
            ToolTimeoutError: the server did not answer in time; it was told to stop.
            McpError: the server refuses, or its answer is none.
        """
        connection = self._connection
        server = self.config.server_name
        if connection is None:
            raise McpDisconnectedError(f'MCP server "{server}" is not connected now; try again later')
        seconds = self.config.tool_call_timeout_ms / 1000
        try:
            return await connection.call(raw_name, arguments, seconds, _reporter(run))
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise ToolTimeoutError(
                    f'tool "{raw_name}" of MCP server "{server}" did not answer within {seconds:g} s'
                ) from error
            if error.code == CONNECTION_CLOSED or error.message == "Session terminated":
                connection.end()
                raise McpDisconnectedError(
                    f'the connection to MCP server "{server}" was lost during the call; it may or may not have run'
                ) from error
            raise McpError(f'MCP server "{server}": {error.message}') from error
        except ValidationError as error:
            raise McpError(f'MCP server "{server}" answered with something that is no result of a tool') from error


def _read(documents: list[object], client: McpClient) -> list[RemoteTool]:
    tools: list[RemoteTool] = []
    names: dict[str, str] = {}
    for document in documents:
        tool = RemoteTool(document, client, client.config)
        if tool.name in names:
            raise McpError(f'the server lists "{names[tool.name]}" and "{tool.raw_name}", which are both "{tool.name}"')
        names[tool.name] = tool.raw_name
        tools.append(tool)
    return tools


def _reporter(run: ToolRunContext) -> Any:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        found = {"progress": progress, "total": total, "message": message}
        run.progress({key: value for key, value in found.items() if value is not None})

    return report


def _reason(error: BaseException | None) -> str:
    """The innermost failure of a group, in words, with the notes on the way to it."""
    notes: list[str] = []
    while True:
        notes += getattr(error, "__notes__", [])
        if not isinstance(error, BaseExceptionGroup):
            break
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if error is None:
        return "the server closed the connection"
    return "; ".join([f"{type(error).__name__}: {describe_exception(error)}", *notes])
