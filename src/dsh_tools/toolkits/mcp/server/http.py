"""Serving many clients over streamable HTTP."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import pydantic
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from ....errors import ConfigError

if TYPE_CHECKING:
    from .publisher import Publisher

__all__ = ["HttpConfig", "serve_http"]

_PATH = "/mcp"


class HttpConfig(pydantic.BaseModel):
    """Where to listen, and whom to let in.

    Parameters:
        host: the address; the loopback by default.
        port: 0 takes a free one.
        token: what clients must send as ``Authorization: Bearer …``; needed beyond the loopback.
        allowed_hosts: further values of the ``Host`` header to accept, ``name:port`` or ``name:*``.
        allowed_origins: further values of the ``Origin`` header to accept, for pages in browsers.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    host: str = "127.0.0.1"
    port: int = pydantic.Field(default=0, ge=0, le=65535)
    token: str | None = pydantic.Field(default=None, min_length=1)
    allowed_hosts: list[str] = pydantic.Field(default_factory=list[str])
    allowed_origins: list[str] = pydantic.Field(default_factory=list[str])

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


class _QuietServer(uvicorn.Server):
    """Leaves the process's signals to whoever runs the process, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.ready.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@asynccontextmanager
async def serve_http(publisher: Publisher, config: HttpConfig | None = None) -> AsyncGenerator[str]:
    """Serve for the length of the block; gives the address.

    Requests whose ``Host`` or ``Origin`` is not expected are refused, so that a page in a browser cannot
    reach the tools through a name that leads here.

    Raises:
        ConfigError: the address is taken, or reaches beyond this machine without a token.
    """
    config = config or HttpConfig()
    if not config.is_loopback and config.token is None:
        raise ConfigError(f"serving on {config.host} lets other machines run these tools; a token is needed")
    listening = _listen(config)
    port: int = listening.getsockname()[1]
    app: Any = publisher.server.streamable_http_app(streamable_http_path=_PATH, transport_security=_security(config))
    if config.token is not None:
        app = _Doorkeeper(app, config.token)
    server = _QuietServer(
        uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2, lifespan="on")
    )
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await server.ready.wait()
        shown = f"[{config.host}]" if ":" in config.host else config.host
        yield f"http://{shown}:{port}{_PATH}"
    finally:
        server.should_exit = True
        while not running.done():
            await asyncio.wait({running})
        listening.close()
        await publisher.close()


def _listen(config: HttpConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((config.host, config.port))
    except OSError as error:
        listening.close()
        raise ConfigError(f"cannot listen on {config.host}:{config.port}: {error.strerror or error}") from error
    return listening


def _security(config: HttpConfig) -> TransportSecuritySettings:
    names = ["127.0.0.1", "localhost", "[::1]"] if config.is_loopback else [config.host]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[f"{name}:*" for name in names] + config.allowed_hosts,
        allowed_origins=[f"http://{name}:*" for name in names] + config.allowed_origins,
    )


class _Doorkeeper:
    """Lets only requests with the token through."""

    def __init__(self, app: Callable[..., Awaitable[None]], token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = next((value for key, value in scope["headers"] if key == b"authorization"), b"")
            if not hmac.compare_digest(given, self._expected):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)
