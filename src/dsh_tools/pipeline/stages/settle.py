"""Stage 6: freeze the execution and tell the observers, exactly once (PIPE section S)."""

from __future__ import annotations

from ...tools.events import TOOL_RESULT
from ...tools.result import ToolResult
from ..run import Run

__all__ = ["settle"]


def settle(run: Run) -> ToolResult:
    """End the call: from here on nothing about it changes. Returns the very object the observers saw."""
    execution, result = run.execution, run.result
    assert result is not None
    state = execution.state
    state.frozen = True
    execution.token.retire()
    if state.notes is not None and state.notes.watch is not None:
        state.notes.watch.settled()
    runner = run.runner
    if runner.bus.listeners(TOOL_RESULT, run.scope):
        runner.bus.emit(TOOL_RESULT, execution, result, scope=run.scope)
    return result
