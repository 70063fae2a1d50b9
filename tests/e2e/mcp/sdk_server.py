"""A server written with the official SDK's high-level interface. Run: python sdk_server.py [PORT]"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("calculator")


@dataclass
class Division:
    quotient: int
    remainder: int


@server.tool()
def divide(dividend: int, divisor: int) -> Division:
    """Divide two integers."""
    return Division(*divmod(dividend, divisor))


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count slowly."""
    for step in range(to):
        await ctx.report_progress(step + 1, to)
        await asyncio.sleep(0.01)
    return "done"


@server.tool()
def crash() -> str:
    """Take the whole server down."""
    os._exit(3)


if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run("stdio")
