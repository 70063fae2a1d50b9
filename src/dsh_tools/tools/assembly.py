"""Putting a definition together from typed parts: what the pipeline calls speaks JSON, what authors write need not."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from ..errors import (
    DefinitionError,
    InvalidTimeoutError,
    JsonSchemaError,
    LossyJsonError,
    OutputDeclarationError,
    ToolArgsError,
    ToolOutputError,
)
from ..json_value import FrozenDict, snapshot
from ..schema import RawSchema, Schema, TypedSchema, compile_parameters, compile_raw, compile_value, from_types
from .definition import OutputSpec, fault_of_limit, render_value
from .typing_aids import ToolOptions

__all__ = [
    "Arguments",
    "Output",
    "SafeIfValid",
    "check_options",
    "check_time_limit",
    "read_arguments",
    "read_output",
]

_NO_DEFAULTS: Mapping[str, Any] = FrozenDict()
_OPTIONS = frozenset(ToolOptions.__annotations__)
_IS_DOCUMENT = (
    "a mapping is read as the schema DSL, which has one entry for each parameter; "
    "a JSON Schema goes into RawSchema(...)"
)


class Arguments:
    """The arguments side of a tool: the schema, and how admitted JSON becomes what the body gets."""

    __slots__ = ("convert", "defaults", "schema", "typed")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.typed: TypedSchema | None = schema if isinstance(schema, TypedSchema) else None
        self.defaults: Mapping[str, Any] = _NO_DEFAULTS if self.typed is None else self.typed.defaults
        self.convert: Callable[[Any], Any] | None = None
        if self.typed is not None and self.typed.loads:
            load = self.typed.load
            self.convert = lambda args: load(args, "")

    @property
    def check(self) -> Callable[[Any], Sequence[str]] | None:
        """What the type refuses beyond its schema, as a definition's ``check_arguments``."""
        typed = self.typed
        if typed is None or not typed.may_refuse:
            return None
        return lambda args: typed.refusals(args, "")

    def read(self, args: Any) -> Any:
        """Return the body's form of arguments that nobody has checked yet, for presenters and classifiers.

        Raises:
            ToolArgsError: they do not fit the schema, or the type refuses them.
        """
        frozen = self._admitted(args)
        return frozen if self.convert is None else self.convert(frozen)

    def _admitted(self, args: Any) -> Any:
        try:
            frozen: Any = snapshot(args)
        except LossyJsonError as error:
            raise ToolArgsError([error.message]) from error
        if self.defaults and isinstance(frozen, dict):
            frozen = FrozenDict({**frozen, **{k: v for k, v in self.defaults.items() if k not in frozen}})
        if not self.schema.accepts(frozen):
            raise ToolArgsError(self.schema.violations(frozen, ""))
        return frozen

    def _fits(self, args: Any) -> bool:
        frozen = self._admitted(args)
        return self.typed is None or not self.typed.refusals(frozen, "")

    def presenter(self, present: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Wrap a presenter: no view for arguments that do not fit; its own failures go through (PIPE-206, 207)."""
        if present is None:
            return None

        def presented(args: Any, *rest: Any) -> Any:
            try:
                given = self.read(args)
            except ToolArgsError:
                return None
            return present(given, *rest)

        return presented

    def classifier(self, safe: bool | Callable[[Any], bool]) -> Callable[[Any], bool] | None:
        """Wrap a concurrency classifier: arguments that do not fit are not safe (SCHEMA-E3)."""
        if safe is False:
            return None
        if safe is not True and not callable(safe):
            raise DefinitionError(f"is_concurrency_safe must be a boolean or a function of the arguments, got {safe!r}")

        if safe is True:
            return SafeIfValid(self._fits)

        def classified(args: Any) -> bool:
            try:
                return safe(self.read(args))
            except ToolArgsError:
                return False

        return classified


class SafeIfValid:
    """Classifies each call whose arguments are valid as safe.

    Whoever validates a call anyway knows the verdict by that, and need not ask.
    """

    __slots__ = ("_fits",)

    def __init__(self, fits: Callable[[Any], bool]) -> None:
        self._fits = fits

    def __call__(self, args: Any) -> bool:
        """Whether the arguments are valid, and the call hence safe."""
        try:
            return self._fits(args)
        except ToolArgsError:
            return False


class Output:
    """The output side of a tool: its declaration, and how what a body returned becomes JSON."""

    __slots__ = ("declared", "typed")

    def __init__(self, declared: OutputSpec) -> None:
        self.declared = declared
        self.typed: TypedSchema | None = declared.schema if isinstance(declared.schema, TypedSchema) else None

    def encoder(self, name: str) -> Callable[[Any], Any] | None:
        """Return the conversion of returned values, None where they are JSON already."""
        typed = self.typed
        if typed is None or not typed.dumps:
            return None
        encode = typed.encode

        def encoded(value: Any) -> Any:
            try:
                return encode(value)
            except LossyJsonError as error:
                raise ToolOutputError(name, [f"value is not lossless JSON\n{error.message}"]) from error

        return encoded

    def spec(self, arguments: Arguments) -> OutputSpec:
        """Return the declaration for the pipeline: its functions get JSON and hand on what authors expect."""
        declared = self.declared
        return OutputSpec(
            declared.schema,
            self._projector(declared.render, arguments),
            None if declared.presentation_meta is None else self._projector(declared.presentation_meta, arguments),
        )

    def _projector(self, project: Callable[[Any, Any], Any], arguments: Arguments) -> Callable[[Any, Any], Any]:
        convert = arguments.convert
        typed = self.typed
        load = typed.load if typed is not None and typed.loads else None
        if project is render_value or not callable(project) or (convert is None and load is None):
            return project
        if inspect.iscoroutinefunction(project):
            # Left as it is, so that registration sees what it is and refuses it (D29).
            return project

        def projected(args: Any, value: Any) -> Any:
            given = args if convert is None else convert(args)
            return project(given, value if load is None else load(value))

        return projected


def check_options(owner: str, options: Mapping[str, Any], others: Iterable[str]) -> None:
    """Refuse an option that no tool has, and name the one that was probably meant.

    Parameters:
        owner: how the error calls the function that takes the options.
        options: what was given beside its own parameters.
        others: the names of its own parameters.

    Raises:
        TypeError: an option is unknown.
    """
    for name in options:
        if name not in _OPTIONS:
            known = sorted({*_OPTIONS, *others})
            close = difflib.get_close_matches(name, known, n=1)
            hint = f'did you mean "{close[0]}"?' if close else f"its options are {', '.join(known)}"
            raise TypeError(f'{owner} has no option "{name}"; {hint}')


def check_time_limit(owner: str, timeout_ms: object) -> None:
    """Refuse a time limit that is no positive finite number, or too long, before anything is compiled (SCHEMA-E1)."""
    if timeout_ms is None:
        return
    fault = fault_of_limit(timeout_ms)
    if fault is not None:
        raise InvalidTimeoutError(f"{owner}: timeout_ms {fault}")


def read_arguments(parameters: Any, names: Mapping[str, Any]) -> Arguments:
    """Compile parameters in any of their forms: a class, the DSL, a compiled or a raw schema.

    Raises:
        DefinitionError: a class has no JSON form, or its values are not objects.
        JsonSchemaError: a DSL map or a raw schema is wrong.
    """
    if isinstance(parameters, Schema):
        return Arguments(parameters)
    if isinstance(parameters, RawSchema):
        return Arguments(compile_raw(parameters))
    if isinstance(parameters, Mapping):
        return Arguments(_compile_map(cast("Mapping[str, Any]", parameters)))
    schema = from_types(parameters, name="parameters", names=names)
    if schema.json.get("type") != "object":
        raise DefinitionError(
            f"parameters: {parameters!r} is not sent as an object; "
            "use a TypedDict, dataclass, msgspec.Struct or pydantic model"
        )
    return Arguments(schema)


def _compile_map(parameters: Mapping[str, Any]) -> Schema:
    try:
        return compile_parameters(parameters)
    except JsonSchemaError as error:
        if isinstance(parameters.get("type"), str) and "properties" in parameters:
            raise JsonSchemaError([f"{error.violations[0]}\n{_IS_DOCUMENT}", *error.violations[1:]]) from None
        raise


def read_output(
    owner: str,
    output: Any,
    render: Callable[[Any, Any], Any] | None,
    presentation_meta: Callable[[Any, Any], Any] | None,
    names: Mapping[str, Any],
) -> Output:
    """Compile an output in any of its forms: a type, a DSL value spec, a compiled or raw schema, an OutputSpec.

    Raises:
        DefinitionError: a type has no JSON form, or the renderer is given twice.
        JsonSchemaError: a DSL spec is wrong.
    """
    functions: dict[str, Any] = {"render": render, "presentation_meta": presentation_meta}
    given = {role: function for role, function in functions.items() if function is not None}
    if isinstance(output, OutputSpec):
        if given:
            raise DefinitionError(f"{owner}: {' and '.join(given)} belong into the OutputSpec that output already is")
        return Output(output)
    if isinstance(output, Mapping) and "schema" in output:
        declared: dict[str, Any] = dict(cast("Mapping[str, Any]", output))
        unknown = declared.keys() - {"schema", "render", "presentation_meta"}
        if unknown or given.keys() & declared.keys():
            raise OutputDeclarationError(f"{owner}: output must be {{ schema, render, presentation_meta }}, each once")
        given.update((role, declared[role]) for role in functions if role in declared)
        output = declared["schema"]
    return Output(OutputSpec(_output_schema(output, names), **given))


def _output_schema(output: Any, names: Mapping[str, Any]) -> Schema:
    if isinstance(output, Schema):
        return output
    if isinstance(output, RawSchema):
        return compile_raw(output)
    if isinstance(output, Mapping):
        return compile_value(cast("object", output))
    return from_types(output, name="output", output=True, names=names)
