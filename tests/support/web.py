"""A web server of a few lines, which answers as badly as a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Handler = Callable[[str, dict[str, str], asyncio.StreamWriter], Awaitable[None]]


def response(body: bytes = b"", status: str = "200 OK", kind: str = "text/html", **headers: str) -> bytes:
    """The bytes of an answer."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close"]
    if kind:
        lines.append(f"content-type: {kind}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def web_server(handler: Handler) -> AsyncIterator[str]:
    """Serve on a free port of this machine; gives the address without a path."""
    running: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        task.add_done_callback(running.discard)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            await handler(first.split(" ")[1], fields, writer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.wait_closed()


def pages(**known: bytes) -> Handler:
    """Answer each path from a table; ``index`` is ``/``."""

    async def handle(path: str, fields: dict[str, str], writer: asyncio.StreamWriter) -> None:
        name = path.strip("/").partition("?")[0] or "index"
        writer.write(known.get(name, response(b"nothing here", "404 Not Found", "text/plain")))

    return handle
