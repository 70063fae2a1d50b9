"""``dsh-tools session``: looking at what is kept, taking it elsewhere, bringing it back."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from msgspec import UNSET
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ..content import TextBlock
from ..errors import SessionError
from ..messages import AssistantMessage, UserMessage
from ..session import (
    EventLog,
    OpenEnd,
    ReplayedCall,
    Sessions,
    dump_jsonl,
    load_jsonl,
    read_jsonl,
    replay_calls,
    write_jsonl,
)
from ..session.events import AssistantMessageRecord, Event, TurnEnd
from ..terminal import make_console, plain, render_result, render_timeline
from ..tools import PresentedResult, view_of_call, view_of_result
from .config import CommandConfig
from .pending import show_pending
from .runtime import ConfigOption, StoreOption, open_app, run_verb

if TYPE_CHECKING:
    from rich.console import Console

    from ..kernel import Context

__all__ = ["export_session", "import_session", "list_sessions", "show_session"]


def list_sessions(config: ConfigOption = None, store: StoreOption = None) -> None:
    """List the sessions, newest first."""

    async def work(settings: CommandConfig) -> int:
        chosen = settings.with_store(store, read_only=True)
        if chosen.missing_store is not None:
            make_console().print(Text(f"No sessions are kept here: {plain(str(chosen.missing_store))} is not there."))
            return 0
        async with open_app(chosen, mount_plugins=False) as ctx:
            table = Table(box=None, pad_edge=False, header_style="dim")
            for heading in ("session", "created", "events", "state", "about"):
                # An id that is cut is of no use.
                table.add_column(heading, no_wrap=heading == "session")
            found = await _sessions(ctx).list()
            for summary in found:
                created = datetime.datetime.fromtimestamp(summary.header.created_at / 1000).astimezone()
                table.add_row(
                    Text(plain(summary.header.id), "bold"),
                    created.strftime("%Y-%m-%d %H:%M"),
                    str(summary.length),
                    Text("waiting", "yellow") if summary.waiting else Text(""),
                    Text(plain(summary.title)),
                )
            make_console().print(table if found else Text("No sessions are kept here."))
        return 0

    run_verb(work, config)


def show_session(
    session_id: Annotated[str | None, typer.Argument(help="The session; the newest one by default.")] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the log as JSON lines.")] = False,
) -> None:
    """Show a session again: messages, a card for every call, when the calls ran, and what it waits for.

    Runs no tool.
    """

    async def work(settings: CommandConfig) -> int:
        async with open_app(_present(settings.with_store(store, read_only=True))) as ctx:
            sessions = _sessions(ctx)
            chosen = session_id
            if chosen is None:
                found = await sessions.list()
                if not found:
                    typer.echo("dsh-tools: no sessions are kept here", err=True)
                    return 1
                chosen = found[0].header.id
            if as_json:
                stored = await sessions.read(chosen)
                for line in dump_jsonl(stored.header, stored.events):
                    typer.echo(line)
                return 0
            log, console = await sessions.view(chosen), make_console()
            _replay(ctx, log, console)
            show_pending(ctx, log, console, store=store, config=config)
        return 0

    run_verb(work, config)


def export_session(
    session_id: Annotated[str, typer.Argument(help="The session.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; standard output by default.")
    ] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Write a session as JSON lines: its header, then one event a line."""

    async def work(settings: CommandConfig) -> int:
        async with open_app(_present(settings.with_store(store, read_only=True)), mount_plugins=False) as ctx:
            stored = await _sessions(ctx).read(session_id)
        if OpenEnd(stored.events).waiting:
            said = "the session waits for a person; what is exported can be shown elsewhere, and cannot go on there"
            typer.echo(f"dsh-tools: {session_id}: {said}", err=True)
        if output is None:
            for line in dump_jsonl(stored.header, stored.events):
                typer.echo(line)
            return 0
        try:
            write_jsonl(output, stored.header, stored.events)
        except OSError as error:
            typer.echo(f"dsh-tools: {output}: cannot be written: {error.strerror or error}", err=True)
            return 1
        return 0

    run_verb(work, config)


def import_session(
    file: Annotated[Path, typer.Argument(help="What export wrote; - reads standard input.")],
    new_id: Annotated[str | None, typer.Option("--id", help="Keep it under this id instead of its own.")] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Keep a session that was exported elsewhere, and print its id. Nothing of it is run."""

    async def work(settings: CommandConfig) -> int:
        try:
            stored = load_jsonl(sys.stdin.buffer) if str(file) == "-" else read_jsonl(file)
        except OSError as error:
            typer.echo(f"dsh-tools: {file}: cannot be read: {error.strerror or error}", err=True)
            return 1
        except SessionError as error:
            typer.echo(f"dsh-tools: {file}: {error}", err=True)
            return 1
        # With the plugins: they may have event types of their own.
        async with open_app(settings.with_store(store)) as ctx:
            try:
                await _sessions(ctx).import_session(stored, id=new_id)
            except SessionError as error:
                typer.echo(f"dsh-tools: {file}: {error}", err=True)
                return 1
        typer.echo(stored.header.id if new_id is None else new_id)
        return 0

    run_verb(work, config)


def _present(settings: CommandConfig) -> CommandConfig:
    """Return the settings, if the sessions that they are to show are there.

    Raises:
        SessionError: their file is not.
    """
    missing = settings.missing_store
    if missing is not None:
        raise SessionError(f"no sessions are kept here: {missing} is not there", "STORE_FAILED")
    return settings


def _sessions(ctx: Context) -> Sessions:
    return ctx.sessions


def _replay(ctx: Context, log: EventLog, console: Console) -> None:
    calls = replay_calls(log.events)
    by_result = {call.result_seq: call for call in calls}
    console.print(Rule(Text(f"session {plain(log.id)}"), style="dim"))
    for event in log.events:
        shown = by_result.get(event.seq)
        if shown is not None:
            _show_call(ctx, shown, console)
        else:
            _show_event(event, console)
    if calls:
        console.print(Rule(Text("when the calls ran"), style="dim"))
        console.print(render_timeline(calls))


def _show_call(ctx: Context, call: ReplayedCall, console: Console) -> None:
    definition = ctx.tools.get(call.name)
    presented = PresentedResult(call.content, call.is_error, None if call.meta is UNSET else call.meta)
    console.print(
        render_result(
            view_of_result(definition, call.arguments, presented),
            name=call.name,
            arguments=call.arguments,
            content=call.content,
            is_error=call.is_error,
            call=view_of_call(definition, call.arguments),
        )
    )


def _show_event(event: Event, console: Console) -> None:

    if event.type == "user/message":
        message = msgspec.convert(event.data, UserMessage)
        for block in message.content:
            if isinstance(block, TextBlock):
                console.print(Text(f"› {plain(block.text)}", "bold" if message.source.kind == "user" else "dim"))
    elif event.type == AssistantMessageRecord.event_type:
        answer: AssistantMessage = msgspec.convert(event.data, AssistantMessageRecord).message
        for block in answer.content:
            if isinstance(block, TextBlock) and block.text:
                console.print(Text(plain(block.text)))
    elif event.type == "approval/decided":
        console.print(Text(f"  approval: {plain(str(event.data['outcome']))}", "yellow"))
    elif event.type == TurnEnd.event_type:
        console.print(Text(f"  turn {event.data['turn']} ended: {plain(str(event.data['reason']['kind']))}", "dim"))
