"""A provider on loopback: answers each request with the next prepared reply, byte for byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

Part: TypeAlias = bytes | float | None
"""Bytes to send, seconds to wait, or None to cut the connection there."""


class Reply:
    """One prepared answer."""

    def __init__(
        self,
        parts: Iterable[Part] = (),
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        chunked: bool = True,
    ) -> None:
        self.parts = list(parts)
        self.status = status
        self.headers = headers or {}
        self.chunked = chunked


class Received:
    """One request as it came in."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.json: Any = json.loads(body) if body else None


class ModelServer:
    """The server; ``requests`` is what it was asked, ``hung_up`` how many streams their reader closed."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies = list(replies)
        self.requests: list[Received] = []
        self.hung_up = 0
        self.url = ""
        self.connections: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        task.add_done_callback(self.connections.discard)
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                if not await self._reply(reader, writer, self.replies.pop(0)):
                    break
        except ConnectionError:
            self.hung_up += 1
        except asyncio.CancelledError:
            pass  # the server's end
        finally:
            writer.close()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: Reply) -> bool:
        """Send a reply; False where the connection ends with it."""
        headers = {"content-type": "text/event-stream" if reply.status == 200 else "application/json", **reply.headers}
        headers |= {"transfer-encoding": "chunked"} if reply.chunked else {"connection": "close"}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {reply.status} X\r\n{head}\r\n".encode())
        for part in reply.parts:
            if part is None:
                writer.transport.abort()
                return False
            if isinstance(part, float):
                await writer.drain()
                # A reader that hangs up while we wait is noticed here.
                try:
                    if await asyncio.wait_for(reader.read(1), part) == b"":
                        self.hung_up += 1
                        return False
                except TimeoutError:
                    pass
                continue
            writer.write(b"%x\r\n%s\r\n" % (len(part), part) if reply.chunked else part)
            await writer.drain()
        if reply.chunked:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return reply.chunked


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(first.split()[1], headers, body)


@asynccontextmanager
async def model_server(*replies: Reply) -> AsyncIterator[ModelServer]:
    """Run a server that gives these replies, in order."""
    served = ModelServer(replies)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    served.url = f"http://{host}:{port}"
    try:
        yield served
    finally:
        server.close()
        for task in served.connections:
            task.cancel()
        await asyncio.gather(*served.connections, return_exceptions=True)
        await server.wait_closed()


def sse(*records: Any, event_names: bool = False) -> bytes:
    """Return records as server-sent events; a string is sent as it is."""
    lines: list[str] = []
    for record in records:
        if event_names and isinstance(record, dict):
            lines.append(f"event: {record['type']}")
        lines.append("data: " + (record if isinstance(record, str) else json.dumps(record)))
        lines.append("")
    return ("\n".join(lines) + "\n").encode()


def scattered(data: bytes, sizes: Sequence[int]) -> list[Part]:
    """Cut bytes into pieces of these sizes, over and over."""
    pieces: list[Part] = []
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        pieces.append(data[at : at + size])
        at, turn = at + size, turn + 1
    return pieces


def error_body(kind: str, message: str = "no", code: str | None = None) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message, "code": code}}).encode()
