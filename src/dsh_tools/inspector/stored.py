"""Open questions of sessions in a store that no agent here has open: looked for, and remembered until they change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from ..services import open_questions
from ..session import Event, SessionHeader
from ..session.events import ApprovalAsked

if TYPE_CHECKING:
    from ..session import SessionSummary
    from .source import Source

__all__ = ["OpenQuestion", "StoredQuestions", "questions_with_times"]

MAX_READ = 50
"""How many of the last used sessions are read whose turn does not wait: a process may have died while it asked."""


class OpenQuestion(msgspec.Struct, frozen=True):
    """A question in a stored session.

    Parameters:
        header: of the session.
        asked: the question.
        since: when it was asked, in milliseconds since the epoch.
        waits: its turn has ended as waiting; otherwise whoever asked still runs, or died.
    """

    header: SessionHeader
    asked: ApprovalAsked
    since: int
    waits: bool


class StoredQuestions:
    """Looks for open questions in a source's sessions. A session is read again only when it has changed.

    Parameters:
        source: where the sessions are.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._read: dict[str, tuple[tuple[int, int, bool], tuple[OpenQuestion, ...]]] = {}
        self.found: tuple[OpenQuestion, ...] = ()

    async def look(self) -> bool:
        """Look again; say whether anything has come or gone.

        Raises:
            SessionError: the store cannot be read.
        """
        read: dict[str, tuple[tuple[int, int, bool], tuple[OpenQuestion, ...]]] = {}
        found: list[OpenQuestion] = []
        for place, summary in enumerate(await self._source.summaries()):
            if not summary.waiting and place >= MAX_READ:
                continue
            session = summary.header.id
            stamp = (summary.length, summary.updated_at, summary.waiting)
            known = self._read.get(session)
            questions = known[1] if known is not None and known[0] == stamp else await self._questions(summary)
            read[session] = stamp, questions
            found += questions
        before, self._read, self.found = self.found, read, tuple(found)
        return before != self.found

    async def _questions(self, summary: SessionSummary) -> tuple[OpenQuestion, ...]:
        events = await self._source.events(summary.header.id, 0)
        return tuple(
            OpenQuestion(summary.header, asked, since, summary.waiting) for asked, since in questions_with_times(events)
        )


def questions_with_times(events: Iterable[Event]) -> list[tuple[ApprovalAsked, int]]:
    """Return the open questions of a log, oldest first, each with its time in milliseconds since the epoch."""
    kept = tuple(events)
    times = {event.data["id"]: event.time for event in kept if event.type == ApprovalAsked.event_type}
    return [(asked, times[asked.id]) for asked in open_questions(kept)]
