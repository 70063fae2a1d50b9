"""Our tools as an MCP server, for any MCP client."""

from __future__ import annotations

from .http import HttpConfig, serve_http
from .publisher import Publisher
from .stdio import serve_stdio

__all__ = ["HttpConfig", "Publisher", "serve_http", "serve_stdio"]
