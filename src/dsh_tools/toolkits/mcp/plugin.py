"""The plugin: one for each server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...kernel import effect_free
from ...tools import PRE_EXECUTE, Allow, Ask, Decision, ToolExecution
from .client import McpClient
from .config import McpConfig
from .connection import Connect, open_transport
from .tool import RemoteTool, remote_tool_of

if TYPE_CHECKING:
    from ...kernel.context import Context
    from ...kernel.dispatch import Next

__all__ = ["McpPlugin"]


class McpPlugin:
    """Offers the tools of one MCP server while it is mounted; mount one for each server.

    Parameters:
        connect: makes a transport of the SDK for each connection, instead of what the config says; for
            servers inside the same process.
    """

    name = "mcp"
    inject = ("tools",)
    Config = McpConfig

    def __init__(self, connect: Connect | None = None) -> None:
        self._connect = connect

    async def apply(self, ctx: Context, config: McpConfig) -> None:
        """Connect and register the server's tools.

        Raises:
            ServiceConflictError: the server's name is taken (HOST-230).
            McpError: the first connection failed, and the config says that this fails the loading.
        """
        client = McpClient(ctx, config, self._connect or (lambda: open_transport(config)))
        ctx.provide(f"mcp:{config.server_name}", client)
        ctx.effect(lambda: client.stop, "connection")
        if config.ask_before != "nothing":
            ctx.on(PRE_EXECUTE, _AskFirst(ctx, client).decide)
            ctx.tools.declare_policy(f"mcp:{config.server_name}", config.ask_before)
        await client.start()


class _AskFirst:
    """Asks for approval of a server's calls, as its config says; other rules that refuse come first."""

    def __init__(self, ctx: Context, client: McpClient) -> None:
        self._ctx = ctx
        self._client = client

    @effect_free
    async def decide(self, execution: ToolExecution, next: Next[Decision]) -> Decision:
        """Turn an allowed call into a question where there is a reason to."""
        decision = await next()
        tool = remote_tool_of(self._ctx.tools.get(execution.name, execution.scope))
        if not isinstance(decision, Allow) or tool is None or tool not in self._client.tools:
            return decision
        reason = self._reason(tool)
        return decision if reason is None else Ask(f'MCP server "{tool.server}" {reason}')

    def _reason(self, tool: RemoteTool) -> str | None:
        wanted = self._client.config.ask_before
        if wanted == "everything":
            return "runs this"
        if wanted == "destructive" and tool.may_destroy:
            return "may destroy something"
        if wanted == "changes" and not tool.is_read_only:
            return "may change something"
        return None
