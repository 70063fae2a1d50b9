"""The stream of server-sent events that a page listens to.

Messages: ``hello``, then ``approvals`` and ``sessions``; for a session ``rows`` in batches until ``caught-up``; and
from then on whatever happens. Each ``rows`` message carries an id, ``<next place>``; a page that lost
its connection comes back with it and gets only what it missed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from ..json_value import to_json_text
from ..session import Event
from .rows import Projector

if TYPE_CHECKING:
    from .hub import Channel
    from .service import Inspector

__all__ = ["event_stream", "session_rows"]

BATCH = 250
"""Rows in one message."""
KEEP_ALIVE = 15.0
"""Seconds of silence after which a comment shows that the connection is alive."""


async def event_stream(inspector: Inspector, session: str | None, start: int) -> AsyncGenerator[str]:
    """Yield messages until the page goes or the inspector ends.

    Parameters:
        inspector: whom to listen to.
        session: the session the page shows.
        start: the first place in its log that the page does not have yet.
    """
    hub, desk = inspector.hub, inspector.desk
    channel = hub.open(session)
    try:
        yield "retry: 700\n" + _message("hello", inspector.about())
        # A large store takes a while to look through; what is found then is told to all pages.
        inspector.look_soon()
        yield _message("approvals", desk.pending())
        yield _message("sessions", await session_rows(inspector))
        follower = None if session is None else _Follower(inspector, session, start)
        if follower is not None:
            async for message in follower.catch_up():
                yield message
            yield _message("caught-up", {"session": session})
        while not hub.closed:
            messages = _take(channel)
            if follower is not None:
                # The log comes first: what ends an answer or a call refers to its row.
                async for message in follower.catch_up():
                    yield message
            for message in messages:
                yield message
            if not await channel.wait(KEEP_ALIVE):
                yield ": still here\n\n"
        yield _message("goodbye", {})
    finally:
        hub.leave(channel)


class _Follower:
    """Reads on in one session's log."""

    def __init__(self, inspector: Inspector, session: str, start: int) -> None:
        self._source = inspector.source
        self._session = session
        self._start = start
        self._next = 0
        self._projector = Projector(lambda name: inspector.find_tool(name, session))

    async def catch_up(self) -> AsyncGenerator[str]:
        """Yield the rows that came since the last time. What the page has already is only read."""
        events = await self._source.events(self._session, self._next)
        for begin in range(0, len(events), BATCH):
            batch = events[begin : begin + BATCH]
            rows = self._rows(batch)
            self._next = batch[-1].seq + 1
            if self._next > self._start:
                payload = {"session": self._session, "next": self._next, "rows": rows}
                yield f"id: {self._next}\n" + _message("rows", payload)

    def _rows(self, batch: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        event: Event
        for event in batch:
            row = self._projector.row(event)
            if row is not None and event.seq >= self._start:
                rows.append(row)
        return rows


async def session_rows(inspector: Inspector) -> list[dict[str, Any]]:
    """Return the list of sessions as the page shows it."""
    return [
        {
            "id": found.header.id,
            "createdAt": found.header.created_at,
            "updatedAt": found.updated_at,
            "length": found.length,
            "title": found.title,
            "live": inspector.is_live(found.header.id),
            "waiting": found.waiting,
            **{
                key: value
                for key, value in (
                    ("cwd", found.header.cwd),
                    ("origin", found.header.origin),
                    ("parent", found.header.parent_session),
                )
                if isinstance(value, str)
            },
        }
        for found in await inspector.source.summaries()
    ]


def _take(channel: Channel) -> list[str]:
    messages = [_message(kind, payload) for kind, payload in channel.take()]
    if channel.overran:
        channel.overran = False
        return [_message("start-over", {})]
    return messages


def _message(kind: str, payload: Any) -> str:
    # JSON text has no line breaks of its own, so one data line holds it.
    return f"event: {kind}\ndata: {to_json_text(payload)}\n\n"
