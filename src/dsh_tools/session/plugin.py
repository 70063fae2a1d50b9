"""The plugin that gives an application its sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pydantic

from ..errors import ConfigError
from .memory import MemoryStore
from .postgres import PostgresStore
from .sessions import Sessions
from .sqlite import SqliteStore
from .store import SessionStore

if TYPE_CHECKING:
    from ..kernel.context import Context

__all__ = ["SessionsConfig", "SessionsPlugin", "open_store"]


class SessionsConfig(pydantic.BaseModel):
    """Where sessions are kept.

    Parameters:
        store: ``sqlite`` (a file), ``postgres`` (a database; extra ``[postgres]``), or ``memory``
            (gone with the process).
        path: the SQLite file; relative paths are relative to the working directory.
        conninfo: the connection string of the PostgreSQL database.
        synchronous: ``full`` survives a loss of power, ``normal`` only the death of the process.
        check_pairing: refuse results whose call is not pending in the open step (HOST-125).
        read_only: only look on: a file has to be there, and is never changed.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    store: Literal["sqlite", "postgres", "memory"] = "sqlite"
    path: str = ".dsh-tools/sessions.sqlite"
    conninfo: str | None = None
    synchronous: Literal["full", "normal"] = "full"
    check_pairing: bool = False
    read_only: bool = False

    @pydantic.model_validator(mode="after")
    def _complete(self) -> SessionsConfig:
        if self.store == "postgres" and not self.conninfo:
            raise ValueError("store: postgres needs conninfo")
        return self


class SessionsPlugin:
    """Provides ``ctx.sessions``; at its end every live session is stored and closed, then the store."""

    name = "sessions"
    Config = SessionsConfig

    def apply(self, ctx: Context, config: SessionsConfig) -> None:
        """Provide the service. The store is opened by its first use."""
        store = open_store(config)
        sessions = Sessions(store, bus=ctx.bus, check_pairing=config.check_pairing)
        ctx.effect(lambda: store.close, "session store")
        ctx.effect(lambda: sessions.close, "live sessions")
        ctx.provide("sessions", sessions)


def open_store(config: SessionsConfig) -> SessionStore:
    """Return the store that a configuration names; nothing is opened yet.

    Raises:
        ConfigError: the store is not known, or its connection string is missing.
    """
    if config.store == "memory":
        return MemoryStore()
    if config.store == "sqlite":
        return SqliteStore(config.path, synchronous=config.synchronous, read_only=config.read_only)
    if not config.conninfo:
        raise ConfigError("sessions: store postgres needs conninfo")
    return PostgresStore(config.conninfo)
