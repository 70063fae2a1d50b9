"""Stage 3: run the body, inside whatever wraps it (PIPE section N)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from ...errors import ListenerError, LossyJsonError
from ...json_value import snapshot
from ...kernel.hooks import Listener, run_waterfall
from ...tools.blocks import checked_content, checked_contexts
from ...tools.events import EXECUTE
from ...tools.result import ErrorDetail, ErrorInfo, ToolFailure, ToolResult, ToolSuccess, failure, failure_from
from ..cancellation import UNCONTAINED, NativeCancellation
from ..run import Run, abort_outcome, aborted_result
from ..watching import watched
from .body import run_body, visible_now
from .check_output import check_output
from .snapshot import unknown_tool

__all__ = ["LOSSY_RESULT", "invoke"]

LOSSY_RESULT = "tool result must be losslessly JSON-serializable"


def invoke(run: Run) -> Coroutine[Any, Any, None]:
    """Run the body and its wrappers; afterwards the run carries a result and goes to review, or to its end."""
    wrappers = run.runner.bus.listeners(EXECUTE, run.scope)
    return _invoke_wrapped(run, wrappers) if wrappers else _invoke_bare(run)


async def _invoke_bare(run: Run) -> None:
    _leave(run, await run_body(run))


async def _invoke_wrapped(run: Run, wrappers: tuple[Listener, ...]) -> None:
    native = NativeCancellation.here(run.asked)
    failed: ToolFailure | None = None
    result: ToolResult = failure("")
    try:
        result = await native.attend(_run_wrapped(run, wrappers))
    except asyncio.CancelledError as error:
        if native.by_others:
            run.execution.state.cancelled = True
            result = aborted_result(run)
        else:
            failed = failure_from(error)
    except _Settled as settled:
        failed = settled.result
    except UNCONTAINED:
        raise
    except BaseException as error:
        if native.closing:
            raise
        failed = failure_from(error)
    if native.requested:
        if await native.take_own() and failed is None and not result.is_error:
            failed = failure("a listener of tools/execute cancelled the task that it ran in")
        run.execution.state.cancelled |= native.requested
    if failed is None:
        _leave(run, result)
    else:
        run.settle_with(failed, "finish")


def _leave(run: Run, result: ToolResult) -> None:
    """Add what the body deferred, let an abort supersede a success, and say where the run goes."""
    state = run.execution.state
    final = result is run.final_failure
    if state.contexts is not None or (state.concludes and not result.is_error):
        result = _with_deferred(run, result)
    run.settle_with(abort_outcome(run, result), "finish" if final else "review")


async def _run_wrapped(run: Run, wrappers: tuple[Listener, ...]) -> ToolResult:
    trace = run.execution.state.trace
    if trace is not None:
        wrappers = watched(wrappers, trace, "wrapper")
    made: list[ToolResult] = []
    body = partial(_run_body_noted, run, made)
    result: ToolResult = await run_waterfall(wrappers, run.execution, body, _check_result)
    if any(result is own for own in made):
        return result
    return _normalize(run, wrappers[0].name, result)


def _check_result(listener: Listener, result: object) -> None:
    if not isinstance(result, (ToolSuccess, ToolFailure)):
        what = f"expected ToolSuccess or ToolFailure, got {type(result).__name__}"
        raise ListenerError(listener.name, EXECUTE.name, what)


async def _run_body_noted(run: Run, made: list[ToolResult]) -> ToolResult:
    result = await run_body(run)
    made.append(result)
    return result


def _normalize(run: Run, listener: str, result: ToolResult) -> ToolResult:
    """Make a wrapper's own result canonical: only its value, error, content and contexts count (PIPE-135, 136).

    Raises:
        ListenerError: its content or contexts are not what they should be.
        _Settled: its value cannot be kept, or it is not JSON.
    """
    if isinstance(result, ToolSuccess):
        outcome: ToolResult = _rebuild_success(run, result)
    else:
        outcome = _rebuild_failure(listener, result)
    if result.additional_contexts is UNSET:
        return outcome
    contexts = checked_contexts(result.additional_contexts)
    if contexts is None:
        raise ListenerError(listener, EXECUTE.name, "additional_contexts must be a list of UserMessage")
    return msgspec.structs.replace(outcome, additional_contexts=contexts)


def _rebuild_success(run: Run, result: ToolSuccess) -> ToolSuccess:
    entry = visible_now(run)
    if entry is None:
        raise _Settled(unknown_tool(run))
    outcome = check_output(entry, run.execution, result.value)
    if isinstance(outcome, ToolFailure):
        raise _Settled(outcome)
    return outcome


def _rebuild_failure(listener: str, result: ToolFailure) -> ToolFailure:
    error: object = result.error
    if not isinstance(error, ErrorDetail) or type(error.message) is not str:
        raise ListenerError(listener, EXECUTE.name, "error must be an ErrorDetail with a string message")
    info: object = error.info
    if info is not UNSET and not (isinstance(info, ErrorInfo) and type(info.name) is type(info.code) is str):
        raise ListenerError(listener, EXECUTE.name, "error.info must be an ErrorInfo of strings")
    try:
        content = checked_content(result.content)
        meta = UNSET if result.meta is UNSET else snapshot(result.meta)
    except LossyJsonError as lossy:
        raise _Settled(failure(f"{LOSSY_RESULT}\n{lossy.message}")) from lossy
    if content is None:
        raise ListenerError(listener, EXECUTE.name, "content must be a list of content blocks")
    return ToolFailure(error, content, meta)


class _Settled(Exception):
    """Carries a ready failure past review."""

    def __init__(self, result: ToolFailure) -> None:
        self.result = result


def _with_deferred(run: Run, result: ToolResult) -> ToolResult:
    """Add what the body deferred: contexts in call order before a wrapper's own, and the end of the turn."""
    state = run.execution.state
    changes: dict[str, Any] = {}
    if state.contexts:
        changes["additional_contexts"] = (*state.contexts, *(result.additional_contexts or ()))
    if state.concludes and not result.is_error:
        changes["concludes_turn"] = True
    return msgspec.structs.replace(result, **changes)
