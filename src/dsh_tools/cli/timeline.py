"""``dsh-tools session timeline``: when the calls of a session waited, ran and were committed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..inspector import open_source, timeline_of, timeline_svg
from ..session import replay_calls
from ..terminal import make_console, render_timeline
from .config import CommandConfig
from .runtime import run_verb

__all__ = ["timeline"]


def timeline(
    file: Annotated[Path, typer.Argument(help="A session store (SQLite) or an export (JSON lines).")],
    session_id: Annotated[
        str | None, typer.Option("--session", "-s", help="The session; the newest one by default.")
    ] = None,
    svg: Annotated[bool, typer.Option("--svg", help="Print a picture (SVG) instead of a table.")] = False,
) -> None:
    """Show when each call of a session ran. Only reads the file."""

    async def work(_settings: CommandConfig) -> int:
        source = await open_source(file)
        try:
            found = await source.summaries() if session_id is None else []
            if session_id is None and not found:
                typer.echo(f"dsh-tools: no sessions are kept in {file}", err=True)
                return 1
            stored = await source.read(found[0].header.id if session_id is None else session_id)
        finally:
            await source.close()
        if svg:
            typer.echo(timeline_svg(timeline_of(stored.events), stored.header.id), nl=False)
        else:
            make_console().print(render_timeline(replay_calls(stored.events)))
        return 0

    run_verb(work, None)
