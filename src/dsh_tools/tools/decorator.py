"""``@tool``: a plain function as a tool."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import UnionType
from typing import Annotated, Any, Generic, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, overload

from typing_extensions import Unpack

from ..errors import DefinitionError, InvalidTimeoutError
from ..schema import FunctionSignature, read_signature
from .assembly import Arguments, Output, check_options, check_time_limit
from .definition import Isolation, OutputSpec, ToolDefinition, async_body, check_identity, check_shape, render_value
from .execution import ToolExecution, ToolRunContext
from .imported import ImportedBody, place_of
from .typing_aids import Render, ToolOptions

__all__ = ["FunctionTool", "tool"]

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_CONTEXTS = (ToolRunContext, ToolExecution)
_WRAPPERS = (Union, UnionType, Annotated)
_OWN_OPTIONS = ("name", "description", "render", "presentation_meta", "timeout_ms", "isolation", "run_in_thread")
_CONTEXT_NAMES = frozenset(context.__name__ for context in _CONTEXTS)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FunctionTool(ToolDefinition, Generic[P, R_co]):
    """A tool made from a function; calling it calls the function, as if it had never been decorated.

    Parameters:
        fn: the function.
    """

    fn: Callable[P, R_co]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function directly: no pipeline, no policy, no checks."""
        return self.fn(*args, **kwargs)

    @property
    def __wrapped__(self) -> Callable[P, R_co]:
        """The function, for ``inspect`` and documentation tools."""
        return self.fn


