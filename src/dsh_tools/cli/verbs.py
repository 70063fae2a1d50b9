"""Which verbs there are, and where: what ``--help`` lists is known without importing any of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

__all__ = ["MCP_VERBS", "SESSION_VERBS", "VERBS", "Verb", "group_of"]


class Verb(NamedTuple):
    """One verb.

    Parameters:
        name: how it is called.
        place: its function, as ``module:function`` of this package.
        summary: the first paragraph of the function's docstring, for the list of verbs.
    """

    name: str
    place: str
    summary: str

    def command(self) -> Any:
        """Import the verb and return its command."""
        module, _, function = self.place.partition(":")
        alone = typer.Typer(add_completion=False)
        alone.command(self.name)(getattr(import_module(f"{__package__}.{module}"), function))
        return get_command(alone)


VERBS = (
    Verb(
        "demo",
        "demo:demo",
        "Watch an agent turn: parallel reads, a denial, an approval, a time-out, all kept in a session.",
    ),
    Verb("tools", "tools:tools", "List the registered tools."),
    Verb(
        "call",
        "call:call",
        "Run one tool call through the whole pipeline; status 0 for a success, 1 for a failure.",
    ),
    Verb(
        "explain",
        "explain:explain",
        "Say what policy would decide about a call, and why. Runs nothing, asks nobody.",
    ),
    Verb(
        "chat",
        "chat:chat",
        "Talk with a model that has the configured tools: streaming text, live cards, questions before risky calls.",
    ),
    Verb(
        "inspect",
        "inspect:inspect",
        "Serve a page that shows sessions as they are written, their timelines, and the configured tools.",
    ),
    Verb(
        "run-code",
        "run_code:run_code",
        "Run a program against the tools; status 0 for a success, 1 for a failure, 2 for a wrong configuration.",
    ),
    Verb("sdk", "sdk:sdk", "Print the prompt section that declares the tools for programs. Needs no runtime."),
    Verb("prompt", "prompt:prompt", "Show the assembled prompt, or explain when and why a session's prefix changed."),
)
"""``dsh-tools VERB``."""

SESSION_VERBS = (
    Verb("list", "session:list_sessions", "List the sessions, newest first."),
    Verb(
        "show",
        "session:show_session",
        "Show a session again: messages, a card for every call, when the calls ran, and what it waits for.",
    ),
    Verb("export", "session:export_session", "Write a session as JSON lines: its header, then one event a line."),
    Verb(
        "import",
        "session:import_session",
        "Keep a session that was exported elsewhere, and print its id. Nothing of it is run.",
    ),
    Verb("timeline", "timeline:timeline", "Show when each call of a session ran. Only reads the file."),
    Verb(
        "resume",
        "resume:resume_session",
        "Go on with a session that waits for a person: its questions are put in the terminal, or answered by a flag.",
    ),
)
"""``dsh-tools session VERB``."""

MCP_VERBS = (
    Verb("serve", "mcp:serve", "Publish the configured tools, and those of other MCP servers, to an MCP client."),
)
"""``dsh-tools mcp VERB``."""


def group_of(verbs: tuple[Verb, ...]) -> type[TyperGroup]:
    """Return the class of a group that imports a verb when it is called."""
    by_name = {verb.name: verb for verb in verbs}

    class Verbs(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            listed: Any = {verb.name: TyperCommand(verb.name, help=verb.summary) for verb in verbs}
            self.commands = listed | dict(self.commands)

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
            name, command, rest = super().resolve_command(ctx, args)
            verb = by_name.get(name or "")
            return name, command if verb is None else verb.command(), rest

    return Verbs
