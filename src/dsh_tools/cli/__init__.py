"""The command ``dsh-tools``: one verb per file."""

from __future__ import annotations

from .interrupts import end_at_interrupt

__all__ = ["main"]


def main() -> None:
    """Run the command; ends the process with its status, which is 130 where Ctrl-C comes outside of a verb's work."""
    end_at_interrupt()
    # Imported late: that takes a while, in which Ctrl-C has to be taken care of already.
    from .app import main as run

    run()