@overload
def tool(fn: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    render: Render[dict[str, Any], Any] | None = None,
    presentation_meta: Callable[[dict[str, Any], Any], Any] | None = None,
    timeout_ms: float | None = None,
    isolation: Literal["process"] | None = None,
    run_in_thread: bool | None = None,
    **options: Unpack[ToolOptions[dict[str, Any]]],
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    render: Render[dict[str, Any], Any] | None = None,
    presentation_meta: Callable[[dict[str, Any], Any], Any] | None = None,
    timeout_ms: float | None = None,
    isolation: Literal["process"] | None = None,
    run_in_thread: bool | None = None,
    **options: Any,
) -> Any:
    """Make a tool from a function, as a decorator with or without options, or called on a function.

    Name and description come from the function and its docstring, parameters from its annotations,
    the output from its return annotation. A parameter annotated :class:`ToolRunContext` is supplied by
    the pipeline and not shown to the model; everything else is one closed object. Defaults are filled
    in before any policy looks (D43), and no two calls share one.

    An async function runs on the caller's task. Any other runs in a worker thread. With ``isolation="process"``
    both run in a process of their own, which is killed when the call has to stop.

    Parameters:
        name, description: instead of the function's own.
        render: ``(arguments, value) -> content blocks``; the default shows strings raw and everything
            else as JSON. Arguments are a dict by parameter name.
        presentation_meta: ``(arguments, value) -> JSON`` kept for cards and replay (PIPE-152).
        timeout_ms: time limit in milliseconds; only for async functions and processes, a function in a thread
            cannot be stopped (D44).
        isolation: ``"process"`` for a function at the top level of a module, which another process finds by name.
            Arguments, value and progress cross as JSON; ``run.agent`` is None there. It costs a start each time.
        run_in_thread: False runs a function that is not async on the event loop's thread, for libraries
            that are tied to one thread; everything else waits meanwhile.
        options: ``finalize_content``, ``is_concurrency_safe`` (a boolean, or a function of the arguments),
            ``present_call``, ``present_result``, ``idempotent``: as on :class:`ToolDefinition`.

    Raises:
        DefinitionError: a parameter cannot be sent as JSON by name; the message names it and says what to
            write instead.
        InvalidTimeoutError: the time limit is not a positive finite number, or cannot be kept.
        TypeError: an option is unknown.
    """
    check_options("@tool", options, _OWN_OPTIONS)
    frame = inspect.currentframe()
    names = {} if frame is None or frame.f_back is None else dict(frame.f_back.f_locals)

    def decorate(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return _function_tool(
            function, names, name, description, render, presentation_meta, timeout_ms, isolation, run_in_thread, options
        )

    return decorate if fn is None else decorate(fn)


def _function_tool(
    fn: Callable[..., Any],
    names: Mapping[str, Any],
    name: str | None,
    description: str | None,
    render: Render[dict[str, Any], Any] | None,
    presentation_meta: Callable[[dict[str, Any], Any], Any] | None,
    timeout_ms: float | None,
    isolation: object,
    run_in_thread: bool | None,
    options: Mapping[str, Any],
) -> FunctionTool[..., Any]:
    if not callable(fn):
        raise DefinitionError(f"@tool takes a function, got {fn!r}; options are given by name: @tool(name=...)")
    owner = f"tool({name or getattr(fn, '__name__', fn)})"
    check_time_limit(owner, timeout_ms)
    signature = read_signature(fn, is_injected=_is_context, name=name, description=description, names=names)
    where = _isolation(signature, isolation, run_in_thread, timeout_ms)
    arguments = Arguments(signature.parameters)
    result = Output(OutputSpec(signature.output, render or render_value, presentation_meta))
    rest = dict(options)
    definition: FunctionTool[..., Any] = FunctionTool(
        name=signature.name,
        description=signature.description,
        parameters=arguments.schema,
        output=result.spec(arguments),
        execute=_placed(where, fn, signature.name, _body(fn, signature, result.encoder(signature.name))),
        is_concurrency_safe=arguments.classifier(rest.pop("is_concurrency_safe", False)),
        present_call=arguments.presenter(rest.pop("present_call", None)),
        present_result=arguments.presenter(rest.pop("present_result", None)),
        timeout_ms=timeout_ms,
        check_arguments=arguments.check,
        defaults=arguments.defaults,
        isolation=where,
        fn=fn,
        **rest,
    )
    check_identity(definition)
    check_shape(definition)
    return definition


def _is_context(annotation: Any) -> bool:
    """Whether an annotation means the run context; its name is enough where it is imported for type checking only."""
    if isinstance(annotation, str):
        parts = {part.strip(" '\"").rpartition(".")[2] for part in annotation.split("|")}
        return bool(parts & _CONTEXT_NAMES)
    if get_origin(annotation) in _WRAPPERS:
        return any(part in _CONTEXTS for part in get_args(annotation))
    return annotation in _CONTEXTS


def _isolation(
    signature: FunctionSignature, isolation: object, run_in_thread: bool | None, timeout_ms: float | None
) -> Isolation:
    name = signature.name
    if isolation is not None:
        if isolation != "process":
            raise DefinitionError(f'tool "{name}" isolation must be "process" or left out, got {isolation!r}')
        if run_in_thread is not None:
            raise DefinitionError(f'tool "{name}" runs in a process; drop run_in_thread')
        return "process"
    if signature.is_async:
        if run_in_thread:
            raise DefinitionError(
                f'tool "{name}" is async: it runs on its own task, not in a thread; drop run_in_thread'
            )
        return "task"
    if timeout_ms is not None:
        raise InvalidTimeoutError(
            f'tool "{name}" timeout_ms cannot be kept: a function that is not async cannot be stopped; '
            'give it isolation="process", which can be killed, or make it async, '
            "or drop the time limit and poll run.signal"
        )
    return "task" if run_in_thread is False else "thread"


def _placed(where: Isolation, fn: Callable[..., Any], name: str, body: Callable[[Any, Any], Any]) -> Any:
    return ImportedBody(place_of(name, fn, "function"), fn, body) if where == "process" else body


def _body(
    fn: Callable[..., Any], signature: FunctionSignature, encode: Callable[[Any], Any] | None
) -> Callable[[Any, Any], Any]:
    """Return the pipeline's body: keyword arguments from JSON, the value to JSON."""
    load = signature.parameters.load
    injected = signature.injected

    # It says what it wraps: whether that is async decides about time limits. An annotation may say so, too.
    @functools.wraps(async_body if signature.is_async else fn, assigned=(), updated=())
    def call(args: Any, run: Any) -> Any:
        found: dict[str, Any] = load(args, "")
        for name in injected:
            found[name] = run
        return fn(**found)

    if encode is None:
        return call
    if not signature.is_async:
        return lambda args, run: encode(call(args, run))

    async def awaited(args: Any, run: Any) -> Any:
        value: Awaitable[Any] = call(args, run)
        return encode(await value)

    return awaited
