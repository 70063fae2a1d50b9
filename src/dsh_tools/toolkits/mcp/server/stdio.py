"""Serving one client over standard input and output."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from mcp.server.stdio import stdio_server

if TYPE_CHECKING:
    from .publisher import Publisher

__all__ = ["serve_stdio"]


async def serve_stdio(publisher: Publisher) -> None:
    """Serve until the client closes our input; nothing else may write to standard output meanwhile."""
    server = publisher.server
    try:
        async with _lines_of_stdin() as lines, stdio_server(cast("Any", lines)) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    finally:
        await publisher.close()


@asynccontextmanager
async def _lines_of_stdin() -> AsyncGenerator[AsyncIterator[str] | None]:
    """The lines of standard input, read on the event loop.

    The SDK would read them in a thread, and a thread that waits for input cannot be stopped: a signal would
    end the program only when the client closes its end. What we start gets no input of ours. Files and devices
    are left to the SDK: they never keep it waiting.
    """
    kind = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(0)):
        yield None
        return
    kept = os.dup(0)
    reader = asyncio.StreamReader()
    pipe = os.fdopen(os.dup(0), "rb", buffering=0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        yield _lines(reader)
    finally:
        transport.close()
        os.set_blocking(kept, True)
        os.dup2(kept, 0)
        os.close(kept)


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    rest = bytearray()
    while data := await reader.read(65_536):
        rest += data
        *lines, last = rest.split(b"\n")
        rest = last
        for line in lines:
            yield line.decode("utf-8", "replace")
