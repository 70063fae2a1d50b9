"""Full-text search over the calls, results and messages of all sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

from ..errors import HarnessError
from ..json_value import to_json_text
from ..session import Event
from .source import Source

__all__ = ["search_sessions"]

MAX_HITS = 100
MAX_SECONDS = 5.0
_AROUND = 80


async def search_sessions(source: Source, text: str) -> dict[str, Any]:
    """Find a text, in any case, newest sessions first.

    Returns:
        ``hits``, each with session, place, event type, tool name and a piece of text around the match; and
        ``complete``, False where there are more than fit or the time was over.
    """
    wanted = text.casefold().strip()
    hits: list[dict[str, Any]] = []
    if not wanted:
        return {"hits": hits, "complete": True}
    until = time.monotonic() + MAX_SECONDS
    for summary in await source.summaries():
        try:
            events = (await source.read(summary.header.id)).events
        except HarnessError:
            # One broken log must not hide the others.
            continue
        names: dict[str, str] = {}
        for number, event in enumerate(events):
            if number % 200 == 0:
                # Long logs must not hold up the pages that watch something else.
                await asyncio.sleep(0)
                if time.monotonic() > until:
                    return {"hits": hits, "complete": False}
            hit = _hit(event, wanted, names)
            if hit is not None:
                hits.append({"session": summary.header.id, "title": summary.title, **hit})
                if len(hits) >= MAX_HITS:
                    return {"hits": hits, "complete": False}
    return {"hits": hits, "complete": True}


def _hit(event: Event, wanted: str, names: dict[str, str]) -> dict[str, Any] | None:
    data: Any = event.data
    if event.type == "tool/call":
        names[data["callId"]] = data["name"]
    for text in _texts(event):
        at = text.casefold().find(wanted)
        if at < 0:
            continue
        begin = max(at - _AROUND, 0)
        hit: dict[str, Any] = {
            "seq": event.seq,
            "time": event.time,
            "type": event.type,
            "before": ("…" if begin else "") + text[begin:at],
            "match": text[at : at + len(wanted)],
            "after": text[at + len(wanted) : at + len(wanted) + _AROUND],
        }
        name = data.get("name") or names.get(_call_id(data))
        if name:
            hit["name"] = name
        return hit
    return None


def _call_id(data: Any) -> str:
    message: dict[str, Any] = data.get("message") or {}
    source: dict[str, Any] = message.get("source") or {}
    return source.get("callId", "")


def _texts(event: Event) -> Iterator[str]:
    """The texts of an event that a person would look for."""
    data: Any = event.data
    if event.type == "tool/call":
        yield data["name"] + " " + data["arguments"]
    elif event.type == "tool/code-dispatch-start":
        yield data["name"] + " " + to_json_text(data["arguments"])
    elif event.type == "tool/code-dispatch" or event.type == "user/message":
        yield from _block_texts(data["content"])
    elif event.type in ("assistant/message", "tool/result"):
        yield from _block_texts(data["message"]["content"])


def _block_texts(blocks: Any) -> Iterator[str]:
    for block in blocks:
        if block["type"] in ("text", "reasoning"):
            yield block["text"]
        elif block["type"] == "json":
            yield to_json_text(block["value"])
        elif block["type"] == "tool-result":
            yield from _block_texts(block["content"])
