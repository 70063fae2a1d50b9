"""What the web tools may do."""

from __future__ import annotations

import pydantic

from ...kernel import MAX_TIMEOUT_MS

__all__ = ["WebConfig"]


class WebConfig(pydantic.BaseModel):
    """Configuration of the web tools (HOST-226 to 228).

    Parameters:
        search: offer ``web_search``.
        fetch: offer ``web_fetch``.
        search_max_queries: how many queries one call may have.
        search_max_results: how many sources one call returns.
        search_timeout_ms: how long one call may take, in milliseconds.
        fetch_timeout_ms: the same for a page, redirects and body included.
        fetch_max_output_chars: how many characters of a page are converted and returned.
        fetch_max_bytes: how many bytes of a page are read, counted after decompression.
        fetch_max_redirects: how many redirects are followed.
        allow_private: let pages be fetched from private networks and from this machine.
        allowed_hosts: names and addresses, ``host`` or ``host:port``, that may be private all the same.
        user_agent: what we call ourselves.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    search: bool = True
    fetch: bool = True
    search_max_queries: int = pydantic.Field(default=4, ge=1, strict=True)
    search_max_results: int = pydantic.Field(default=8, ge=1, strict=True)
    search_timeout_ms: float = pydantic.Field(default=30_000, gt=0, le=MAX_TIMEOUT_MS, allow_inf_nan=False)
    fetch_timeout_ms: float = pydantic.Field(default=30_000, gt=0, le=MAX_TIMEOUT_MS, allow_inf_nan=False)
    fetch_max_output_chars: int = pydantic.Field(default=200_000, ge=1000, strict=True)
    fetch_max_bytes: int = pydantic.Field(default=10_000_000, ge=1, strict=True)
    fetch_max_redirects: int = pydantic.Field(default=5, ge=0, strict=True)
    allow_private: bool = False
    allowed_hosts: list[str] = pydantic.Field(default_factory=list[str])
    user_agent: str = "dsh-tools"
