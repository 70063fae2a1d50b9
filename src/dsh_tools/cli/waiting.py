"""Sessions that wait for a person: opening one again, and the application that goes on with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET

from ..code_runtime import CodeRuntimeConfig
from ..errors import SessionError
from .demo_waiting import WAITING_RULES, mount_waiting_demo, resumed_demo_agent
from .models import open_model
from .pending import WAITING_DEMO
from .runtime import open_app

if TYPE_CHECKING:
    from ..agent import Agent
    from ..kernel import Context
    from ..session import EventLog, SessionHeader
    from .config import CommandConfig

__all__ = ["demo_app", "is_demo", "open_waiting", "resumed_agent", "suspending"]


def is_demo(header: SessionHeader) -> bool:
    """Whether a session is one of the demo's, which brings its tools and its model."""
    return header.origin == WAITING_DEMO


def suspending(settings: CommandConfig, after: float | None) -> CommandConfig:
    """Return the same settings with questions held up for so many seconds."""
    return settings.model_copy(update={"approval": settings.approval.model_copy(update={"suspend_after": after})})


@asynccontextmanager
async def demo_app(settings: CommandConfig, header: SessionHeader) -> AsyncGenerator[Context]:
    """The application of the demo that waits, as it was when its session began."""
    chosen = settings.model_copy(update={"policy": WAITING_RULES, "code": CodeRuntimeConfig()})
    async with open_app(chosen, mount_plugins=False) as ctx:
        await mount_waiting_demo(ctx, Path("" if header.cwd is UNSET else header.cwd))
        yield ctx


async def open_waiting(ctx: Context, session_id: str) -> EventLog:
    """Open a session that waits, to go on with it.

    Raises:
        SessionError: ``SESSION_BUSY``, ``NOT_WAITING``, or as ``ctx.sessions.open``.
    """
    try:
        log = await ctx.sessions.open(session_id, resume=True)
    except SessionError as error:
        if error.code != "SESSION_BUSY":
            raise
        raise SessionError("another process has it open, and may be going on with it", error.code) from error
    if not log.is_waiting:
        await log.close()
        raise SessionError("it waits for nobody", "NOT_WAITING")
    return log


async def resumed_agent(
    ctx: Context, session_id: str, model: str | None, base_url: str | None = None, *, name: str = "main"
) -> Agent:
    """Make the agent that goes on with a session; the demo's has its own model.

    Raises:
        SessionError: as :func:`open_waiting`.
        ConfigError: there is no such model.
    """
    log = await open_waiting(ctx, session_id)
    try:
        if is_demo(log.header):
            return await resumed_demo_agent(ctx, log)
        assert model is not None
        return await ctx.agents.create(name, open_model(model, base_url), session=log)
    except BaseException:
        await log.close()
        raise
