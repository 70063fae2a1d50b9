"""From a Python type to its shape: the one place that knows which types there are."""

from __future__ import annotations

import enum
import typing
from collections import abc
from collections.abc import Callable, Mapping
from typing import Any, ForwardRef, Literal, LiteralString, TypeVar, Union, get_args, get_origin

import typing_extensions

from ... import json_value
from .annotations import UNION_ORIGINS, Unwrapped, unwrap
from .codec import Codec, Fault, Shape
from .containers import list_shape, map_shape, tuple_shape
from .documents import reference, rename_references
from .foreign import is_pydantic_json, is_pydantic_type
from .guards import is_class
from .hints import ANY_JSON, UNRESOLVED, resolve
from .metadata import Metadata, annotate, constrain
from .records import Field, construct, record_shape
from .refusals import refuse, type_name, unsupported
from .scalars import SCALARS, any_shape, enum_shape, literal_shape
from .sources import FieldReader, record_reader
from .unions import UnionPlan, union_shape

__all__ = ["Translator"]

# Translation recurses over types, and each level takes up to ten frames.
_MAX_DEPTH = 64
_BARE = (Literal, Union)
_LISTS = frozenset({list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection})
_MAPS = frozenset({dict, abc.Mapping, abc.MutableMapping})
# From Python 3.12 on the standard library has a class of its own for ``type X = ...``.
_ALIASES = (typing_extensions.TypeAliasType, getattr(typing, "TypeAliasType", typing_extensions.TypeAliasType))


