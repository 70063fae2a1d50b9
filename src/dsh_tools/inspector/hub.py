"""What all open pages share: who is listening, and what is going on that no log holds yet."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

__all__ = ["Channel", "Hub"]

MAX_WAITING = 2_000
"""Messages that wait for one page; a page that falls further behind starts over."""
MAX_PROGRESS = 64_000
"""Characters of a running call's progress that are kept."""


class Channel:
    """One open page: the session it shows, and the messages that wait for it.

    Parameters:
        session: the session the page shows; None for a page that shows none.
    """

    def __init__(self, session: str | None) -> None:
        self.session = session
        self.overran = False
        self._waiting: deque[tuple[str, Any]] = deque()
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Say that there are new events in the session, or that the hub has closed."""
        self._wake.set()

    def post(self, kind: str, payload: Any) -> None:
        """Add a message."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.clear()
            self.overran = True
        self._waiting.append((kind, payload))
        self._wake.set()

    def take(self) -> list[tuple[str, Any]]:
        """Take the waiting messages. Pieces of one text that follow each other come as one."""
        taken: list[tuple[str, Any]] = []
        while self._waiting:
            kind, payload = self._waiting.popleft()
            last = taken[-1] if taken else None
            if last is not None and kind == "delta" == last[0] and payload["kind"] == last[1]["kind"]:
                taken[-1] = (kind, {**last[1], "text": last[1]["text"] + payload["text"]})
            else:
                taken.append((kind, payload))
        return taken

    async def wait(self, seconds: float) -> bool:
        """Wait until woken; False when the time is over first."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True


class Hub:
    """Brings what happens to the pages that show it."""

    def __init__(self) -> None:
        self._channels: set[Channel] = set()
        self._partial: dict[str, dict[str, str]] = {}
        self._progress: dict[str, dict[str, str]] = {}
        self._states: dict[str, dict[str, str]] = {}
        self.closed = False

    @property
    def is_watched(self) -> bool:
        """Whether any page is open."""
        return bool(self._channels)

    def open(self, session: str | None) -> Channel:
        """Add a page. It first gets what is going on in its session already."""
        channel = Channel(session)
        if session is not None:
            for kind, text in self._partial.get(session, {}).items():
                channel.post("delta", {"kind": kind, "text": text})
            for call_id, text in self._progress.get(session, {}).items():
                channel.post("progress", {"callId": call_id, "text": text})
            for call_id, state in self._states.get(session, {}).items():
                channel.post("state", {"callId": call_id, "state": state})
        self._channels.add(channel)
        return channel

    def leave(self, channel: Channel) -> None:
        """Forget a page that was closed."""
        self._channels.discard(channel)

    def broadcast(self, kind: str, payload: Any) -> None:
        """Tell all pages."""
        for channel in self._channels:
            channel.post(kind, payload)

    def touch(self, session: str) -> None:
        """Say that a session has new events."""
        for channel in self._channels:
            if channel.session == session:
                channel.wake()

    def tell(self, session: str, kind: str, payload: Any) -> None:
        """Tell the pages that show a session."""
        for channel in self._channels:
            if channel.session == session:
                channel.post(kind, payload)

    # ── what is going on ──────────────────────────────────────────────────────

    def delta(self, session: str, kind: str, text: str) -> None:
        """Add a piece of the answer that is being written; ``kind`` is ``text`` or ``reasoning``."""
        partial = self._partial.setdefault(session, {})
        partial[kind] = partial.get(kind, "") + text
        self.tell(session, "delta", {"kind": kind, "text": text})

    def end_answer(self, session: str) -> None:
        """Forget the pieces: the answer is in the log now, or void."""
        if self._partial.pop(session, None) is not None:
            self.tell(session, "answer-end", {})

    def progress(self, session: str, call_id: str, text: str) -> None:
        """Add what a running call says of itself."""
        kept = self._progress.setdefault(session, {})
        kept[call_id] = (kept.get(call_id, "") + text)[-MAX_PROGRESS:]
        self.tell(session, "progress", {"callId": call_id, "text": text[-MAX_PROGRESS:]})

    def state(self, session: str, call_id: str, state: str) -> None:
        """Say where a call stands."""
        self._states.setdefault(session, {})[call_id] = state
        self.tell(session, "state", {"callId": call_id, "state": state})

    def end_call(self, session: str, call_id: str) -> None:
        """Forget a call's progress and state: its result is known."""
        for table in (self._progress, self._states):
            kept = table.get(session)
            if kept is not None and kept.pop(call_id, None) is not None and not kept:
                del table[session]

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        for channel in self._channels:
            channel.wake()

    def reopen(self) -> None:
        """Take pages again."""
        self.closed = False
