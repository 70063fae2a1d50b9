"""Stage 3a: the body of a call, wherever it runs and however it ends (PIPE sections N and T)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
from collections.abc import Awaitable, Coroutine
from types import CoroutineType
from typing import Any

from ...errors import CallSuspended, HarnessError, ListenerError
from ...kernel.abort import NEVER, AbortSignal
from ...tools.registered import RegisteredTool
from ...tools.result import ToolFailure, ToolResult, failure, failure_from
from ...tools.stopping import StateListener, StopEnding, report_stop
from ..cancellation import UNCONTAINED, NativeCancellation, await_under
from ..run import ABORTED, ABORTED_BEFORE_DISPATCH, Run, aborted, aborted_result
from ..threads import NotBegun
from .check_output import check_output
from .snapshot import unknown_tool

__all__ = ["run_body", "visible_now"]

_log = logging.getLogger("dsh_tools")


async def run_body(run: Run) -> ToolResult:
    """The innermost dispatch: resolve the tool, call its body once, check what it returned."""
    execution = run.execution
    state, signal = execution.state, execution.signal
    if aborted(run) or signal.aborted:
        return ABORTED_BEFORE_DISPATCH
    entry = visible_now(run)
    if entry is None:
        return unknown_tool(run)
    before, state.phase = state.phase, 1
    watch = None
    if state.notes is not None:
        watch, state.notes.output = state.notes.watch, None
    if state.trace is not None:
        state.trace.ran(entry)
    told = False
    ending: StopEnding = "returned"
    task = asyncio.current_task()
    cancellations = 0 if task is None else task.cancelling()
    native = NativeCancellation(task, cancellations, cancellations, run.asked)
    try:
        if state.durable is not None and (noted := state.durable.begin(execution)) is not None:
            await native.attend(_awaited(noted))
        if watch is not None or entry.elsewhere:
            value = await native.attend(_aside(run, entry, watch, native))
        elif signal is NEVER:
            value = entry.execute(execution.arguments, execution)
            if type(value) is CoroutineType:
                # As ``native.attend`` does; most bodies never wait.
                try:
                    waits_for = value.send(None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                except StopIteration as done:
                    value = done.value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                else:
                    value = await native.go_on(value, waits_for)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            elif inspect.isawaitable(value):
                value = await native.attend(_awaited(value))
        else:
            value = await _run_watched(run, entry, native)
    except NotBegun:
        state.phase = before
        result: ToolResult = aborted_result(run)
    except asyncio.CancelledError:
        result, ending = _cancelled(run, signal, native), "cancelled"
        told = result is ABORTED
    except UNCONTAINED as error:
        if state.durable is not None or not isinstance(error, CallSuspended):
            raise
        result = _body_failure(run, error)
    except BaseException as error:
        if native.closing:
            raise
        result, ending = _body_failure(run, error), "raised"
        told = signal.aborted or state.caller_signal.aborted
    else:
        result = _checked(run, entry, value)
        told = signal.aborted
    if state.phase:
        state.phase = 2
    if task is not None and task.cancelling() > cancellations:
        unheard = await native.take_own()
        if native.requested:
            state.cancelled = told = True
        elif unheard and not result.is_error:
            result = failure(f'tool "{execution.name}" cancelled the task that it ran in')
    if told:
        if state.phase:
            _note_stop(run, signal, ending)
        result = result if result.is_error else ABORTED
    if watch is not None:
        watch.settled()
    return result


def _aside(
    run: Run, entry: RegisteredTool, watch: StateListener | None, native: NativeCancellation
) -> Coroutine[Any, Any, Any]:
    """Call a body whose states are observed, or that runs in a thread or a process."""
    if watch is None:
        return _run_elsewhere(run, entry)
    native.on_told = watch.told
    return watch.attend(_call_body(run, entry, native), elsewhere=entry.elsewhere)


async def _call_body(run: Run, entry: RegisteredTool, native: NativeCancellation) -> Any:
    """Call the body wherever it belongs; for calls whose states are observed."""
    execution = run.execution
    if entry.elsewhere:
        return await _run_elsewhere(run, entry)
    if execution.signal is not NEVER:
        return await _run_watched(run, entry, native)
    value = entry.execute(execution.arguments, execution)
    return await value if inspect.isawaitable(value) else value


async def _run_elsewhere(run: Run, entry: RegisteredTool) -> Any:
    runner, notes = run.runner, run.execution.state.note()
    notes.waiting = True
    try:
        return await (runner.threads if entry.imported is None else runner.processes).run(entry, run.execution)
    finally:
        notes.waiting = False


async def _run_watched(run: Run, entry: RegisteredTool, native: NativeCancellation) -> Any:
    """Run an async body under signals: the caller's own object, or one fused with a wrapper's (PIPE-143, 144)."""
    execution = run.execution
    caller, given = execution.state.caller_signal, execution.signal
    fused = AbortSignal.any((caller, given)) if given is not caller and caller is not NEVER else None
    if fused is not None:
        execution.signal = fused
    try:
        value = entry.execute(execution.arguments, execution)
        if type(value) is CoroutineType:
            return await await_under(execution.signal, value, native)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if inspect.isawaitable(value):
            return await await_under(execution.signal, _awaited(value), native)
        return value
    finally:
        if fused is not None:
            fused.close()
            execution.signal = given


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _checked(run: Run, entry: RegisteredTool, value: Any) -> ToolResult:
    try:
        return check_output(entry, run.execution, value)
    except ListenerError as error:
        run.final_failure = failure_from(error)
        return run.final_failure


def _cancelled(run: Run, signal: AbortSignal, native: NativeCancellation) -> ToolFailure:
    """The result of a body that raised CancelledError: ``ABORTED``, unless nobody has asked for it."""
    execution = run.execution
    state = execution.state
    if native.by_others:
        state.cancelled = True
        return ABORTED
    if state.caller_signal.aborted or signal.aborted:
        return ABORTED
    _log.warning("%s raised CancelledError although nobody cancelled it", execution.log_label)
    return failure(f'tool "{execution.name}" raised CancelledError although nobody cancelled it')


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


def _note_stop(run: Run, signal: AbortSignal, ending: StopEnding) -> None:
    """Keep how a body stopped that was told to."""
    state = run.execution.state
    notes = state.note()
    if notes.killed:
        ending = "killed"
        _log.warning("%s did not end when it was told to; its process was killed", run.execution.log_label)
    since = None if notes.watch is None else notes.watch.stopping_since
    notes.stop = report_stop((signal, state.caller_signal), ending, since)


def visible_now(run: Run) -> RegisteredTool | None:
    """Resolve the tool again: it may have gone, or been replaced, since the call came in (PIPE-106)."""
    view = run.runner.registry.view(run.scope)
    return run.entry if view is run.view else view.entries.get(run.execution.name)
