"""``dsh-tools demo``: an agent's turn, for real but for the model, which follows a script."""

from __future__ import annotations

import asyncio
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.rule import Rule
from rich.text import Text

from ..code_runtime import CodeRuntimeConfig
from ..errors import ConfigError
from ..inspector import InspectorPlugin, StageTimesPlugin
from ..kernel import Context
from ..services import PolicyConfig, scripted
from ..session import SessionsConfig, replay_calls
from ..terminal import LiveView, TerminalApprovalPlugin, make_console, plain, render_timeline
from ..toolkits.files import FilesPlugin
from ..toolkits.search import SearchPlugin
from ..toolkits.shell import ShellPlugin
from ..tools import tool
from .config import CommandConfig
from .demo_code import run_code_demo
from .demo_script import DEMO_RULES, QUESTION, demo_model
from .inspect import mount_inspector
from .runtime import open_app, run_verb

if TYPE_CHECKING:
    from ..session.events import TurnEndReason

__all__ = ["demo"]

DEFAULT_STORE = Path(".dsh-tools/demo.sqlite")


class DemoMode(StrEnum):
    """What the demo shows."""

    NATIVE = "native"
    CODE = "code"


@tool(timeout_ms=700)
async def deep_scan(path: str) -> str:
    """Look at every byte under a path. Takes far longer than its time limit.

    Args:
        path: where to look.
    """
    await asyncio.sleep(60)
    return f"{path} is fine"


def demo(
    folder: Annotated[Path, typer.Option("--folder", help="The folder the tools read and search.")] = Path(),
    store: Annotated[Path, typer.Option("--store", help="The SQLite file that keeps the session.")] = DEFAULT_STORE,
    mode: Annotated[
        DemoMode, typer.Option("--mode", help="native: calls by the model; code: the same job by a program, beside it.")
    ] = DemoMode.NATIVE,
    yes: Annotated[bool, typer.Option("--yes", help="Approve without asking.")] = False,
    page: Annotated[
        bool, typer.Option("--inspect", help="Serve the inspector's page, where the question can be answered, too.")
    ] = False,
    port: Annotated[int, typer.Option("--port", help="The page's port (with --inspect); 0 takes a free one.")] = 0,
) -> None:
    """Watch an agent turn: parallel reads, a denial, an approval, a time-out, all kept in a session.

    The model is a scripted one; policy, tools, approval, time limits and the log are the real ones.
    Without a terminal the question is answered by the script, or in the page. The page stays until Ctrl-C.
    """

    async def work(_settings: CommandConfig) -> int:
        root = folder.resolve()
        if not root.is_dir():
            raise ConfigError(f"--folder {folder}: is not a folder")
        sessions = SessionsConfig(path=str(store))
        if mode is DemoMode.CODE:
            async with open_app(CommandConfig(sessions=sessions, code=CodeRuntimeConfig()), mount_plugins=False) as ctx:
                reason = await run_code_demo(ctx, root, store)
            return 0 if reason.__class__.__name__ == "Completed" else 1
        settings = CommandConfig(sessions=sessions, policy=PolicyConfig.model_validate({"rules": DEMO_RULES}))
        async with open_app(settings, mount_plugins=False) as ctx:
            await _mount_demo(ctx, root, yes, page)
            if page:
                inspector = await mount_inspector(ctx, InspectorPlugin(), "127.0.0.1", port)
                typer.echo(f"open {inspector.url}")
            else:
                await ctx.plugin(StageTimesPlugin())
            reason = await _run_turn(ctx, root, store)
            if page:
                typer.echo("The page stays open until Ctrl-C.")
                await asyncio.Event().wait()
        return 0 if reason.__class__.__name__ == "Completed" else 1

    run_verb(work, None)


async def _mount_demo(ctx: Context, root: Path, yes: bool, page: bool) -> None:
    await ctx.plugin(FilesPlugin(), {"root": str(root)})
    await ctx.plugin(SearchPlugin(), {"root": str(root)})
    await ctx.plugin(ShellPlugin(), {"cwd": str(root)})
    ctx.tools.register(deep_scan)
    console = make_console()
    await ctx.plugin(LiveView(console))
    if yes or not (page or sys.stdin.isatty()):
        ctx.approval.answer_with(scripted({"bash": "allowed-once"}))
    elif sys.stdin.isatty():
        await ctx.plugin(TerminalApprovalPlugin(console))


async def _run_turn(ctx: Context, root: Path, store: Path) -> TurnEndReason:
    console = make_console()
    log = await ctx.sessions.create(cwd=str(root), origin="demo")
    agent = await ctx.agents.create("demo", demo_model(root), session=log)
    console.print(Rule(Text(f"dsh-tools demo · {plain(str(root))}"), style="dim"))
    console.print(Text(f"› {QUESTION}", "bold"))
    try:
        outcome = await agent.run(QUESTION)
    finally:
        console.print(Rule(Text("when the calls ran"), style="dim"))
        console.print(render_timeline(replay_calls(log.events)))
        again = f"{_this_command()} session show {log.id} --store {store}"
        console.print(Text(f"The session is kept. Show it again with:\n  {plain(again)}", "dim"), soft_wrap=True)
    return outcome.reason


def _this_command() -> str:
    """How the person called the command: by its name, or by a path where it is not on the search path."""
    name = Path(sys.argv[0]).name
    if shutil.which(name) is not None:
        return name
    called = Path(sys.argv[0]).absolute()
    return str(called.relative_to(Path.cwd()) if called.is_relative_to(Path.cwd()) else called)
