"""``inspector``: the page's server and what it shows, as one object that can be stopped and started again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import SessionError
from .auth import Keys
from .catalogue import Catalogue
from .config import InspectorConfig
from .desk import Desk
from .hub import Hub
from .stream import session_rows
from .waiting import Resume, WaitingTurns

if TYPE_CHECKING:
    from ..kernel import Context
    from ..tools import ToolDefinition
    from .server import Server
    from .source import Source

__all__ = ["Inspector"]

_log = logging.getLogger("dsh_tools")

_LIVE_PAUSES = 10
"""How many times less often a live application's own store is looked at for what other processes write."""


class Inspector:
    """Serves the page.

    Parameters:
        ctx: the application whose tools, agents and approvals are shown.
        source: where the sessions come from.
        config: see :class:`InspectorConfig`.
        fallback: finds definitions for the cards of tools that the application does not have.
        resume: goes on with stored sessions that wait for a person.
    """

    def __init__(
        self,
        ctx: Context,
        source: Source,
        config: InspectorConfig,
        fallback: Callable[[str], ToolDefinition | None] | None = None,
        resume: Resume | None = None,
    ) -> None:
        self.ctx = ctx
        self.source = source
        self.config = config
        self.hub = Hub()
        self.keys = Keys()
        self._waiting = WaitingTurns(ctx, source, resume, self._questions_changed, self._went_on)
        self.desk = Desk(ctx, self.hub, self._waiting, fallback)
        self.catalogue = Catalogue(ctx, source, config.allow_calls)
        self._fallback = fallback
        self._server: Server | None = None
        self._port = config.port
        self._tasks: set[asyncio.Task[None]] = set()
        self._refresh: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None

    # ── serving ───────────────────────────────────────────────────────────────

    @property
    def address(self) -> str:
        """The page's address, without the token."""
        return self.config.address(self._port)

    @property
    def url(self) -> str:
        """The address to open: the token stands behind the ``#``, which browsers send to no server."""
        return f"{self.address}#token={self.keys.token}"

    async def start(self) -> None:
        """Listen; the port stays the same when this is done again.

        Raises:
            ConfigError: the address is taken, or the extra is missing.
        """
        # The web framework comes with an extra; everything else here works without it.
        from .server import Server

        self.hub.reopen()
        server = Server(self)
        self._port = await server.start(self._port)
        self._server = server
        self._keep(self._poll())

    async def stop(self) -> None:
        """Stop listening and end all connections. Pending questions stay pending."""
        self.hub.close()
        server, self._server = self._server, None
        if server is not None:
            await server.stop()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.catalogue.close()

    async def dispose(self) -> None:
        """Stop for good."""
        await self.stop()
        await self.source.close()

    # ── what the page shows ───────────────────────────────────────────────────

    def about(self) -> dict[str, Any]:
        """Return what a page is told first."""
        return {
            "label": self.source.label,
            "live": self.source.is_live,
            "answers": self.desk.answers,
            "calls": self.config.allow_calls,
        }

    def is_live(self, session_id: str) -> bool:
        """Whether a session's agent runs in this process."""
        sessions: Any = self.ctx.get("sessions")
        return self.source.is_live and sessions is not None and sessions.live(session_id) is not None

    def find_tool(self, name: str, session_id: str | None = None) -> ToolDefinition | None:
        """Find the definition that makes a call's cards: as its session's agent sees it, else as everybody does."""
        scope = None
        sessions: Any = self.ctx.get("sessions")
        if session_id is not None and sessions is not None:
            log = sessions.live(session_id)
            scope = None if log is None else getattr(log.owner, "scope", None)
        entry = self.ctx.tools.service.registry.view(scope).entries.get(name)
        if entry is not None:
            return entry.definition
        return None if self._fallback is None else self._fallback(name)

    def sessions_changed(self) -> None:
        """Tell the pages of the new list of sessions; many changes at once are told once."""
        if self.hub.is_watched and self._refresh is None:
            self._refresh = self._keep(self._tell_sessions())

    async def look(self) -> None:
        """Look for open questions in the store; what was found before stays where it cannot be read."""
        try:
            if await self._waiting.look():
                self.desk.refresh()
        except SessionError as error:
            _log.warning("the store cannot be read now: %s", error)

    def look_soon(self) -> None:
        """Look in the background; the pages are told if there is anything new."""
        if self._looking is None:
            self._looking = self._keep(self._look_once())

    async def _look_once(self) -> None:
        try:
            await self.look()
        finally:
            self._looking = None

    def _questions_changed(self) -> None:
        """Tell the pages what is open, now and after another look into the store."""
        if self._server is not None:
            self.desk.refresh()
            self._keep(self.look())

    def _went_on(self, session: str, ended: str) -> None:
        self.hub.broadcast("went-on", {"session": session, "ended": ended})

    async def _tell_sessions(self) -> None:
        try:
            await asyncio.sleep(0.25)
            self.hub.broadcast("sessions", await session_rows(self))
        finally:
            self._refresh = None

    async def _poll(self) -> None:
        """Look for what other processes write, while somebody looks on; less often where this one tells its own."""
        known: dict[str, int] = {}
        failing = False
        pause = self.config.poll_ms / 1000 * (_LIVE_PAUSES if self.source.is_live else 1)
        while True:
            await asyncio.sleep(pause)
            if not self.hub.is_watched:
                continue
            try:
                found = {row.header.id: row.length for row in await self.source.summaries()}
            except SessionError as error:
                if not failing:
                    _log.warning("the store cannot be read now: %s", error)
                failing = True
                continue
            failing = False
            if found != known:
                for session in (key for key, length in found.items() if known.get(key) != length):
                    self.hub.touch(session)
                self.sessions_changed()
                await self.look()
                known = found

    def _keep(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("the inspector failed in the background", exc_info=task.exception())
