"""Stage 3b: what a body returned becomes a result: copied, frozen, checked, rendered (PIPE section O)."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from ...errors import ListenerError, LossyJsonError, ToolOutputError, describe_exception
from ...json_value import snapshot
from ...tools.blocks import checked_content
from ...tools.execution import ToolExecution
from ...tools.registered import RegisteredTool
from ...tools.result import ErrorInfo, ToolFailure, ToolSuccess, failure
from ..cancellation import UNCONTAINED
from .snapshot import MOST_VIOLATIONS, bounded

__all__ = ["check_output"]


def check_output(entry: RegisteredTool, execution: ToolExecution, value: Any) -> ToolSuccess | ToolFailure:
    """Return the success for a returned value, or the failure that says what is wrong with it.

    Raises:
        ListenerError: ``render`` answered with something that is not content (D37).
    """
    try:
        frozen = snapshot(value)
    except LossyJsonError as error:
        return _invalid(entry, "value is not lossless JSON", hint=error.message)
    except Exception as error:
        return _invalid(entry, f"value snapshot failed: {describe_exception(error)}")
    if not entry.accepts_value(frozen):
        return _invalid(entry, *bounded(entry.output.violations(frozen, "value", most=MOST_VIOLATIONS + 1)))
    try:
        rendered = entry.render(execution.arguments, frozen)
    except UNCONTAINED:
        raise
    except BaseException as error:
        return _invalid(entry, f"output.render failed: {describe_exception(error)}")
    try:
        content = checked_content(rendered)
    except LossyJsonError as error:
        return _invalid(entry, "output.render returned non-lossless JSON", hint=error.message)
    if content is None:
        what = f"expected a list of content blocks, got {type(rendered).__name__}"
        raise ListenerError(f"{entry.name}.output.render", "render", what)
    if entry.presentation_meta is None or execution.parent is not None:
        return ToolSuccess(frozen, content)
    return _with_meta(entry, execution, frozen, ToolSuccess(frozen, content))


def _with_meta(
    entry: RegisteredTool, execution: ToolExecution, value: Any, success: ToolSuccess
) -> ToolSuccess | ToolFailure:
    project = entry.presentation_meta
    assert project is not None
    try:
        meta: Any = project(execution.arguments, value)
    except UNCONTAINED:
        raise
    except BaseException as error:
        return _invalid(entry, f"output.presentationMeta failed: {describe_exception(error)}")
    try:
        return ToolSuccess(value, success.content, snapshot(meta))
    except LossyJsonError as error:
        return _invalid(entry, "output.presentationMeta returned non-lossless JSON", hint=error.message)


def _invalid(entry: RegisteredTool, *violations: str, hint: str | None = None) -> ToolFailure:
    error = ToolOutputError(entry.name, violations)
    message = error.message if hint is None else f"{error.message}\n{hint}"
    return failure(message, ErrorInfo(error.name, error.code), contexts=UNSET)
