"""Serving one client over standard input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.server.stdio import stdio_server

if TYPE_CHECKING:
    from .publisher import Publisher

__all__ = ["serve_stdio"]


async def serve_stdio(publisher: Publisher) -> None:
    """Serve until the client closes our input; nothing else may write to standard output meanwhile."""
    server = publisher.server
    try:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    finally:
        await publisher.close()
