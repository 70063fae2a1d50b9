"""``dsh-tools inspect``: the page that shows sessions, timelines and tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from ..errors import ConfigError
from ..inspector import Inspector, InspectorPlugin, Resume, StoreSource, is_store, open_source
from ..kernel import create_context
from ..pipeline import ToolsPlugin
from ..session import SessionsConfig, open_store
from ..toolkits.files import FilesPlugin
from ..toolkits.search import SearchPlugin
from ..toolkits.shell import ShellPlugin
from .config import CommandConfig
from .models import open_model
from .runtime import ConfigOption, open_app, run_verb
from .waiting import demo_app, is_demo, resumed_agent, suspending

if TYPE_CHECKING:
    from ..agent import Agent
    from ..kernel import Context
    from ..session import SessionHeader
    from ..tools import ToolDefinition

__all__ = ["inspect", "mount_inspector", "well_known_tools"]

DATABASE: Final = "the configured database"
HOLD_SECONDS: Final = 60.0
"""How long a question of a turn that goes on here waits for the page, before its turn waits again."""


def inspect(
    session: Annotated[
        Path | None,
        typer.Option("--session", "-s", help="A session store (SQLite) or an export (JSON lines) to look at."),
    ] = None,
    port: Annotated[int, typer.Option("--port", "-p", help="The port; 0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; the loopback by default.")
    ] = "127.0.0.1",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="The model that goes on with sessions that wait, once they are answered: openai:NAME, anthropic:NAME.",
        ),
    ] = None,
    base_url: Annotated[str | None, typer.Option("--base-url", help="Another server of the same protocol.")] = None,
    config: ConfigOption = None,
) -> None:
    """Serve a page that shows sessions as they are written, their timelines, and the configured tools.

    Without --session it shows the configured store. The tools of dsh.yaml can be called from the page, through the
    whole pipeline. The file is only read, until somebody answers a session in it that waits for a person: that one
    goes on here, with the tools of dsh.yaml and --model, or the demo's own. It runs until Ctrl-C.
    """

    async def work(settings: CommandConfig) -> int:
        if model is not None:
            open_model(model, base_url)  # a wrong name is told now, and not when somebody answers
        path = session if session is not None else _configured(settings)
        keeps = path is None or await asyncio.to_thread(is_store, path)
        stored = settings.with_store(path) if keeps else _without_store(settings)
        # A turn that goes on here may ask again: it waits for the page a while, and then for another time.
        own = suspending(stored, settings.approval.suspend_after or HOLD_SECONDS)
        async with open_app(own) as ctx, well_known_tools() as fallback:
            resume = _resume(ctx, suspending(own, 0), model, base_url) if keeps else None
            if path is None:
                source = StoreSource(open_store(own.sessions), DATABASE, option="", sessions=ctx.sessions)
            else:
                source = await open_source(path, ctx.sessions if keeps else None)
            plugin = InspectorPlugin(source, fallback, resume)
            inspector = await mount_inspector(ctx, plugin, host, port)
            typer.echo(f"inspecting {path or DATABASE}\nopen {inspector.url}")
            await asyncio.Event().wait()
        return 0

    run_verb(work, config)


def _resume(ctx: Context, settings: CommandConfig, model: str | None, base_url: str | None) -> Resume:
    """What goes on with the sessions of the file: the page's own application, or for the demo's an application as
    theirs was.
    """

    @asynccontextmanager
    async def here(header: SessionHeader) -> AsyncGenerator[Agent]:
        agent = await resumed_agent(ctx, header.id, model, base_url, name=header.id)
        try:
            yield agent
        finally:
            await agent.dispose()

    @asynccontextmanager
    async def as_demo(header: SessionHeader) -> AsyncGenerator[Agent]:
        async with demo_app(settings, header) as app:
            yield await resumed_agent(app, header.id, None)

    def resume(header: SessionHeader) -> AbstractAsyncContextManager[Agent] | None:
        if is_demo(header):
            return as_demo(header)
        return None if model is None else here(header)

    return resume


async def mount_inspector(ctx: Context, plugin: InspectorPlugin, host: str, port: int) -> Inspector:
    """Mount the inspector and return it once it listens.

    Raises:
        ConfigError: the address is taken, or the extra is missing.
    """
    await ctx.plugin(plugin, {"host": host, "port": port})
    return cast("Inspector", ctx.require("inspector"))


@asynccontextmanager
async def well_known_tools() -> AsyncGenerator[Callable[[str], ToolDefinition | None]]:
    """The tools that come with this package, for the cards of sessions whose application is elsewhere. None can run."""
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin())
        for plugin in (FilesPlugin(), SearchPlugin(), ShellPlugin()):
            await ctx.plugin(plugin)
        yield ctx.tools.get


def _configured(settings: CommandConfig) -> Path | None:
    """The file of the configured sessions; None where they are in a database."""
    if settings.sessions.store == "postgres":
        return None
    if settings.sessions.store != "sqlite":
        raise ConfigError("say which file to look at: --session FILE (the configured store is not a file)")
    path = Path(settings.sessions.path)
    if not path.is_file():
        raise ConfigError(f"no sessions are kept in {path} yet; say which file to look at: --session FILE")
    return path


def _without_store(settings: CommandConfig) -> CommandConfig:
    return settings.model_copy(update={"sessions": SessionsConfig(store="memory")})
