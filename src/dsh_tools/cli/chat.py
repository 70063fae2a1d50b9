"""``dsh-tools chat``: a conversation in the terminal."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ..agent import AgentConfig
from ..services import always
from ..session.events import Completed, Waiting
from ..terminal import LineReader, LiveView, TerminalAnswerer, make_console, plain
from .config import CommandConfig
from .models import open_model
from .runtime import ConfigOption, open_app, run_verb

if TYPE_CHECKING:
    from rich.console import Console

    from ..agent import Agent, TurnOutcome
    from ..kernel import Context
    from ..session import EventLog

__all__ = ["chat"]

HELP = "Type a message. Ctrl-C cancels the answer; /quit or the end of the input leaves."


def chat(
    model: Annotated[str, typer.Option("--model", "-m", help="openai:NAME, anthropic:NAME, or a bare model name.")],
    base_url: Annotated[str | None, typer.Option("--base-url", help="Another server of the same protocol.")] = None,
    resume: Annotated[str | None, typer.Option("--resume", help="Go on with this session.")] = None,
    instructions: Annotated[str, typer.Option("--instructions", help="What the system prompt begins with.")] = "",
    config: ConfigOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve without asking.")] = False,
) -> None:
    """Talk with a model that has the configured tools: streaming text, live cards, questions before risky calls.

    Where the input is no terminal, status 1 says that a turn failed.
    """

    async def work(settings: CommandConfig) -> int:
        adapter = open_model(model, base_url)
        async with open_app(settings) as ctx:
            console = make_console()
            lines = LineReader()
            await ctx.plugin(LiveView(console))
            ctx.approval.answer_with(always("allowed-once") if yes else TerminalAnswerer(console, lines))
            log = await _session(ctx, resume)
            agent = await ctx.agents.create("chat", adapter, session=log, config=AgentConfig(instructions=instructions))
            try:
                failed = await _converse(agent, console, lines)
            finally:
                await adapter.close()
        # In a terminal a person has seen it, and may have said it better since.
        return 1 if failed and not lines.is_terminal else 0

    run_verb(work, config)


async def _session(ctx: Context, resume: str | None) -> EventLog:
    if resume is not None:
        return await ctx.sessions.open(resume)
    return await ctx.sessions.create(cwd=str(Path.cwd()), origin="chat")


async def _converse(agent: Agent, console: Console, lines: LineReader) -> bool:
    """Run a turn for every line; returns whether one of them failed."""
    failed = False
    if lines.is_terminal:
        console.print(Text(f"session {plain(agent.session.id)} · {plain(agent.model.name)}\n{HELP}", "dim"))
    while True:
        if lines.is_terminal:
            console.print(Text("› ", "bold"), end="")
        line = await lines.read_line()
        if line is None or line.strip() == "/quit":
            return failed
        if line.strip():
            outcome = await _answer(agent, line)
            failed = failed or not isinstance(outcome.reason, Completed | Waiting)


async def _answer(agent: Agent, line: str) -> TurnOutcome:
    """Run one turn; Ctrl-C cancels it and not the program. At the prompt, Ctrl-C leaves."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, agent.cancel)
    try:
        return await agent.run(line)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
