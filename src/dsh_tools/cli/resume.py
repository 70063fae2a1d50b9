"""``dsh-tools session resume``: going on with a session that waits for a person."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import UNSET
from rich.rule import Rule
from rich.text import Text

from ..errors import ApprovalError, ConfigError, SessionError
from ..services import answer_question, open_questions
from ..session.events import Completed, Waiting
from ..terminal import LiveView, TerminalApprovalPlugin, make_console, plain, render_call
from .pending import resume_command
from .runtime import ConfigOption, StoreOption, open_app, run_verb
from .waiting import demo_app, is_demo, resumed_agent, suspending

if TYPE_CHECKING:
    from rich.console import Console

    from ..agent import Agent
    from ..kernel import Context
    from ..session import SessionHeader
    from ..session.events import ApprovalAsked
    from .config import CommandConfig

__all__ = ["resume_session"]


def resume_session(
    session_id: Annotated[str, typer.Argument(help="The session.")],
    allow: Annotated[bool, typer.Option("--allow", help="Allow what is asked now, once.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="Reject what is asked now.")] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; the model reads it (with --reject).")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The model that goes on: openai:NAME or anthropic:NAME.")
    ] = None,
    base_url: Annotated[str | None, typer.Option("--base-url", help="Another server of the same protocol.")] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Go on with a session that waits for a person: its questions are put in the terminal, or answered by a flag.

    What a program did before is read from its journal and not done again. A session of the demo brings its tools and
    its model; any other needs --model. Without a terminal, a question that no flag answers leaves the session waiting.
    """

    async def work(settings: CommandConfig) -> int:
        if allow and reject:
            raise ConfigError("--allow and --reject exclude each other")
        if reason is not None and not reject:
            raise ConfigError("--reason goes with --reject")
        header = await _header(settings.with_store(store, read_only=True), session_id)
        if not is_demo(header) and model is None:
            raise ConfigError("say which model goes on: --model openai:NAME or anthropic:NAME")
        if is_demo(header) and (model is not None or base_url is not None):
            raise ConfigError("a session of the demo goes on with its own model: leave out --model and --base-url")
        # In a terminal a question waits for its answer; elsewhere nobody answers.
        asks = sys.stdin.isatty() and not (allow or reject)
        chosen = suspending(settings.with_store(store), None if asks else settings.approval.suspend_after or 0)
        outcome = "allowed-once" if allow else "rejected" if reject else None
        async with demo_app(chosen, header) if is_demo(header) else open_app(chosen) as ctx:
            console = make_console()
            await ctx.plugin(LiveView(console))
            if sys.stdin.isatty():
                await ctx.plugin(TerminalApprovalPlugin(console))
            try:
                agent = await resumed_agent(ctx, session_id, model, base_url)
                # Before anybody answers: an answer that nothing can act on is of no use.
                await agent.check_resume()
                await _answer(ctx, console, session_id, outcome, reason)
                return await _go_on(agent, console, store)
            except (ApprovalError, SessionError) as error:
                typer.echo(f"dsh-tools: {session_id}: {error}", err=True)
                return 1

    run_verb(work, config)


async def _header(settings: CommandConfig, session_id: str) -> SessionHeader:
    async with open_app(settings, mount_plugins=False) as ctx:
        return (await ctx.sessions.read(session_id)).header


async def _answer(ctx: Context, console: Console, session_id: str, outcome: object, reason: str | None) -> None:
    """Show what is asked, and answer it where a flag says how.

    Raises:
        ApprovalError: somebody else was faster.
        SessionError: the session is held by another process.
    """
    questions = open_questions((await ctx.sessions.read(session_id)).events)
    for question in questions:
        if outcome is None:
            continue
        _show(console, question)
        digest = None if question.arguments_digest is UNSET else question.arguments_digest
        given = "allowed-once" if outcome == "allowed-once" else "rejected"
        await answer_question(ctx.sessions, session_id, question.id, given, reason, digest=digest, by="command line")
        console.print(Text(f"  {given}", "yellow"))


def _show(console: Console, question: ApprovalAsked) -> None:
    arguments: Any = {} if question.arguments is UNSET else question.arguments
    console.print(render_call(None, name=question.tool_name, arguments=arguments))
    if question.reason is not UNSET:
        console.print(Text(f"  {plain(question.tool_name)} needs approval: {plain(question.reason)}", "yellow"))


async def _go_on(agent: Agent, console: Console, store: Path | None) -> int:
    outcome = await agent.resume()
    if isinstance(outcome.reason, Waiting):
        console.print(Rule(Text("it waits for a person"), style="dim"))
        for question in open_questions(agent.session.events):
            _show(console, question)
        command = resume_command(agent.session.id, store)
        console.print(Text(f"Answer with --allow or --reject:\n  {plain(command)} --allow", "bold"), soft_wrap=True)
        return 0
    return 0 if isinstance(outcome.reason, Completed) else 1
