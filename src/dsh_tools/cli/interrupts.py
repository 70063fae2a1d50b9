"""Ctrl-C outside of a verb's work: while the command is imported, and when it has done what it does."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager

TYPE_CHECKING = False  # until Ctrl-C is taken care of, every import counts
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import NoReturn

__all__ = ["INTERRUPTED", "end_at_interrupt", "interruptible"]

INTERRUPTED = 130
"""The status of a command that Ctrl-C has ended."""


def end_at_interrupt() -> None:
    """Let Ctrl-C end the process at once; where it is ignored, as behind ``nohup``, it stays so.

    A ``KeyboardInterrupt`` would not do: raised while something is imported, or while the interpreter goes down, it
    is printed with its trace, and may be lost besides.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


@contextmanager
def interruptible() -> Generator[None]:
    """Let Ctrl-C raise ``KeyboardInterrupt`` for the length of a ``with`` block, so that work can end in order."""
    before = signal.getsignal(signal.SIGINT)
    if before is not _end:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(_number: int, _frame: object) -> NoReturn:
    os._exit(INTERRUPTED)
