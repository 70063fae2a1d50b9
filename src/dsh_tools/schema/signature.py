"""Reading a plain function: what a model is told about it, and how its arguments arrive.

Parameters become one closed object, by name. A parameter that the host supplies, such as the run
context, is left out; a model that sends its name is refused like any unknown key.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from ..errors import DefinitionError
from .types.annotations import unwrap
from .types.docstrings import DocText, read_docstring
from .types.finish import typed_record, typed_schema
from .types.foreign import is_field_info
from .types.hints import UNRESOLVED, resolve
from .types.metadata import NOTHING, Metadata
from .types.records import Field, Record
from .types.refusals import refuse
from .types.sources import json_default
from .types.translator import Translator
from .types.typed_schema import TypedSchema

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

__all__ = ["FunctionSignature", "read_signature"]

IsInjected = Callable[[Any], bool]
"""Whether an annotation marks a parameter that the host supplies.

It gets the type, or the text of an annotation whose names cannot be resolved at run time.
"""


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """What a function says about itself.

    Parameters:
        name: the function's name.
        description: its docstring without the sections on parameters and errors.
        parameters: the arguments object; its ``load`` gives the keyword arguments as a dict.
        output: the return value; any JSON where the function does not say.
        injected: names of the parameters that the host supplies.
        is_async: whether calling it gives an awaitable.
    """

    name: str
    description: str
    parameters: TypedSchema
    output: TypedSchema
    injected: tuple[str, ...]
    is_async: bool


def read_signature(
    fn: Callable[..., Any],
    *,
    is_injected: IsInjected = lambda annotation: False,
    name: str | None = None,
    description: str | None = None,
    names: Mapping[str, Any] | None = None,
) -> FunctionSignature:
    """Read a function, method or callable object.

    Parameters:
        is_injected: tells parameters that the host supplies; they are not part of the schema.
        name: used instead of the function's own; a lambda has none.
        description: used instead of the docstring's.
        names: local names that annotations may use, for functions defined inside functions.

    Raises:
        DefinitionError: a parameter cannot be sent as JSON by name; the message names it and says
            what to write instead.
    """
    reader = _Reader(fn, dict(names or {}), is_injected)
    docs = read_docstring(reader.docstring)
    fields, injected, translator = reader.parameters(docs)
    return FunctionSignature(
        name=reader.name() if name is None else name,
        description=docs.description if description is None else description,
        parameters=typed_record(Record(fields, None, _never, _is_dict, fill=True), translator, "parameters"),
        output=reader.output(),
        injected=tuple(injected),
        is_async=reader.is_async(),
    )


class _Reader:
    def __init__(self, fn: Callable[..., Any], names: dict[str, Any], is_injected: IsInjected) -> None:
        self.fn = fn
        self.names = names
        self.is_injected = is_injected
        self.plain = _plain_function(fn)
        self.module: Mapping[str, Any] = getattr(self.plain, "__globals__", {})
        try:
            self.signature = inspect.signature(fn)
        except (TypeError, ValueError) as error:
            raise DefinitionError(f"{fn!r} has no readable signature ({error}); wrap it in a function") from None
        if inspect.isgeneratorfunction(self.plain) or inspect.isasyncgenfunction(self.plain):
            raise DefinitionError(f"{self.name()} is a generator; a tool returns one value: return a list")

    @property
    def docstring(self) -> str | None:
        doc = self.plain.__doc__
        return doc if doc or inspect.isroutine(self.fn) else type(self.fn).__doc__

    def name(self) -> str:
        name = getattr(self.fn, "__name__", None) or getattr(_unpartial(self.fn), "__name__", None)
        if not isinstance(name, str) or name == "<lambda>":
            raise DefinitionError(f"{self.fn!r} has no name of its own; give one: name=...")
        return name

    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.plain) or get_origin(self._returned()) in _AWAITABLES

    def parameters(self, docs: DocText) -> tuple[list[Field], list[str], Translator]:
        translator = Translator(names=self.names)
        fields: list[Field] = []
        injected: list[str] = []
        for parameter in self.signature.parameters.values():
            where = f'parameter "{parameter.name}"'
            annotation = self._annotation(parameter, where)
            if self.is_injected(annotation):
                injected.append(parameter.name)
                continue
            _check_kind(parameter, where)
            if annotation is inspect.Parameter.empty:
                raise _unannotated(parameter.name, where)
            fields.append(_field(parameter, annotation, docs, translator, where))
        _check_keys(fields)
        translator.note_defaults(fields, lambda name: f'parameter "{name}"')
        return fields, injected, translator

    def _annotation(self, parameter: inspect.Parameter, where: str) -> Any:
        annotation = parameter.annotation
        if annotation is inspect.Parameter.empty:
            return annotation
        try:
            return resolve(annotation, self.module, self.names)
        except UNRESOLVED as error:
            # A context type is often imported for type checking only.
            if isinstance(annotation, str) and self.is_injected(annotation):
                return annotation
            raise _unresolved(where, error) from None

    def _returned(self) -> Any:
        annotation = self.signature.return_annotation
        if annotation is inspect.Signature.empty:
            return Any
        try:
            return resolve(annotation, self.module, self.names)
        except UNRESOLVED as error:
            raise _unresolved("return value", error) from None

    def output(self) -> TypedSchema:
        returned = self._returned()
        if get_origin(returned) in _AWAITABLES:
            returned = get_args(returned)[-1]
        translator = Translator(output=True, names=self.names)
        return typed_schema(translator.shape(returned, "return value"), translator, "return value")


_AWAITABLES = (Awaitable, Coroutine)


def _field(parameter: inspect.Parameter, annotation: Any, docs: DocText, translator: Translator, where: str) -> Field:
    given = unwrap(annotation)
    metadata = given.metadata
    default = NOTHING if parameter.default is inspect.Parameter.empty else parameter.default
    if is_field_info(default):
        # The form `count: int = Field(3, ge=1)`: the default itself is inside.
        given = unwrap(_with_field(annotation, default))
        metadata, default = given.metadata, NOTHING
    if metadata.description is None and parameter.name in docs.parameters:
        metadata = replace(metadata, description=docs.parameters[parameter.name])
    default, optional = _default_of(default, metadata, where)
    shape = translator.unwrapped(given, where)
    advertised = json_default(default, shape, where)
    key = metadata.alias or parameter.name
    return Field(parameter.name, key, shape, not (optional or given.may_be_unset), metadata, advertised)


def _with_field(annotation: Any, item: FieldInfo) -> Any:
    return Annotated[annotation, item]


def _default_of(default: Any, metadata: Metadata, where: str) -> tuple[Any, bool]:
    """Return the default and whether the parameter may be left out."""
    if default is NOTHING:
        default = metadata.default
    if default is not NOTHING:
        return default, True
    factory = metadata.default_factory
    if factory is None:
        return NOTHING, False
    if factory in (list, dict):
        return ([] if factory is list else {}), True
    raise refuse(where, "a default factory cannot be told to a model", "use None, and make the value in the body")


def _check_kind(parameter: inspect.Parameter, where: str) -> None:
    kind = parameter.kind
    if kind is inspect.Parameter.VAR_POSITIONAL:
        raise refuse(where, "a tool has no *args", f"use {parameter.name}: list[T]")
    if kind is inspect.Parameter.VAR_KEYWORD:
        raise refuse(where, "a tool has no **kwargs", f"use {parameter.name}: dict[str, T]")
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        raise refuse(where, "arguments are sent by name, and it is positional-only", 'remove the "/"')


def _check_keys(fields: list[Field]) -> None:
    seen: dict[str, str] = {}
    for item in fields:
        if item.key in seen:
            raise refuse(
                f'parameter "{item.name}"',
                f'"{seen[item.key]}" has the name "{item.key}" too',
                "give each its own alias",
            )
        seen[item.key] = item.name


def _unannotated(name: str, where: str) -> DefinitionError:
    if name in ("self", "cls"):
        return refuse(where, "a method needs its object", "make the tool from the bound method, or from a function")
    return refuse(where, "it has no annotation", "annotate it; Any takes any JSON value")


def _unresolved(where: str, error: Exception) -> DefinitionError:
    return refuse(
        where,
        f"its annotation cannot be resolved: {error}",
        "import the name at module level, not only for type checking",
    )


def _unpartial(fn: Any) -> Any:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _plain_function(fn: Any) -> Any:
    """Return the function that holds the code: behind partials, decorators, methods and callable objects."""
    plain: Any = inspect.unwrap(_unpartial(fn))
    if inspect.isroutine(plain):
        return plain
    return type(plain).__call__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _never(value: Any, name: str) -> Any:
    return NOTHING


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)
