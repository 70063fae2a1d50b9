"""``dsh-tools demo``: an agent's turn, for real but for the model, which follows a script."""

from __future__ import annotations

import asyncio
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
from ..services import ApprovalConfig, PolicyConfig, scripted
from ..session import SessionsConfig, replay_calls
from ..session.events import Completed, Waiting
from ..terminal import LiveView, TerminalApprovalPlugin, make_console, plain, render_timeline
from ..toolkits.files import FilesPlugin
from ..toolkits.search import SearchPlugin
from ..toolkits.shell import ShellPlugin
from ..tools import tool
from .config import CommandConfig
from .demo_code import run_code_demo
from .demo_script import DEMO_RULES, QUESTION, demo_model
from .demo_waiting import WAITING_RULES, mount_waiting_demo, run_waiting_demo
from .inspect import mount_inspector
from .invocation import this_command
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
    suspend: Annotated[
        bool,
        typer.Option(
            "--suspend", help="With --mode code: a program that waits for a person, and goes on another time."
        ),
    ] = False,
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
        if suspend:
            if mode is not DemoMode.CODE:
                raise ConfigError("--suspend goes with --mode code: it is a program that waits")
            return await _suspend(root, store, sessions, port if page else None)
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


async def _suspend(root: Path, store: Path, sessions: SessionsConfig, port: int | None) -> int:
    """Run the demo of a program that waits; with a port, beside the page."""
    settings = CommandConfig(
        sessions=sessions, code=CodeRuntimeConfig(), policy=WAITING_RULES, approval=ApprovalConfig(suspend_after=0)
    )
    async with open_app(settings, mount_plugins=False) as ctx:
        await mount_waiting_demo(ctx, root)
        url: str | None = None
        if port is not None:
            url = (await mount_inspector(ctx, InspectorPlugin(), "127.0.0.1", port)).url
        reason = await run_waiting_demo(ctx, root, store, page=url)
        if url is not None:
            typer.echo("The page stays open until Ctrl-C.")
            await asyncio.Event().wait()
    return 0 if isinstance(reason, Completed | Waiting) else 1


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
        again = f"{this_command()} session show {log.id} --store {store}"
        console.print(Text(f"The session is kept. Show it again with:\n  {plain(again)}", "dim"), soft_wrap=True)
    return outcome.reason
