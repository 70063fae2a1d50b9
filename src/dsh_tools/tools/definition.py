"""What a tool is: one immutable definition, however it was written."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..content import Content, ContentBlock, text
from ..errors import DefinitionError, InvalidTimeoutError, OutputDeclarationError
from ..json_value import to_json_text
from ..kernel.abort import MAX_TIMEOUT_MS
from ..schema import RawSchema, Schema
from .imported import ImportedBody, place_of

if TYPE_CHECKING:
    from .cards import CallView, ResultView
    from .execution import ToolExecution
    from .result import ToolResult

__all__ = [
    "Isolation",
    "OutputSpec",
    "PresentedResult",
    "ToolDefinition",
    "async_body",
    "check_identity",
    "check_isolation",
    "check_shape",
    "check_timeout",
    "fault_of_limit",
    "render_value",
]

Isolation: TypeAlias = Literal["task", "thread", "process"]
"""Where a body runs: on the caller's task, in a worker thread, or in a process of its own that can be killed."""


def render_value(args: object, value: Any) -> Content:
    """Render a result for the model: strings raw, everything else as pretty JSON."""
    if type(value) is str:
        return text(value)
    if type(value) is int and value.bit_length() < 64:
        return text(int.__repr__(value))
    return text(to_json_text(value, indent=2))


@dataclasses.dataclass(frozen=True, slots=True)
class OutputSpec:
    """What a tool returns and how a model reads it.

    Parameters:
        schema: a compiled schema, or a plain JSON Schema document of the supported subset (PIPE-20).
        render: ``(args, value) -> content blocks``; synchronous and pure (D29).
        presentation_meta: ``(args, value) -> JSON`` kept for cards and replay; synchronous (PIPE-152).
    """

    schema: Schema | RawSchema | Mapping[str, Any]
    render: Callable[[Any, Any], Sequence[ContentBlock]] = render_value
    presentation_meta: Callable[[Any, Any], Any] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PresentedResult:
    """What a result presenter may read: persisted content, the error flag and the presentation meta (PIPE-205)."""

    content: Content
    is_error: bool
    meta: Any = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToolDefinition:
    """One tool, complete and immutable (PIPE-28, D26).

    Usually made by :func:`define_tool` or :func:`tool`; write it out for tools whose JSON Schema
    comes from somewhere else.

    Parameters:
        name: non-empty, without control characters.
        description: what the model reads about the tool.
        parameters: a compiled schema, or a JSON Schema document with an object root.
        output: the output declaration.
        execute: the body, ``(args, run) -> JSON value``; ``async`` unless ``isolation`` says where else it runs.
        finalize_content: last word on the content, ``(execution, result) -> blocks or None`` (PIPE-177).
        timeout_ms: time limit in milliseconds, at most 2147483647, kept by the timeout wrapper (D10); for bodies that
            can be stopped: async ones, and those in processes.
        is_concurrency_safe: ``(args) -> bool``; exactly True lets calls overlap (PIPE-202).
        present_call: ``(args) -> call card or None``, pure (PIPE-205).
        present_result: ``(args, presented) -> result card or None``, pure.
        validate_arguments: False leaves the check of raw JSON Schema parameters to the body (D8).
        check_arguments: further checks after the schema's, ``(args) -> violations`` (custom validators).
        defaults: values for absent arguments, filled in before any policy looks (D43).
        idempotent: the body may be run again after an attempt whose outcome is unknown.
        isolation: where the body runs. With ``"process"`` it is a function at the top level of a module, sync or
            async, which another process finds by its name; there it has no agent and makes no nested calls.
    """

    name: str
    description: str
    parameters: Schema | RawSchema | Mapping[str, Any]
    output: OutputSpec | Mapping[str, Any]
    execute: Callable[[Any, Any], Any]
    finalize_content: Callable[[ToolExecution, ToolResult], Sequence[ContentBlock] | None] | None = None
    timeout_ms: float | None = None
    is_concurrency_safe: Callable[[Any], bool] | None = None
    present_call: Callable[[Any], CallView | None] | None = None
    present_result: Callable[[Any, PresentedResult], ResultView | None] | None = None
    validate_arguments: bool = True
    check_arguments: Callable[[Any], Sequence[str]] | None = None
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    idempotent: bool = False
    isolation: Isolation = "task"


