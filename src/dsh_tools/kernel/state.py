"""The states of a fiber, and a way to wait for the next change."""

from __future__ import annotations

import asyncio
import enum

__all__ = ["Changes", "FiberState"]


class FiberState(enum.Enum):
    """Where a fiber is in its life (HOST-3)."""

    PENDING = "pending"
    """Waiting: for a service it needs, or for its turn to load."""
    LOADING = "loading"
    """The body is running."""
    ACTIVE = "active"
    """The body has run; its effects stand."""
    FAILED = "failed"
    """Config or body failed; nothing of it is left. It tries again when a service it needs changes."""
    UNLOADING = "unloading"
    """Its effects are being undone."""
    DISPOSED = "disposed"
    """Over, on request. Losing a service leads back to PENDING instead."""


class Changes:
    """Wakes everybody who waits for the next change of something."""

    __slots__ = ("_watchers",)

    def __init__(self) -> None:
        self._watchers: list[asyncio.Future[None]] = []

    def announce(self) -> None:
        """Wake all who wait now."""
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)

    async def next(self) -> None:
        """Wait for the next change."""
        watcher = asyncio.get_running_loop().create_future()
        self._watchers.append(watcher)
        await watcher

    async def next_surely(self) -> asyncio.CancelledError | None:
        """Wait for the next change or a cancellation; return that cancellation instead of raising it.

        For cleanup only, which has to go on to its end.
        """
        try:
            await self.next()
        except asyncio.CancelledError as error:
            return error
        return None
