"""The end of a lifetime, as something that everybody can wait for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Generator
from typing import Any

from .activity import is_inside
from .state import Changes

__all__ = ["Completion"]

_log = logging.getLogger("dsh_tools")


class Completion(Awaitable[None]):
    """One disposal under way or done; every ``dispose()`` of one lifetime gives the same one (D13).

    Awaiting it waits for the cleanup's end and raises what failed in it. A cancelled awaiter
    keeps waiting until the end, and is cancelled then: cleanup is never cut short. Not awaiting
    it is fine: the cleanup runs all the same, and its failures are logged (D14).

    Code that the disposal itself waits for (the lifetime's own body, a cleanup, an event
    delivery) can't wait for the end; there the await returns at once.
    """

    __slots__ = ("_as_group", "_end", "_lifetime", "_what", "done", "failures", "watched")

    def __init__(self, lifetime: object, what: str, *, as_group: bool) -> None:
        self._lifetime = lifetime
        self._what = what
        self._as_group = as_group
        self._end = Changes()
        self.done = False
        self.failures: list[Exception] = []
        self.watched = False

    def __await__(self) -> Generator[Any, None, None]:
        return self._wait().__await__()

    async def joined(self) -> list[Exception]:
        """Wait for the end on behalf of an owner, whatever happens; return the failures instead of raising."""
        self.watched = True
        await self.outlast()
        return self.failures

    async def outlast(self) -> asyncio.CancelledError | None:
        """Wait for the end even if cancelled meanwhile; return that cancellation."""
        cancelled: asyncio.CancelledError | None = None
        while not self.done:
            cancelled = await self._end.next_surely() or cancelled
        return cancelled

    def finish(self, failures: list[Exception]) -> None:
        """Mark the end; with nobody waiting for it, log the failures."""
        self.failures = failures
        self.done = True
        self._end.announce()
        if not self.watched:
            self._log_failures()

    def throw(self) -> None:
        """Raise the failures, if there are any."""
        if not self.failures:
            return
        if len(self.failures) == 1 and not self._as_group:
            raise self.failures[0]
        raise ExceptionGroup(f"disposing {self._what} failed", self.failures)

    async def _wait(self) -> None:
        if not self.done:
            if is_inside(self._lifetime):
                return
            self.watched = True
            cancelled = await self.outlast()
            if cancelled is not None:
                self._log_failures()
                raise cancelled
        self.throw()

    def _log_failures(self) -> None:
        for failure in self.failures:
            _log.error("disposing %s: a cleanup failed", self._what, exc_info=failure)
