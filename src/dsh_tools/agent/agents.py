"""``ctx.agents``: making agents and finding those that are alive (HOST-58 to 60)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, cast

from ..errors import SessionError
from ..kernel.abort import AbortSignal
from ..model import ModelAdapter
from ..session import EventLog, SessionHeader, Sessions
from .agent import Agent, AgentConfig
from .hooks import SESSION_START

if TYPE_CHECKING:
    from ..kernel.context import Context
    from ..kernel.scope import Scope

__all__ = ["Agents", "AgentsPlugin"]


class Agents:
    """The agents of an application.

    Parameters:
        context: where agents' own contexts hang; their disposal is part of its disposal.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._alive: dict[str, Agent] = {}

    def __iter__(self) -> Iterator[Agent]:
        return iter(tuple(self._alive.values()))

    def get(self, name: str) -> Agent | None:
        """Return the agent of that name, if it is alive."""
        return self._alive.get(name)

    async def create(
        self,
        name: str,
        model: ModelAdapter,
        *,
        session: EventLog | None = None,
        config: AgentConfig | None = None,
        parent: Scope | None = None,
        setup: Callable[[Context], Awaitable[None] | None] | None = None,
        signal: AbortSignal | None = None,
    ) -> Agent:
        """Make an agent: its context, then ``setup``, then everybody may know of it (HOST-58).

        Parameters:
            name: unique among the agents alive.
            model: what answers it.
            session: its log; a new session of ``ctx.sessions`` by default, or one in memory without that service.
            config: see :class:`AgentConfig`.
            parent: the scope whose tools and policies the agent inherits.
            setup: registers the agent's own tools, restrictions and policies on its context.
            signal: gives the creation up, and only that (HOST-60).

        Raises:
            SessionError: the name is taken, or the session has another owner.
            AbortError: the signal fired; nothing is left of the agent.
        """
        if name in self._alive:
            raise _exists(name)
        scoped = self._context.create_scope(name, parent)
        log: EventLog | None = session
        try:
            if signal is not None:
                signal.throw_if_aborted()
            log = await self._new_log() if log is None else log
            if setup is not None:
                prepared = setup(scoped)
                if prepared is not None:
                    await prepared
            if signal is not None:
                signal.throw_if_aborted()
            if name in self._alive:
                raise _exists(name)
            agent = Agent(name, scoped, log, model, config)
            release = log.claim(agent)
            agent.on_detach(release)
            try:
                # In a context that is going this is refused.
                owned = self._context.effect(lambda: agent.dispose, f'agent "{name}"')
            except BaseException:
                release()
                raise
        except BaseException:
            await scoped.dispose()
            if log is not None and session is None:
                await log.close()
            raise

        self._alive[name] = agent
        agent.on_detach(lambda: self._alive.pop(name, None))
        # An agent that has ended by itself must not be kept, with its history, until the application ends.
        agent.on_ended(owned.leave_owner)
        agent.ctx.bus.emit(SESSION_START, agent, scope=agent.scope)
        return agent

    async def _new_log(self) -> EventLog:
        sessions = cast("Sessions | None", self._context.get("sessions"))
        if sessions is not None:
            return await sessions.create()
        return EventLog(SessionHeader(id="in-memory", created_at=0))


def _exists(name: str) -> SessionError:
    return SessionError(f'an agent "{name}" is alive already', "AGENT_EXISTS")


class AgentsPlugin:
    """Provides ``ctx.agents``; its end disposes all agents."""

    name = "agents"
    inject = ("tools",)

    def apply(self, ctx: Context, config: object = None) -> None:
        """Provide the service."""
        ctx.provide("agents", Agents(ctx))
