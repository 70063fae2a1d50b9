"""Tools of MCP servers, and our tools as an MCP server."""

from __future__ import annotations

try:
    import mcp as _sdk
except ImportError as error:
    raise ImportError("the MCP toolkit needs the official SDK: pip install 'dsh-tools[mcp]'") from error

from .client import McpClient
from .config import McpConfig, ReconnectConfig
from .errors import McpDisconnectedError, McpError, McpToolError
from .names import public_name
from .plugin import McpPlugin
from .tool import RemoteTool, remote_tool_of

__all__ = [
    "Config",
    "McpClient",
    "McpConfig",
    "McpDisconnectedError",
    "McpError",
    "McpPlugin",
    "McpToolError",
    "ReconnectConfig",
    "RemoteTool",
    "apply",
    "inject",
    "name",
    "public_name",
    "remote_tool_of",
]

del _sdk

# The module is itself a plugin, for `plugins: [{use: dsh_tools.toolkits.mcp, config: {…}}]`.
plugin = McpPlugin()
name = plugin.name
inject = plugin.inject
Config = McpConfig
apply = plugin.apply
