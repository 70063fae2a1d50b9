"""Stage 1: copy and freeze the arguments, check them, mint the token."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from ...errors import InvalidParentError, JsonTextError, LossyJsonError, ToolArgsError, ToolNotFoundError
from ...json_value import FrozenDict, parse_json, snapshot
from ...kernel.abort import NEVER
from ...schema import argument_hints
from ...tools.execution import CallState, CallToken, ToolCall, ToolExecution
from ...tools.registered import RegisteredTool
from ...tools.registry import RESERVED_NAME
from ...tools.result import ErrorInfo, ToolFailure, failure, failure_from
from ..run import ABORTED_BEFORE_DISPATCH, Run, Runner
from ..states import watch_states

__all__ = ["MOST_VIOLATIONS", "bounded", "classify_arguments", "invalid_arguments", "snapshot_call", "unknown_tool"]

EMPTY: Any = FrozenDict()
MOST_VIOLATIONS = 100
LOSSY_ARGUMENTS = "tool execution arguments must be losslessly JSON-serializable"


def snapshot_call(runner: Runner, call: ToolCall) -> Run:
    """Turn a request into a run (PIPE section I, D25).

    Identity and signal are taken first, then the visible tool and its finalizer, then the
    arguments (PIPE-87). Never raises for what a model or caller sent: the run then carries its failure.
    """
    signal = call.signal if call.signal is not None else NEVER
    agent = call.agent
    scope = None if agent is None else agent.scope
    view = runner.registry.view(scope)
    entry = view.entries.get(call.name)
    given = call.arguments
    fault: ToolFailure | None = None
    arguments: Any = EMPTY
    from_text = type(given) is str and not call.by_program
    if from_text:
        try:
            arguments = _parse_text(given)
        except JsonTextError as error:
            arguments = given
            fault = _args_failure([error.message])
    elif given is not None or call.by_program:
        try:
            arguments = snapshot(given)
        except LossyJsonError as error:
            arguments = UNSET
            fault = failure(f"{LOSSY_ARGUMENTS}\n{error.message}")
    if entry is not None and entry.defaults and isinstance(arguments, dict):
        arguments = _fill_defaults(entry, arguments)
    execution = ToolExecution(
        call.call_id,
        call.call_id if call.root_call_id is None else call.root_call_id,
        call.name,
        arguments,
        agent,
        call.parent,
        CallToken(runner),
        signal,
        CallState(runner, signal, durable=call.durable),
    )
    run = Run(runner, execution, scope, view, entry)
    if fault is not None and not from_text:
        run.finalize = signal.aborted or not _collapsed(run)
        run.settle_with(fault, "finish")
    elif call.parent is not None and not call.parent.is_live_in(runner):
        run.settle_with(failure_from(InvalidParentError("invalid parent token")), "finish")
    elif signal.aborted:
        run.settle_with(ABORTED_BEFORE_DISPATCH, "finish")
    elif view.mode == "code" and _collapsed(run):
        run.finalize = False
        run.settle_with(failure_from(ToolNotFoundError(_route(call.name))), "finish")
    elif entry is None and call.by_program:
        run.settle_with(unknown_tool(run), "finish")
    elif entry is not None:
        fault = fault if fault is not None else _check(entry, arguments)
        if fault is not None:
            run.settle_with(fault, "review")
    if runner.states_watched:
        watch_states(runner.bus, run)
    return run


def _parse_text(text: str) -> Any:
    """Parse a model's argument text; blank text and ``null`` count as ``{}``."""
    value: Any = parse_json(text)
    return EMPTY if value is None else value


def _fill_defaults(entry: RegisteredTool, arguments: Any) -> Any:
    """Return the arguments with the tool's defaults for absent ones, so that policy sees them (D43)."""
    missing = {name: value for name, value in entry.defaults.items() if name not in arguments}
    return FrozenDict({**arguments, **missing}) if missing else arguments


def classify_arguments(entry: RegisteredTool, call: ToolCall) -> Any:
    """Return the arguments as a concurrency classifier should see them; may raise for text that is not JSON."""
    arguments = call.arguments
    if not call.by_program:
        arguments = _parse_text(arguments) if type(arguments) is str else EMPTY if arguments is None else arguments
    return _fill_defaults(entry, arguments) if entry.defaults and isinstance(arguments, dict) else arguments


def invalid_arguments(entry: RegisteredTool, arguments: Any) -> list[str]:
    """List what is wrong with the arguments; empty when they may run."""
    if entry.arguments is not None and not entry.accepts_arguments(arguments):
        return bounded(entry.arguments.violations(arguments, "", most=MOST_VIOLATIONS + 1))
    return bounded(list(entry.check_arguments(arguments))) if entry.check_arguments is not None else []


def bounded(violations: list[str]) -> list[str]:
    """Keep what a model can make use of: a value of a million wrong items would give as many lines."""
    if len(violations) <= MOST_VIOLATIONS:
        return violations
    return [*violations[:MOST_VIOLATIONS], f"and more (the first {MOST_VIOLATIONS} are listed)"]


def _check(entry: RegisteredTool, arguments: Any) -> ToolFailure | None:
    violations = invalid_arguments(entry, arguments)
    if not violations:
        return None
    hints = [] if entry.arguments is None else argument_hints(entry.arguments, arguments)
    return _args_failure(violations, hints)


def _args_failure(violations: list[str], hints: Iterable[str] = ()) -> ToolFailure:
    message = ToolArgsError(violations).message
    return failure("\n".join((message, *hints)), ErrorInfo("ToolArgsError", ToolArgsError.default_code))


def _collapsed(run: Run) -> bool:
    """Whether Code Mode leaves only ``run_code`` callable directly for this call (PIPE-102 to 105)."""
    return (
        run.view.mode == "code"
        and run.execution.parent is None
        and run.entry is not None
        and run.execution.name != RESERVED_NAME
    )


def _route(name: str) -> str:
    return (
        f'unknown tool "{name}": only `run_code` is callable directly — '
        f"call `{name}` from inside a `run_code` program instead"
    )


def unknown_tool(run: Run) -> ToolFailure:
    """The failure for a name that the caller cannot see, with a near visible name if there is one (D27)."""
    name = run.execution.name
    message = f'unknown tool "{name}"'
    close = difflib.get_close_matches(name, [seen for seen in run.view.entries if seen != name], n=1)
    if close:
        message += f'\nDid you mean "{close[0]}"?'
    return failure_from(ToolNotFoundError(message))
