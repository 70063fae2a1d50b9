"""The command ``dsh-tools``: one verb per file."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command; ends the process with its status, which is 130 where Ctrl-C comes before a verb has begun."""
    try:
        # Imported late: that takes a while, and Ctrl-C then is no fault to print a traceback for.
        from .app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
