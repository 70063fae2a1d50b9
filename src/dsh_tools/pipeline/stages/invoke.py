"""Stage 3: run the body, inside whatever wraps it (PIPE sections N and T)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
from collections.abc import Awaitable, Coroutine
from functools import partial
from types import CoroutineType
from typing import Any

import msgspec
from msgspec import UNSET

from ...errors import CallSuspended, HarnessError, ListenerError, LossyJsonError
from ...json_value import snapshot
from ...kernel.abort import NEVER, AbortSignal
from ...kernel.hooks import Listener, run_waterfall
from ...tools.blocks import checked_content, checked_contexts
from ...tools.events import EXECUTE
from ...tools.registered import RegisteredTool
from ...tools.result import ErrorDetail, ErrorInfo, ToolFailure, ToolResult, ToolSuccess, failure, failure_from
from ...tools.stopping import StopEnding, report_stop
from ..cancellation import UNCONTAINED, NativeCancellation, await_under
from ..run import ABORTED, ABORTED_BEFORE_DISPATCH, Run, abort_outcome, aborted, aborted_result
from ..threads import NotBegun
from ..watching import watched
from .check_output import check_output
from .snapshot import unknown_tool

__all__ = ["LOSSY_RESULT", "invoke", "visible_now"]

_log = logging.getLogger("dsh_tools")
LOSSY_RESULT = "tool result must be losslessly JSON-serializable"


def invoke(run: Run) -> Coroutine[Any, Any, None]:
    """Run the body and its wrappers; afterwards the run carries a result and goes to review, or to its end."""
    wrappers = run.runner.bus.listeners(EXECUTE, run.scope)
    return _invoke_wrapped(run, wrappers) if wrappers else _invoke_bare(run)


async def _invoke_bare(run: Run) -> None:
    _leave(run, await _run_body(run))


async def _invoke_wrapped(run: Run, wrappers: tuple[Listener, ...]) -> None:
    native = NativeCancellation()
    try:
        result = await _run_wrapped(run, wrappers)
    except asyncio.CancelledError as error:
        if not native.explains_error:
            run.settle_with(failure_from(error), "finish")
            return
        run.execution.state.cancelled = True
        result = aborted_result(run)
    except _Settled as settled:
        run.settle_with(settled.result, "finish")
        return
    except UNCONTAINED:
        raise
    except BaseException as error:
        run.settle_with(failure_from(error), "finish")
        return
    if native.requested:
        run.execution.state.cancelled = True
    _leave(run, result)


def _leave(run: Run, result: ToolResult) -> None:
    """Add what the body deferred, let an abort supersede a success, and say where the run goes."""
    state = run.execution.state
    final = result is run.final_failure
    if state.contexts is not None or (state.concludes and not result.is_error):
        result = _with_deferred(run, result)
    run.settle_with(abort_outcome(run, result), "finish" if final else "review")


async def _run_body(run: Run) -> ToolResult:
    """The innermost dispatch: resolve the tool, call its body once, check what it returned."""
    execution = run.execution
    state = execution.state
    signal = execution.signal
    if aborted(run) or signal.aborted:
        return ABORTED_BEFORE_DISPATCH
    entry = visible_now(run)
    if entry is None:
        return unknown_tool(run)
    before, state.phase = state.phase, 1
    watch = None
    if state.notes is not None:
        watch, state.notes.output = state.notes.watch, None
    told = False
    ending: StopEnding = "returned"
    if state.trace is not None:
        state.trace.ran(entry)
    native = NativeCancellation()
    try:
        if state.durable is not None and (noted := state.durable.begin(execution)) is not None:
            await noted
        if watch is not None:
            value = await watch.attend(_call_body(run, entry), elsewhere=entry.elsewhere)
        elif entry.elsewhere:
            value = await _run_elsewhere(run, entry)
        elif signal is NEVER:
            value = entry.execute(execution.arguments, execution)
            if type(value) is CoroutineType or inspect.isawaitable(value):
                value = await value  # pyright: ignore[reportUnknownVariableType]
        else:
            value = await _run_watched(run, entry)
    except NotBegun:
        state.phase = before
        result: ToolResult = aborted_result(run)
    except asyncio.CancelledError:
        told, ending = True, "cancelled"
        if native.explains_error:
            state.cancelled = True
            result = ABORTED
        elif state.caller_signal.aborted or signal.aborted:
            result = ABORTED
        else:
            told = False
            result = failure(f'tool "{execution.name}" raised CancelledError although nobody cancelled it')
            _log.warning("%s raised CancelledError although nobody cancelled it", execution.log_label)
    except UNCONTAINED as error:
        if state.durable is not None or not isinstance(error, CallSuspended):
            raise
        result = _body_failure(run, error)
    except BaseException as error:
        told, ending = signal.aborted or state.caller_signal.aborted, "raised"
        result = _body_failure(run, error)
    else:
        result = _checked(run, entry, value)
        if signal.aborted:
            told = True
            result = result if result.is_error else ABORTED
    if state.phase:
        state.phase = 2
    if native.requested:
        state.cancelled = told = True
        result = result if result.is_error else ABORTED
    if told and state.phase:
        _note_stop(run, signal, ending)
    if watch is not None:
        watch.settled()
    return result


def _note_stop(run: Run, signal: AbortSignal, ending: StopEnding) -> None:
    """Keep how a body stopped that was told to."""
    state = run.execution.state
    notes = state.note()
    if notes.killed:
        ending = "killed"
        _log.warning("%s did not end when it was told to; its process was killed", run.execution.log_label)
    since = None if notes.watch is None else notes.watch.stopping_since
    notes.stop = report_stop((signal, state.caller_signal), ending, since)


async def _call_body(run: Run, entry: RegisteredTool) -> Any:
    """Call the body wherever it belongs; for calls whose states are observed."""
    execution = run.execution
    if entry.elsewhere:
        return await _run_elsewhere(run, entry)
    if execution.signal is not NEVER:
        return await _run_watched(run, entry)
    value = entry.execute(execution.arguments, execution)
    return await value if inspect.isawaitable(value) else value


async def _run_elsewhere(run: Run, entry: RegisteredTool) -> Any:
    runner, notes = run.runner, run.execution.state.note()
    notes.waiting = True
    try:
        return await (runner.threads if entry.imported is None else runner.processes).run(entry, run.execution)
    finally:
        notes.waiting = False


def _checked(run: Run, entry: RegisteredTool, value: Any) -> ToolResult:
    try:
        return check_output(entry, run.execution, value)
    except ListenerError as error:
        run.final_failure = failure_from(error)
        return run.final_failure


async def _run_watched(run: Run, entry: RegisteredTool) -> Any:
    """Run an async body under signals: the caller's own object, or one fused with a wrapper's (PIPE-143, 144)."""
    execution = run.execution
    caller, given = execution.state.caller_signal, execution.signal
    fused = AbortSignal.any((caller, given)) if given is not caller and caller is not NEVER else None
    if fused is not None:
        execution.signal = fused
    try:
        value = entry.execute(execution.arguments, execution)
        if type(value) is CoroutineType:
            return await await_under(execution.signal, value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return await await_under(execution.signal, _awaited(value)) if inspect.isawaitable(value) else value
    finally:
        if fused is not None:
            fused.close()
            execution.signal = given


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _body_failure(run: Run, error: BaseException) -> ToolFailure:
    """The failure for what a body raised; with masking on, the model gets an id and the log gets the text."""
    if not run.runner.mask_errors or isinstance(error, HarnessError):
        return failure_from(error)
    reference = secrets.token_hex(4)
    _log.error(
        'tool "%s" (call %s) failed, error id %s',
        run.execution.name,
        run.execution.call_id,
        reference,
        exc_info=error,
    )
    return failure(f"the tool failed; error id {reference}")


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
    result = await _run_body(run)
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


def visible_now(run: Run) -> RegisteredTool | None:
    """Resolve the tool again: it may have gone, or been replaced, since the call came in (PIPE-106)."""
    view = run.runner.registry.view(run.scope)
    return run.entry if view is run.view else view.entries.get(run.execution.name)
