"""The name under which a server's tool is registered (HOST-231)."""

from __future__ import annotations

import hashlib
import re

__all__ = ["MAX_NAME", "public_name"]

MAX_NAME = 64
"""The longest name that every model provider takes, in characters."""

_KEPT = 51
_DIGEST = 12
_INVALID = re.compile(r"[^A-Za-z0-9_-]")


def public_name(server: str, raw: str) -> str:
    """Return ``mcp__<server>__<raw>``, made fit for providers; a pure function of its arguments.

    A name that had to be changed, or is too long, ends in a digest of server and raw name, so that two
    tools never meet by accident.
    """
    plain = f"mcp__{server}__{raw}"
    name = _INVALID.sub("_", plain)
    if name == plain and len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(f"{server}\0{raw}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[:_KEPT]}_{digest[:_DIGEST]}"
