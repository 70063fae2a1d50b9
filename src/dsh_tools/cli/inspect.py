"""``dsh-tools inspect``: the page that shows sessions, timelines and tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ..errors import ConfigError
from ..inspector import Inspector, InspectorPlugin, open_source
from ..kernel import create_context
from ..pipeline import ToolsPlugin
from ..toolkits.files import FilesPlugin
from ..toolkits.search import SearchPlugin
from ..toolkits.shell import ShellPlugin
from .config import CommandConfig
from .runtime import ConfigOption, open_app, run_verb

if TYPE_CHECKING:
    from ..kernel import Context
    from ..tools import ToolDefinition

__all__ = ["inspect", "mount_inspector", "well_known_tools"]


def inspect(
    session: Annotated[
        Path | None,
        typer.Option("--session", "-s", help="A session store (SQLite) or an export (JSON lines) to look at."),
    ] = None,
    port: Annotated[int, typer.Option("--port", "-p", help="The port; 0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; the loopback by default.")
    ] = "127.0.0.1",
    config: ConfigOption = None,
) -> None:
    """Serve a page that shows sessions as they are written, their timelines, and the configured tools.

    Without --session it shows the configured store. The file is only read; the tools of dsh.yaml can be called
    from the page, through the whole pipeline. It runs until Ctrl-C.
    """

    async def work(settings: CommandConfig) -> int:
        path = session if session is not None else _configured(settings)
        source = await open_source(path)
        # The page reads the file; the application of this process keeps no sessions of its own.
        own = settings.model_copy(update={"sessions": settings.sessions.model_copy(update={"store": "memory"})})
        async with open_app(own) as ctx, well_known_tools() as fallback:
            plugin = InspectorPlugin(source, fallback)
            inspector = await mount_inspector(ctx, plugin, host, port)
            typer.echo(f"inspecting {path}\nopen {inspector.url}")
            await asyncio.Event().wait()
        return 0

    run_verb(work, config)


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


def _configured(settings: CommandConfig) -> Path:
    if settings.sessions.store != "sqlite":
        raise ConfigError("say which file to look at: --session FILE (the configured store is not a file)")
    path = Path(settings.sessions.path)
    if not path.is_file():
        raise ConfigError(f"no sessions are kept in {path} yet; say which file to look at: --session FILE")
    return path
