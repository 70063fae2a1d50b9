"""The command's entry: its verbs, and how it ends."""

from __future__ import annotations

import errno
import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from .verbs import MCP_VERBS, SESSION_VERBS, VERBS, group_of

__all__ = ["app", "main"]

app = typer.Typer(
    name="dsh-tools",
    cls=group_of(VERBS),
    help="The tool layer of an LLM agent: typed tools, a strict call pipeline, durable results.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"dsh-tools {version('dsh-tools')}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """The tool layer of an LLM agent."""


app.add_typer(
    typer.Typer(
        cls=group_of(SESSION_VERBS),
        help="Look at the sessions that are kept; take them elsewhere.",
        no_args_is_help=True,
    ),
    name="session",
)
app.add_typer(
    typer.Typer(cls=group_of(MCP_VERBS), help="The Model Context Protocol.", no_args_is_help=True), name="mcp"
)


def main() -> None:
    """Run the command; ends the process with its status."""
    _open_closed_streams()
    try:
        app()
    except OSError as error:
        # A file that fails has a name; what has none is the standard output, on a full disk, say.
        if error.errno not in (errno.ENOSPC, errno.EPIPE, errno.EIO) or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered goes nowhere
        sys.exit(f"dsh-tools: the output could not be written: {error.strerror}")


def _open_closed_streams() -> None:
    """Let standard streams that the caller closed lead nowhere.

    Otherwise the next file that is opened gets the number, and children take it for their standard stream.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode))
