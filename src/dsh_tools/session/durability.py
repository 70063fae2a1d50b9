"""Nothing runs before the log says so: flushes at the points where a crash would cost the truth (HOST-127)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import AbortError
from ..kernel.abort import AbortSignal
from ..kernel.hooks import Next
from ..tools.events import EXECUTE
from ..tools.execution import ToolExecution
from ..tools.result import ToolResult
from .protocol import SessionLog
from .recorder import log_of

if TYPE_CHECKING:
    from ..kernel.context import Context

__all__ = ["DurabilityPlugin", "checkpoint"]


async def checkpoint(log: SessionLog, signal: AbortSignal) -> None:
    """Flush, unless the signal fires first; the loop does this before a model request and after a step.

    Raises:
        SessionError: the log is not durable, so what was to follow must not happen.
        AbortError: the signal fired first.
    """
    async with signal.cancel_scope():
        await log.flush()


class DurabilityPlugin:
    """Makes every top-level call durable before its body runs.

    It stands outside all other ``tools/execute`` wrappers, hence behind approval and guards. A
    flush that fails fails the call, and the body does not run. A nested call is covered by its
    outer call's checkpoint.
    """

    name = "durability"

    def apply(self, ctx: Context, config: object = None) -> None:
        """Add the wrapper."""
        ctx.on(EXECUTE, _flush_first, prepend=True)


async def _flush_first(execution: ToolExecution, proceed: Next[ToolResult]) -> ToolResult:
    log = None if execution.parent is not None else log_of(execution.agent)
    if log is not None and not execution.signal.aborted:
        # After an abort the stage behind sees the same signal, and reports that the body never ran.
        with suppress(AbortError):
            await checkpoint(log, execution.signal)
    return await proceed()
