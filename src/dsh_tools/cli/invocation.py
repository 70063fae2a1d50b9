"""How the person called the command, for the commands that it proposes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

__all__ = ["this_command"]


def this_command() -> str:
    """The command by its name, or by a path where it is not on the search path."""
    name = Path(sys.argv[0]).name
    if shutil.which(name) is not None:
        return name
    called = Path(sys.argv[0]).absolute()
    return str(called.relative_to(Path.cwd()) if called.is_relative_to(Path.cwd()) else called)
