"""Where the page is served, and to whom."""

from __future__ import annotations

import ipaddress

import pydantic

__all__ = ["InspectorConfig"]


class InspectorConfig(pydantic.BaseModel):
    """Configuration of the inspector.

    Parameters:
        host: the address to listen on; the loopback by default, so that only this machine can connect.
        port: 0 takes a free one.
        allowed_hosts: further names in the ``Host`` header to accept, without port.
        allow_calls: let people call tools from the page; the calls go through the whole pipeline.
        poll_ms: how often a store that another process writes is looked at, in milliseconds.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    host: str = "127.0.0.1"
    port: int = pydantic.Field(default=0, ge=0, le=65535)
    allowed_hosts: list[str] = pydantic.Field(default_factory=list[str])
    allow_calls: bool = True
    poll_ms: int = pydantic.Field(default=300, ge=20)

    @property
    def names(self) -> list[str]:
        """The host names that lead here."""
        own = ["127.0.0.1", "localhost", "[::1]"] if self._is_loopback else [_shown(self.host)]
        return own + self.allowed_hosts

    def address(self, port: int) -> str:
        """Return the address of the page on a port."""
        return f"http://{_shown(self.host)}:{port}/"

    @property
    def _is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
