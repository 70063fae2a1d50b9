"""What a session that waits for a person waits for, and how to go on with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from rich.rule import Rule
from rich.text import Text

from ..services import open_questions
from ..session import OpenEnd
from ..terminal import plain, render_call
from ..tools import view_of_call
from .demo_waiting import WAITING_DEMO, resume_command

if TYPE_CHECKING:
    from rich.console import Console

    from ..kernel import Context
    from ..session import EventLog
    from ..session.events import ApprovalAsked

__all__ = ["show_pending"]


def show_pending(ctx: Context, log: EventLog, console: Console, *, store: Path | None, config: Path | None) -> None:
    """Print the calls that have no result yet, what is asked about them, and the command that goes on.

    Prints nothing for a session that waits for nobody.

    Parameters:
        store: the file of sessions that was named for this command, if one was; the next one needs it, too.
        config: the configuration file that was named, likewise.
    """
    end = OpenEnd(log.events)
    if not end.waiting:
        return
    questions = open_questions(log.events)
    console.print(Rule(Text("it waits for a person" if questions else "it waits to go on"), style="dim"))
    for call in end.calls:
        _show_call(ctx, console, call.block.name, call.block.arguments)
        for question in questions:
            if question.id == call.question:
                _show_reason(console, question)
    about_calls = {call.question for call in end.calls}
    for question in questions:
        if question.id not in about_calls:
            # It is about a call that a program made, and has a card of its own.
            _show_call(ctx, console, question.tool_name, {} if question.arguments is UNSET else question.arguments)
            _show_reason(console, question)
    command = resume_command(log.id, store)
    if config is not None:
        command += f" --config {config}"
    if log.header.origin != WAITING_DEMO:
        command += " --model NAME"
    hint = "Answer with --allow or --reject" if questions else "Nothing is left to answer; go on with"
    console.print(Text(f"{hint}:\n  {plain(command)}{' --allow' if questions else ''}", "bold"), soft_wrap=True)


def _show_call(ctx: Context, console: Console, name: str, arguments: Any) -> None:
    console.print(render_call(view_of_call(ctx.tools.get(name), arguments), name=name, arguments=arguments))


def _show_reason(console: Console, question: ApprovalAsked) -> None:
    why = "" if question.reason is UNSET else f": {plain(question.reason)}"
    console.print(Text(f"  {plain(question.tool_name)} needs approval{why}", "yellow"))
