"""What a session that waits for a person waits for, and how to go on with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import UNSET
from rich.rule import Rule
from rich.text import Text

from ..errors import HarnessError
from ..json_value import parse_json
from ..services import open_questions
from ..session import OpenEnd
from ..terminal import plain, render_call
from ..tools import RESERVED_NAME, view_of_call
from ..tools.cards import GenericCall
from .invocation import this_command

if TYPE_CHECKING:
    from rich.console import Console

    from ..kernel import Context
    from ..session import EventLog
    from ..session.events import ApprovalAsked

__all__ = ["WAITING_DEMO", "resume_command", "show_pending"]

WAITING_DEMO: Final = "demo that waits"
"""The origin of the demo's sessions, by which they are known when they are resumed."""


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
    definition = ctx.tools.get(name)
    # Sessions are also looked at where nothing runs programs, and so nothing presents them.
    view = _program(arguments) if definition is None and name == RESERVED_NAME else view_of_call(definition, arguments)
    console.print(render_call(view, name=name, arguments=arguments))


def _program(arguments: Any) -> GenericCall | None:
    try:
        fields: Any = parse_json(arguments) if isinstance(arguments, str) else arguments
    except HarnessError:
        return None
    fields = cast("dict[str, object]", fields) if isinstance(fields, dict) else {}
    code, about = fields.get("code"), fields.get("description")
    if not isinstance(code, str):
        return None
    return GenericCall(about if isinstance(about, str) and about.strip() else RESERVED_NAME, "execute", code)


def _show_reason(console: Console, question: ApprovalAsked) -> None:
    why = "" if question.reason is UNSET else f": {plain(question.reason)}"
    console.print(Text(f"  {plain(question.tool_name)} needs approval{why}", "yellow"))


def resume_command(session_id: str, store: Path | None) -> str:
    """The command line that goes on with a session."""
    where = "" if store is None else f" --store {store}"
    return f"{this_command()} session resume {session_id}{where}"
