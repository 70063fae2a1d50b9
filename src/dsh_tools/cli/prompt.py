"""``dsh-tools prompt``: what a model is told, and why that changed."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.rule import Rule
from rich.text import Text

from ..json_value import to_json_text
from ..services import AssembleRequest, explain_change, kept_fingerprints
from ..session import EventLog
from ..terminal import make_console, plain
from .config import CommandConfig
from .runtime import ConfigOption, StoreOption, open_app, run_verb

__all__ = ["prompt"]


def prompt(
    config: ConfigOption = None,
    store: StoreOption = None,
    explain: Annotated[
        str | None,
        typer.Option("--explain", help="A session: say when its assembled prefix changed, and what changed first."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print system text, tools and digest as JSON.")] = False,
) -> None:
    """Show the assembled prompt, or explain when and why a session's prefix changed.

    A provider's prefix cache is lost with every change; the first section or tool that differs is named.
    """

    async def work(settings: CommandConfig) -> int:
        async with open_app(settings.with_store(store)) as ctx:
            if explain is not None:
                _explain(await ctx.sessions.view(explain))
                return 0
            assembled = await ctx.system_prompt.assemble(AssembleRequest())
            if as_json:
                tools = [{"name": each.name, "parameters": each.parameters} for each in assembled.tools]
                document = {"system": assembled.system, "tools": tools, "digest": assembled.fingerprint.digest}
                typer.echo(to_json_text(document, indent=2))
                return 0
            console = make_console()
            console.print(Text(plain(assembled.system) or "(no system text)"))
            console.print(Rule(Text("tools"), style="dim"))
            console.print(Text("\n".join(plain(tool.name) for tool in assembled.tools) or "(no tools)"))
            console.print(Text(f"digest {assembled.fingerprint.digest[:16]}", "dim"))
        return 0

    run_verb(work, config)


def _explain(log: EventLog) -> None:
    console = make_console()
    before = None
    for event, fingerprint in kept_fingerprints(log.events):
        turn = next((e.data["turn"] for e in reversed(log.events[: event.seq]) if e.type == "turn/start"), 0)
        digest = fingerprint.digest[:12]
        if before is None:
            console.print(Text(f"turn {turn}: first prefix, digest {digest}"))
        else:
            change = explain_change(before, fingerprint)
            what = "nothing that is named" if change is None else plain(str(change))
            console.print(Text(f"turn {turn}: digest {digest}: {what}", "yellow"))
        before = fingerprint
    if before is None:
        console.print(Text("The session has no assembled prompt."))
