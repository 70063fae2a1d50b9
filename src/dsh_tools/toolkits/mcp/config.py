"""How to reach one MCP server, and what to make of it (HOST-230)."""

from __future__ import annotations

from typing import Literal

import pydantic

from ...kernel import MAX_TIMEOUT_MS

__all__ = ["McpConfig", "ReconnectConfig"]


class ReconnectConfig(pydantic.BaseModel):
    """What happens when the connection is lost, or was never made (HOST-241).

    Parameters:
        enabled: whether to try again at all.
        initial_delay_ms: how long to wait before the first attempt, in milliseconds; doubled each time.
        max_delay_ms: the longest wait. A connection that lasted this long forgets earlier failures.
        max_attempts: after this many failures in a row the server's tools go.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    enabled: bool = True
    initial_delay_ms: float = pydantic.Field(default=500, gt=0, allow_inf_nan=False)
    max_delay_ms: float = pydantic.Field(default=30_000, gt=0, allow_inf_nan=False)
    max_attempts: int = pydantic.Field(default=10, ge=1, strict=True)

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> ReconnectConfig:
        if self.initial_delay_ms > self.max_delay_ms:
            raise ValueError("initial_delay_ms must not be greater than max_delay_ms")
        return self

    def delay(self, failures: int) -> float:
        """Return the wait after that many failures in a row, in seconds."""
        # The exponent is bounded: 2.0 ** 1024 is no float.
        return min(self.max_delay_ms, self.initial_delay_ms * 2.0 ** min(failures - 1, 64)) / 1000


class McpConfig(pydantic.BaseModel):
    """Configuration of one MCP server.

    Parameters:
        server_name: how its tools are named, ``mcp__<server_name>__<tool>``; once in an application.
        transport: ``stdio`` starts a program, ``streamable-http`` talks to a URL.
        command: the program (stdio).
        args: its arguments.
        env: environment variables beside the harmless ones it inherits (HOST-244).
        cwd: its working folder; ours by default.
        url: where the server listens (streamable-http).
        headers: sent with every request, for instance an authorization.
        tool_call_timeout_ms: how long one call may take, in milliseconds.
        connect_timeout_ms: how long connecting and the first list of tools may take, in milliseconds.
        fail_on_startup_error: fail to load where the first connection fails, instead of going on trying.
        reconnect: see :class:`ReconnectConfig`.
        trust_annotations: believe what the server says about its tools: read-only ones may overlap, and
            ``ask_before`` can tell them apart (D18).
        ask_before: which calls need a person's approval: those that may destroy something, that change
            anything, all, or none of their own. What is not known to be harmless counts as destructive.
        max_tools: a server that lists more is refused.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    server_name: str = pydantic.Field(pattern=r"^[A-Za-z0-9_-]{1,32}$")
    transport: Literal["stdio", "streamable-http"]
    command: str | None = None
    args: list[str] = pydantic.Field(default_factory=list[str])
    env: dict[str, str] = pydantic.Field(default_factory=dict[str, str])
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = pydantic.Field(default_factory=dict[str, str])
    tool_call_timeout_ms: float = pydantic.Field(default=60_000, gt=0, le=MAX_TIMEOUT_MS, allow_inf_nan=False)
    connect_timeout_ms: float = pydantic.Field(default=30_000, gt=0, le=MAX_TIMEOUT_MS, allow_inf_nan=False)
    fail_on_startup_error: bool = False
    reconnect: ReconnectConfig = pydantic.Field(default_factory=ReconnectConfig)
    trust_annotations: bool = False
    ask_before: Literal["nothing", "destructive", "changes", "everything"] = "nothing"
    max_tools: int = pydantic.Field(default=1000, ge=1, strict=True)

    @pydantic.model_validator(mode="after")
    def _fits_transport(self) -> McpConfig:
        wanted, other = ("command", "url") if self.transport == "stdio" else ("url", "command")
        if not getattr(self, wanted):
            raise ValueError(f"transport {self.transport} needs {wanted}")
        if getattr(self, other) is not None:
            raise ValueError(f"{other} does not go with transport {self.transport}")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError("url must begin with http:// or https://")
        return self
