"""Failures of the interpreter, in the contract's words (CODE-144, 145, 169, D42)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ...errors import describe_exception
from ..seam import BindingNamespace, CodeRunError
from .prelude import ERROR_TYPES, MAIN
from .source import LINE_OFFSET, program_lines

if TYPE_CHECKING:
    from pydantic_monty import MontyCrashedError

__all__ = ["crash_error", "end_error", "failure_of", "start_error"]

_MOST_FRAMES = 20
_SIGNAL = re.compile(r"signal: (\d+)")
_UNSUPPORTED = re.compile(r"The monty syntax parser does not yet support (.*)", re.DOTALL)
_INTERNAL = "Internal error in monty: "
_OUT_OF_MEMORY = CodeRunError("worker-exit", "worker error: out of memory")


def crash_error(error: MontyCrashedError) -> CodeRunError:
    """The failure of a run whose process is gone."""
    code = error.exit_status
    killed = _SIGNAL.search(str(error))
    if code is None and killed is not None:
        code = 128 + int(killed[1])
    return CodeRunError("worker-exit", f"worker error: {error}") if code is None else end_error(code)


def end_error(code: int | None) -> CodeRunError:
    """The failure of a run whose process has ended, with its exit code where that is known."""
    if code is None:
        return CodeRunError("worker-exit", "worker error: the process ended")
    return CodeRunError("worker-exit", f"worker exited with code {code} before completing")


def start_error(error: Exception) -> CodeRunError:
    """The failure of a run whose process did not get ready."""
    if isinstance(getattr(error, "exit_status", None), int) or _SIGNAL.search(str(error)):
        return crash_error(cast("MontyCrashedError", error))
    return CodeRunError("worker-exit", f"worker error: {describe_exception(error)}")


def failure_of(error: Exception, bindings: Sequence[BindingNamespace], program: str) -> CodeRunError:
    """The failure of a program that the interpreter gave up on, with the program's own lines and their numbers."""
    summary = describe_exception(error)
    if summary.startswith("MemoryError: memory limit exceeded"):
        return _OUT_OF_MEMORY
    traceback: Callable[[], list[Any]] = getattr(error, "traceback", list[Any])
    if type(error).__name__ == "MontySyntaxError":
        summary = f"SyntaxError: {summary}"
    summary = _own_words(summary, bindings)
    lines = program_lines(program)
    shown = [text for frame in traceback() if (text := _frame_text(frame, lines)) is not None]
    if not shown:
        return CodeRunError("exception", summary)
    if len(shown) > _MOST_FRAMES:
        half = _MOST_FRAMES // 2
        shown[half:-half] = [f"  ... {len(shown) - 2 * half} more frames"]
    return CodeRunError("exception", "\n".join(("Traceback (most recent call last):", *shown, summary)))


def _own_words(summary: str, bindings: Sequence[BindingNamespace]) -> str:
    """Name what the program knows: its error classes, and the construct that is not there."""
    unsupported = _UNSUPPORTED.search(summary)
    if unsupported is not None:
        return f"NotImplementedError: this Python does not support {unsupported[1]}"
    summary = summary.replace(_INTERNAL, "", 1)
    classes = [binding.error_class for binding in bindings if binding.error_class is not None]
    for spec, stand_in in zip(classes, ERROR_TYPES, strict=False):
        # As in: 'binascii.Incomplete' object has no attribute 'message'
        summary = summary.replace(f"'{stand_in}'", f"'{spec.name}'")
        if summary == stand_in or summary.startswith(stand_in + ":"):
            return spec.name + summary[len(stand_in) :]
    return summary


def _frame_text(frame: Any, lines: Sequence[str]) -> str | None:
    """One frame as Python shows it; None for a line of the wrapper."""
    line: int = frame.line - LINE_OFFSET
    name = frame.function_name
    if name == "<module>" or ((name or "").startswith("__dsh") and name != MAIN):
        return None
    place = "<program>" if name in (None, MAIN) else name
    text = f'  File "program.py", line {line}, in {place}'
    # What the interpreter calls the line has our functions in it.
    source = (lines[line - 1] if 0 < line <= len(lines) else frame.source_line or "").strip()
    return f"{text}\n    {source}" if source else text
