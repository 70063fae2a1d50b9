"""The limit on the text that a model reads of a job (HOST-187, 188)."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["limit_text", "status_line"]

_STATUS = re.compile(r"\n\[status: [^\n]*\]\Z")


def status_line(job: Any) -> str:
    """Return the line that says how a job stands."""
    detail = f", {job['detail']}" if "detail" in job else ""
    return f"[status: {job['status']}{detail}]".replace("\n", " ")


def limit_text(whole: str, limit: int) -> str:
    """Cut a text to ``limit`` UTF-8 bytes: its end stays, and of that first of all the status line."""
    data = _encode(whole)
    if len(data) <= limit:
        return whole
    found = _STATUS.search(whole)
    status = b"" if found is None else _encode(found.group())
    body = data[: len(data) - len(status)]
    room = limit - len(status)
    if room <= 0:
        return _end(status.lstrip(b"\n"), limit)
    return _end(body, room) + status.decode("utf-8", errors="surrogatepass")


def _end(data: bytes, size: int) -> str:
    start = max(0, len(data) - size)
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode("utf-8", errors="surrogatepass")


def _encode(value: str) -> bytes:
    return value.encode("utf-8", errors="surrogatepass")
