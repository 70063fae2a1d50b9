"""How one call runs. Read this file first.

::

    snapshot      copy and freeze the arguments, check them, mint the token
    authorize     tools/pre-execute (allow / deny / ask a person), then guards (deny only)
    invoke        tools/execute around the body; what it returned is checked and rendered
    review        tools/post-execute (accept / replace / block / add context)
    finalize      the definition's own last word on the content
    settle        freeze, tools/result to observers, exactly once

A run always ends in one result. ``prepare``, ``dispatch`` and ``finish`` are the same stages cut
where a scheduler needs them: only ``dispatch`` may overlap between calls (PIPE-234, 235).
"""

from __future__ import annotations

import asyncio

from ..errors import CallSuspended
from ..tools.execution import ToolCall
from ..tools.result import ToolResult
from .cancellation import finish_shielded
from .run import Run, Runner, abort_outcome
from .stages.authorize import authorize, needs_authorization
from .stages.finalize import finalize
from .stages.invoke import invoke
from .stages.review import needs_review, review
from .stages.settle import settle
from .stages.snapshot import snapshot_call

__all__ = ["dispatch", "execute", "finish", "prepare"]


async def execute(runner: Runner, call: ToolCall) -> ToolResult:
    """Run one call to its one result.

    Never raises for what a tool, a policy or a listener did (PIPE-96).

    Raises:
        asyncio.CancelledError: the awaiting task was cancelled; the call has settled first (D30).
        CallSuspended: the call is durable and waits for a person; it has no result yet (D34).
    """
    run = snapshot_call(runner, call)
    if runner.tracer is not None:
        runner.tracer(call, run)
    if run.next == "dispatch" and needs_authorization(run):
        await authorize(run)
    if run.next == "dispatch":
        try:
            await invoke(run)
        except CallSuspended as suspension:
            run.suspend(suspension)
    run.suspend_if_left()
    if run.suspension is not None:
        raise run.suspension
    if run.execution.state.cancelled:
        return await _finish_cancelled(run)
    if needs_review(run):
        await review(run)
        if run.execution.state.cancelled:
            return await _finish_cancelled(run)
    finalize(run)
    return settle(run)


async def _finish_cancelled(run: Run) -> ToolResult:
    """Settle a call whose awaiting task was cancelled, then let the cancellation go on."""
    await finish_shielded(finish(run))
    raise asyncio.CancelledError


async def prepare(runner: Runner, call: ToolCall) -> Run:
    """Take a call up to its body: snapshot and authorize (PIPE-234)."""
    run = snapshot_call(runner, call)
    if runner.tracer is not None:
        runner.tracer(call, run)
    if run.next == "dispatch" and needs_authorization(run):
        await authorize(run)
    run.suspend_if_left()
    return run


async def dispatch(run: Run) -> None:
    """Run the body and its wrappers; the only part that may overlap with other calls (PIPE-235)."""
    if run.next == "dispatch":
        try:
            await invoke(run)
        except CallSuspended as suspension:
            run.suspend(suspension)
        run.suspend_if_left()


async def finish(run: Run) -> ToolResult:
    """Review, finalize and settle a run that has its result (PIPE-236).

    A success that waited for its turn and was aborted meanwhile is an aborted call (PIPE-194, 195).
    """
    if needs_review(run):
        await review(run)
    elif run.next == "review" and run.result is not None:
        run.settle_with(abort_outcome(run, run.result), "finish")
    finalize(run)
    return settle(run)