def check_shape(definition: ToolDefinition) -> OutputSpec:
    """Return the definition's output declaration, or raise :class:`OutputDeclarationError` (PIPE-18, D29)."""
    output: object = definition.output
    if isinstance(output, Mapping):
        fields: dict[str, Any] = dict(output)  # pyright: ignore[reportUnknownArgumentType]
        if "schema" in fields and fields.keys() <= {"schema", "render", "presentation_meta"}:
            missing_meta = "presentation_meta" in fields and fields["presentation_meta"] is None
            output = None if missing_meta else OutputSpec(**fields)
    if (
        not isinstance(output, OutputSpec)
        or not callable(output.render)
        or not (output.presentation_meta is None or callable(output.presentation_meta))
    ):
        raise OutputDeclarationError(
            f'tool "{definition.name}" must declare output {{ schema, render, presentationMeta? }}'
        )
    for role, function in (
        ("output.render", output.render),
        ("output.presentation_meta", output.presentation_meta),
        ("finalize_content", definition.finalize_content),
    ):
        if function is not None and inspect.iscoroutinefunction(function):
            raise OutputDeclarationError(
                f'tool "{definition.name}" {role} must be synchronous; '
                "do the waiting in the body and keep what you need in its value"
            )
    return output


def check_timeout(definition: ToolDefinition) -> None:
    """Raise :class:`InvalidTimeoutError` unless the time limit is a positive finite number that can be kept (D44)."""
    limit: object = definition.timeout_ms
    if limit is None:
        return
    fault = fault_of_limit(limit)
    if fault is not None:
        raise InvalidTimeoutError(f'tool "{definition.name}" timeoutMs {fault}')
    if definition.isolation == "thread":
        what = "a synchronous body in a thread cannot be stopped"
    elif definition.isolation == "task" and not _may_wait(definition.execute):
        what = "a body that is not async cannot be stopped"
    else:
        return
    raise InvalidTimeoutError(
        f'tool "{definition.name}" timeoutMs cannot be kept: {what}; '
        'give it isolation="process", which can be killed, or make the body async, '
        "or drop the time limit and poll run.signal"
    )


def fault_of_limit(limit: object) -> str | None:
    """Say what is wrong with a number of milliseconds as a time limit; None where nothing is."""
    if isinstance(limit, bool) or not isinstance(limit, (int, float)):
        return "must be a positive finite number"
    # Before anything else is asked of it: an integer may be too long for a float.
    if limit > MAX_TIMEOUT_MS and limit != math.inf:
        return f"must be at most {MAX_TIMEOUT_MS}"
    return None if math.isfinite(limit) and limit > 0 else "must be a positive finite number"


async def async_body(args: Any, run: Any) -> Any:
    """What a body says it wraps (``functools.wraps``) that is async without being a coroutine function."""


def _may_wait(execute: Any) -> bool:
    """Whether a body on the caller's task can be interrupted: it is async, or wraps a function that is, and says so."""
    while True:
        if isinstance(execute, functools.partial):
            execute = execute.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        elif inspect.iscoroutinefunction(execute) or inspect.iscoroutinefunction(type(execute).__call__):
            return True
        elif hasattr(execute, "__wrapped__"):
            execute = execute.__wrapped__
        else:
            return False


def check_identity(definition: ToolDefinition) -> None:
    """Raise :class:`DefinitionError` for a name or body that cannot be a tool's (D26)."""
    name: object = definition.name
    if not isinstance(name, str) or not name.strip():
        raise DefinitionError(f"a tool's name must be a non-empty string, got {name!r}")
    if any(ord(char) < 32 or 127 <= ord(char) < 160 for char in name):
        raise DefinitionError(f"a tool's name must have no control characters, got {name!r}")
    if not isinstance(definition.description, str):
        raise DefinitionError(f'tool "{name}" description must be a string')
    if not callable(definition.execute):
        raise DefinitionError(f'tool "{name}" execute must be callable')
    check_isolation(name, definition.isolation, definition.execute)


def check_isolation(name: str, isolation: object, execute: Callable[..., Any]) -> None:
    """Raise :class:`DefinitionError` unless a body can run where it is to run."""
    if isolation not in ("task", "thread", "process"):
        raise DefinitionError(f'tool "{name}" isolation must be "task", "thread" or "process", got {isolation!r}')
    if isolation == "process" and callable(execute) and not isinstance(execute, ImportedBody):
        place_of(name, execute)
    if isolation == "thread" and inspect.iscoroutinefunction(execute):
        raise DefinitionError(f'tool "{name}" is async: it runs on its own task, not in a thread; drop isolation')
