"""Listening and serving, inside the application's own event loop. Needs the extra ``[inspect]``."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError

try:
    import uvicorn

    from .app import make_app
except ImportError as error:
    raise ConfigError("the inspector needs more packages: pip install 'dsh-tools[inspect]'") from error

from .auth import Doorkeeper

if TYPE_CHECKING:
    from .service import Inspector

__all__ = ["Server"]


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


class Server:
    """One run of the server."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._listening: socket.socket | None = None
        self._server: _QuietServer | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self, port: int) -> int:
        """Listen and return the port.

        Raises:
            ConfigError: the address is taken.
        """
        config = self._inspector.config
        self._listening = _listen(config.host, port)
        bound: int = self._listening.getsockname()[1]
        hosts = frozenset(f"{name}:{bound}" for name in config.names)
        app: Any = Doorkeeper(make_app(self._inspector, bound), self._inspector.keys, hosts, bound)
        self._server = _QuietServer(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=2,
                lifespan="off",
                server_header=False,
            )
        )
        self._running = asyncio.create_task(self._server.serve(sockets=[self._listening]))
        await self._server.ready.wait()
        return bound

    async def stop(self) -> None:
        """Stop listening; returns when every connection is closed."""
        if self._server is not None:
            self._server.should_exit = True
        while self._running is not None and not self._running.done():
            await asyncio.wait({self._running})
        if self._listening is not None:
            self._listening.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return listening
