"""What goes wrong between us and an MCP server. The **model** reads each message."""

from __future__ import annotations

from ...errors import HarnessError, ToolError

__all__ = ["McpDisconnectedError", "McpError", "McpToolError"]


class McpError(HarnessError):
    """A call could not be made or answered; caused by the server, seen by the **model**."""

    default_code = "MCP_ERROR"


class McpDisconnectedError(McpError):
    """There is no connection to the server now, or it was lost during the call (HOST-241)."""

    default_code = "MCP_DISCONNECTED"


class McpToolError(ToolError):
    """The server's tool reported an error (``isError``); its text is meant for the **model** (HOST-237)."""
