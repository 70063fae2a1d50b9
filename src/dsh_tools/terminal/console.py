"""A console that prints cards as they are meant."""

from __future__ import annotations

import sys
from typing import IO

from rich.console import Console

__all__ = ["make_console"]


def make_console(file: IO[str] | None = None, *, width: int | None = None, colour: bool | None = None) -> Console:
    """Return a rich console for cards.

    Parameters:
        file: where to print; standard output by default.
        width: columns; the terminal's own by default, 80 where there is none.
        colour: True for colours even where there is no terminal, False for none at all: not a single escape
            sequence is written. By default colours are used in a terminal, unless ``NO_COLOR`` is set.
    """
    target = file or sys.stdout
    # A character that the terminal's encoding lacks must not end the program.
    reconfigure: object = getattr(target, "reconfigure", None)
    if callable(reconfigure):
        reconfigure(errors="backslashreplace")
    return Console(
        file=target,
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        force_terminal=colour,
        color_system={None: "auto", True: "standard", False: None}[colour],  # pyright: ignore[reportArgumentType]
        no_color=None if colour is None else not colour,
    )
