"""Stage 5: the definition's own last word on the content (PIPE section R)."""

from __future__ import annotations

import inspect

import msgspec

from ...errors import ListenerError, LossyJsonError
from ...tools.blocks import checked_content
from ...tools.result import ToolResult, failure, failure_from
from ..cancellation import UNCONTAINED
from ..run import Run
from .invoke import LOSSY_RESULT

__all__ = ["finalize"]


def finalize(run: Run) -> None:
    """Call the finalizer captured at entry, once, and let it replace the content (PIPE-174 to 179)."""
    entry, result = run.entry, run.result
    if entry is None or entry.finalize_content is None or not run.finalize or result is None:
        return
    try:
        content: object = entry.finalize_content(run.execution, result)
        run.result = _with_content(entry.name, result, content)
    except UNCONTAINED:
        raise
    except BaseException as error:
        run.result = failure_from(error)


def _with_content(tool: str, result: ToolResult, content: object) -> ToolResult:
    if content is None:
        return result
    if inspect.iscoroutine(content):
        content.close()
    try:
        blocks = checked_content(content)
    except LossyJsonError as error:
        return failure(f"{LOSSY_RESULT}\n{error.message}")
    if blocks is None:
        what = f"expected None or a list of content blocks, got {type(content).__name__}"
        raise ListenerError(f"{tool}.finalize_content", "finalize", what)
    return msgspec.structs.replace(result, content=blocks)