class Translator:
    """Translates types; one translator makes one document.

    Classes with fields become definitions, by reference, so that a type may contain itself;
    ``documents.settle`` puts the others in place afterwards.

    Parameters:
        output: whether the schema describes what a body returns.
        names: local names that annotations may use.

    While it works it gathers ``definitions`` by name, ``unions`` to finish, ``defaults`` to check, and in
    ``may_refuse`` whether an author's code may refuse what the schema admits.
    """

    def __init__(self, *, output: bool = False, names: Mapping[str, Any] | None = None) -> None:
        self.output = output
        self.names: dict[str, Any] = dict(names or {})
        self.definitions: dict[str, Any] = {}
        self.unions: list[UnionPlan] = []
        self.defaults: list[tuple[Field, str]] = []
        self.may_refuse = False
        self._named: dict[Any, Shape] = {}
        self._depth = 0

    def shape(self, annotation: Any, where: str) -> Shape:
        """Return the shape of an annotation; ``where`` names its owner in messages.

        Raises:
            DefinitionError: the type has no JSON form; the message says what to write instead.
        """
        given = unwrap(annotation)
        shape = self.unwrapped(given, where)
        return Shape(annotate(shape.document, given.metadata), shape.codec)

    def unwrapped(self, given: Unwrapped, where: str) -> Shape:
        """Return the shape of an annotation already taken apart: constrained, not yet described."""
        if given.for_pydantic is not None:
            return self._pydantic(given.for_pydantic, where)
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise refuse(where, f"the type nests more than {_MAX_DEPTH} levels deep", "flatten it")
        shape = self._type(given.tp, where)
        self._depth -= 1
        if given.metadata.keywords:
            shape = Shape(constrain(shape.document, given.metadata.keywords, where), shape.codec)
        if given.metadata.predicates:
            self.may_refuse = True
            shape = Shape(shape.document, _checked(shape.codec, given.metadata))
        return shape

    def _type(self, tp: Any, where: str) -> Shape:
        if tp is None or is_class(tp):
            scalar = SCALARS.get(tp)
            if scalar is not None:
                return scalar
        if tp is Any or is_pydantic_json(tp) or tp is json_value.JsonValue or tp == ANY_JSON:
            return any_shape()
        if tp is LiteralString:
            return SCALARS[str]
        if isinstance(tp, (str, ForwardRef)):
            return self.shape(self._resolved(tp, where), where)
        if isinstance(get_origin(tp) or tp, _ALIASES):
            return self._alias(tp, where)
        supertype = getattr(tp, "__supertype__", None)
        if supertype is not None:
            return self.shape(supertype, where)
        if isinstance(tp, TypeVar):
            raise unsupported(tp, where)
        if not isinstance(tp, abc.Hashable) or tp in _BARE:
            raise unsupported(tp, where)
        return self._generic(tp, where) or self._class(tp, where)

    def _resolved(self, tp: str | ForwardRef, where: str) -> Any:
        try:
            return resolve(tp, {}, self.names)
        except UNRESOLVED as error:
            raise refuse(
                where, f"{type_name(tp)!r} cannot be resolved: {error}", "give the type itself, not its name"
            ) from None

    def _alias(self, tp: Any, where: str) -> Shape:
        origin = get_origin(tp)
        value = tp.__value__ if origin is None else origin.__value__[get_args(tp)]
        name = tp.__name__ if origin is None else origin.__name__
        return self._define(tp, name, lambda: self.shape(value, where))

    def _generic(self, tp: Any, where: str) -> Shape | None:
        origin, args = get_origin(tp) or tp, get_args(tp)
        if origin is Literal or origin is typing_extensions.Literal:
            return literal_shape(tp, where)
        if origin in UNION_ORIGINS:
            return self._union(args, where)
        if origin in _LISTS:
            return list_shape(self.shape(args[0], where) if args else None)
        if origin is tuple:
            return self._tuple(tp, args, where)
        if origin in _MAPS:
            return self._map(args, where)
        return None

    def _union(self, args: tuple[Any, ...], where: str) -> Shape:
        if len(args) == 1:
            return self.shape(args[0], where)
        shape, plan = union_shape([self.shape(branch, where) for branch in args])
        if plan is not None:
            self.unions.append(plan)
        return shape

    def _tuple(self, tp: Any, args: tuple[Any, ...], where: str) -> Shape:
        if not args and tp != tuple[()]:
            return tuple_shape(None)
        if len(args) == 2 and args[1] is ...:
            return tuple_shape(self.shape(args[0], where))
        raise refuse(
            where,
            "a tuple of fixed places has no counterpart in many models' schemas",
            "use a dataclass or TypedDict with named fields, or tuple[T, ...] for any number of one type",
        )

    def _map(self, args: tuple[Any, ...], where: str) -> Shape:
        if not args:
            return map_shape(None)
        key = unwrap(args[0]).tp
        while (inner := getattr(key, "__supertype__", None)) is not None:
            key = inner
        if key is not str and key is not Any:
            raise refuse(where, f"keys of JSON objects are strings, not {type_name(key)}", "use dict[str, T]")
        return map_shape(self.shape(args[1], where))

    def _class(self, tp: Any, where: str) -> Shape:
        cls = get_origin(tp) or tp
        if is_class(cls) and issubclass(cls, enum.Enum):
            return enum_shape(cls, where)
        if is_pydantic_type(cls):
            return self._pydantic(tp, where)
        read = record_reader(cls)
        if read is None:
            raise unsupported(tp, where)
        reader = FieldReader(self.unwrapped, self.names, self.output, where)

        def define() -> Shape:
            record = read(tp, cls, reader)
            self.may_refuse = self.may_refuse or record.may_refuse
            self.note_defaults(record.fields, lambda name: reader.owner(cls, name))
            return record_shape(record)

        return self._define(tp, cls.__name__, define)

    def note_defaults(self, fields: list[Field], owner: Callable[[str], str]) -> None:
        """Remember fields whose defaults must still be held against their schemas."""
        self.defaults.extend((item, owner(item.name)) for item in fields)

    def _define(self, key: Any, name: str, translate: Callable[[], Shape]) -> Shape:
        """Translate a type once, under a name of its own; inside itself it is a reference."""
        key = _hashable(key)
        known = self._named.get(key)
        if known is not None:
            return known
        name = self._free_name(name)
        later: list[Codec] = []
        self._named[key] = Shape(reference(name), _deferred(later))
        self.definitions[name] = True
        finished = translate()
        later.append(finished.codec)
        self.definitions[name] = finished.document
        self._named[key] = Shape(reference(name), finished.codec)
        return self._named[key]

    def _free_name(self, name: str) -> str:
        base, count = name, 2
        while name in self.definitions:
            name, count = f"{base}{count}", count + 1
        return name

    def _pydantic(self, tp: Any, where: str) -> Shape:
        known = self._named.get(tp) if is_class(tp) else None
        if known is not None:
            return known
        # Pydantic takes longer to import than this package; only programs with such a type pay for it.
        from .pydantic_types import pydantic_adapter, pydantic_document, pydantic_shape

        self.may_refuse = True
        adapter = pydantic_adapter(tp, self.names, where)
        document = pydantic_document(adapter, self.output, where)
        shape = pydantic_shape(adapter, tp, self._adopt(document), self.output)
        if is_class(tp):
            self._named[tp] = shape
        return shape

    def _adopt(self, document: dict[str, Any]) -> dict[str, Any]:
        """Take pydantic's definitions over, under names that are free here."""
        own = document.pop("$defs", {})
        names: dict[str, str] = {}
        for name in own:
            names[name] = self._free_name(name)
            self.definitions[names[name]] = True
        for name, definition in own.items():
            self.definitions[names[name]] = rename_references(definition, names)
        return rename_references(document, names)


def _hashable(tp: Any) -> Any:
    try:
        hash(tp)
    except TypeError:
        # Metadata inside a type argument may be unhashable.
        return repr(tp)
    return tp


def _deferred(later: list[Codec]) -> Codec:
    """Return the codec of a type still being translated: it looks its own conversions up when used."""

    def load(value: Any) -> Any:
        convert = later[0].load
        return value if convert is None else convert(value)

    def dump(value: Any) -> Any:
        convert = later[0].dump
        return value if convert is None else convert(value)

    return Codec(load, dump, lambda value: later[0].owns(value))


def _checked(codec: Codec, metadata: Metadata) -> Codec:
    """Return the codec with the author's predicates run on what it loads."""
    load_value = codec.load

    def load(value: Any) -> Any:
        result = value if load_value is None else load_value(value)
        for predicate in metadata.predicates:
            if not construct(predicate, result):
                name = getattr(predicate, "__name__", "predicate")
                raise Fault.of(f"does not satisfy {name}")
        return result

    return Codec(load, codec.dump, codec.owns)
