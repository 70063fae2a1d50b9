"""``define_tool``: one definition in one place, typed from the classes it names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar, cast, overload

from typing_extensions import Unpack

from .assembly import check_options, check_time_limit, read_arguments, read_output
from .definition import Isolation, ToolDefinition, check_identity, check_isolation, check_shape, check_timeout
from .execution import ToolRunContext
from .imported import ImportedBody, place_of, send_classes
from .typing_aids import DynamicOutput, DynamicParameters, ExactClass, ExactDict, Render, ToolOptions

__all__ = ["define_body", "define_tool"]

_OWN_OPTIONS = ("render", "presentation_meta", "isolation", "timeout_ms", "validate_arguments")
A = TypeVar("A")
R = TypeVar("R")


@overload
def define_tool(
    *,
    name: str,
    description: str,
    parameters: type[A] | DynamicParameters,
    output: ExactClass[R],
    execute: Callable[[A, ToolRunContext], Awaitable[R]],
    render: Render[A, R] | None = None,
    presentation_meta: Callable[[A, R], Any] | None = None,
    isolation: Literal["task"] = "task",
    timeout_ms: float | None = None,
    validate_arguments: bool = True,
    **options: Unpack[ToolOptions[A]],
) -> ToolDefinition: ...
@overload
def define_tool(
    *,
    name: str,
    description: str,
    parameters: type[A] | DynamicParameters,
    output: ExactDict[R],
    execute: Callable[[A, ToolRunContext], Awaitable[R]],
    render: Render[A, R] | None = None,
    presentation_meta: Callable[[A, R], Any] | None = None,
    isolation: Literal["task"] = "task",
    timeout_ms: float | None = None,
    validate_arguments: bool = True,
    **options: Unpack[ToolOptions[A]],
) -> ToolDefinition: ...
@overload
def define_tool(
    *,
    name: str,
    description: str,
    parameters: type[A] | DynamicParameters,
    output: None,
    execute: Callable[[A, ToolRunContext], Awaitable[None]],
    render: Render[A, None] | None = None,
    presentation_meta: Callable[[A, None], Any] | None = None,
    isolation: Literal["task"] = "task",
    timeout_ms: float | None = None,
    validate_arguments: bool = True,
    **options: Unpack[ToolOptions[A]],
) -> ToolDefinition: ...
@overload
def define_tool(
    *,
    name: str,
    description: str,
    parameters: type[A] | DynamicParameters,
    output: DynamicOutput,
    execute: Callable[[A, ToolRunContext], Awaitable[Any]],
    render: Render[A, Any] | None = None,
    presentation_meta: Callable[[A, Any], Any] | None = None,
    isolation: Literal["task"] = "task",
    timeout_ms: float | None = None,
    validate_arguments: bool = True,
    **options: Unpack[ToolOptions[A]],
) -> ToolDefinition: ...
@overload
def define_tool(
    *,
    name: str,
    description: str,
    parameters: type[A] | DynamicParameters,
    output: ExactClass[R],
    execute: Callable[[A, ToolRunContext], R],
    render: Render[A, R] | None = None,
    presentation_meta: Callable[[A, R], Any] | None = None,
    isolation: Literal["thread"],
    validate_arguments: bool = True,
    **options: Unpack[ToolOptions[A]],
) -> ToolDefinition: ...
@overload
def define_tool(
    *,
    name: str,
    description: str,
    parameters: type[A] | DynamicParameters,
    output: ExactDict[R],
    execute: Callable[[A, ToolRunContext], R],
    render: Render[A, R] | None = None,
    presentation_meta: Callable[[A, R], Any] | None = None,
    isolation: Literal["thread"],
    validate_arguments: bool = True,
    **options: Unpack[ToolOptions[A]],
) -> ToolDefinition: ...
@overload
def define_tool(
    *,
    name: str,
    description: str,
    parameters: type[A] | DynamicParameters,
    output: DynamicOutput | None,
    execute: Callable[[A, ToolRunContext], Any],
    render: Render[A, Any] | None = None,
    presentation_meta: Callable[[A, Any], Any] | None = None,
    isolation: Literal["thread"],
    validate_arguments: bool = True,
    **options: Unpack[ToolOptions[A]],
) -> ToolDefinition: ...
@overload
def define_tool(
    *,
    name: str,
    description: str,
    parameters: type[A] | DynamicParameters,
    output: ExactClass[R] | ExactDict[R],
    execute: Callable[[A, ToolRunContext], R] | Callable[[A, ToolRunContext], Awaitable[R]],
    render: Render[A, R] | None = None,
    presentation_meta: Callable[[A, R], Any] | None = None,
    isolation: Literal["process"],
    timeout_ms: float | None = None,
    validate_arguments: bool = True,
    **options: Unpack[ToolOptions[A]],
) -> ToolDefinition: ...
@overload
def define_tool(
    *,
    name: str,
    description: str,
    parameters: type[A] | DynamicParameters,
    output: DynamicOutput | None,
    execute: Callable[[A, ToolRunContext], Any],
    render: Render[A, Any] | None = None,
    presentation_meta: Callable[[A, Any], Any] | None = None,
    isolation: Literal["process"],
    timeout_ms: float | None = None,
    validate_arguments: bool = True,
    **options: Unpack[ToolOptions[A]],
) -> ToolDefinition: ...
def define_tool(
    *,
    name: str,
    description: str,
    parameters: Any,
    output: Any,
    execute: Callable[[Any, Any], Any],
    render: Any = None,
    presentation_meta: Any = None,
    isolation: Isolation = "task",
    timeout_ms: float | None = None,
    validate_arguments: bool = True,
    **options: Any,
) -> ToolDefinition:
    """Define a tool from its parts; everything is compiled here, once (SCHEMA-E2).

    Parameters:
        name: what the model calls it.
        description: what the model reads about it.
        parameters: a TypedDict, dataclass, ``msgspec.Struct`` or pydantic class, whose instance the body
            gets; or a map of the schema DSL, a compiled schema or a ``RawSchema``: then the body gets the
            frozen JSON arguments.
        output: a type; or a value spec of the DSL, a compiled schema, a ``RawSchema``, an ``OutputSpec``, or
            a mapping of ``schema``, ``render`` and ``presentation_meta``. None is the type of None.
        execute: the body, ``async (args, run) -> value``.
        render: ``(args, value) -> content blocks``; the default shows strings raw and everything else as
            JSON. It gets the Python forms of both.
        presentation_meta: ``(args, value) -> JSON`` kept for cards and replay (PIPE-152).
        isolation: ``"thread"`` for a body that is not async: it runs in a worker thread. ``"process"`` for a body,
            sync or async, that runs in a process of its own, which is killed when the call has to stop: it is a
            function at the top level of a module, and so are the classes of its parameters and output.
        timeout_ms: time limit in milliseconds, kept by the timeout wrapper (D10).
        validate_arguments: False leaves the check of raw JSON Schema parameters to the body (D8).
        options: ``finalize_content``, ``is_concurrency_safe`` (a boolean, or a function of the arguments),
            ``present_call``, ``present_result``, ``idempotent``: as on :class:`ToolDefinition`, but with
            the body's form of the arguments. Presenters see no arguments that don't fit (PIPE-206).

    Raises:
        InvalidTimeoutError: the time limit is not a positive finite number, or cannot be kept (D44, SCHEMA-E1).
        DefinitionError: a part is missing, contradicts another, or has no JSON form.
        JsonSchemaError: a DSL spec or a schema is wrong.
        TypeError: an option is unknown.
    """
    owner = f"define_tool({name})"
    check_options(owner, options, _OWN_OPTIONS)
    check_isolation(name, isolation, execute)
    check_time_limit(owner, timeout_ms)
    frame = inspect.currentframe()
    names = {} if frame is None or frame.f_back is None else frame.f_back.f_locals
    arguments = read_arguments(parameters, names)
    result = read_output(owner, output, render, presentation_meta, names)
    safe = options.pop("is_concurrency_safe", False)
    present_call = arguments.presenter(options.pop("present_call", None))
    present_result = arguments.presenter(options.pop("present_result", None))
    encode = result.encoder(name)
    body = _body(execute, arguments.convert, encode, isolation)
    if isolation == "process":
        shape: object = output
        if isinstance(output, Mapping):
            shape = cast("Mapping[str, object]", output).get("schema", shape)
        needed = (None if arguments.convert is None else parameters, None if encode is None else shape)
        classes = b"" if body is execute else send_classes(name, *needed)
        body = ImportedBody(place_of(name, execute, "typed" if classes else "plain", classes), execute, body)
    definition = ToolDefinition(
        name=name,
        description=description,
        parameters=arguments.schema,
        output=result.spec(arguments),
        execute=body,
        is_concurrency_safe=arguments.classifier(safe),
        present_call=present_call,
        present_result=present_result,
        timeout_ms=timeout_ms,
        validate_arguments=validate_arguments,
        check_arguments=arguments.check,
        defaults=arguments.defaults,
        isolation=isolation,
        **options,
    )
    check_identity(definition)
    check_shape(definition)
    check_timeout(definition)
    return definition


def _body(
    execute: Callable[[Any, Any], Any],
    convert: Callable[[Any], Any] | None,
    encode: Callable[[Any], Any] | None,
    isolation: Isolation,
) -> Callable[[Any, Any], Any]:
    """Put the conversions around a body; a body that needs none is called by the pipeline itself."""
    if not callable(execute) or (convert is None and encode is None):
        return execute
    if isolation == "process":
        return define_body(execute, convert, encode)
    if encode is None:
        # It says whose body it is: whether that one is async decides about time limits.
        @functools.wraps(execute, assigned=(), updated=())
        def passed(args: Any, run: Any) -> Any:
            return execute(args if convert is None else convert(args), run)

        return passed
    if isolation == "thread":

        def encoded(args: Any, run: Any) -> Any:
            return encode(execute(args if convert is None else convert(args), run))

        return encoded

    async def awaited(args: Any, run: Any) -> Any:
        value = execute(args if convert is None else convert(args), run)
        return encode(await value if inspect.isawaitable(value) else value)

    return awaited


def define_body(
    execute: Callable[[Any, Any], Any],
    convert: Callable[[Any], Any] | None,
    encode: Callable[[Any], Any] | None,
) -> Callable[[Any, Any], Any]:
    """Put the conversions around a body that may be sync or async; what it gives is awaited where it can be."""

    async def awaited(value: Awaitable[Any]) -> Any:
        outcome = await value
        return outcome if encode is None else encode(outcome)

    def body(args: Any, run: Any) -> Any:
        value = execute(args if convert is None else convert(args), run)
        if inspect.isawaitable(value):
            return awaited(value)
        return value if encode is None else encode(value)

    return body
