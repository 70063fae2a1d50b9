"""Types with named fields: function parameters, TypedDict, dataclass, ``msgspec.Struct``.

Each kind is first read into :class:`Field` records (``sources.py``); this module turns fields into
one object schema and one codec. The object is closed: a key that is not a field is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .codec import Codec, Fault, Shape
from .guards import is_dict
from .metadata import NOTHING, Metadata, annotate

__all__ = ["Field", "ReadAttribute", "Record", "construct", "record_shape"]

ReadAttribute = Callable[[Any, str], Any]

# What an author's constructor or validator raises to refuse a value; pydantic and msgspec agree on these.
_REFUSALS = (ValueError, TypeError, AssertionError)


@dataclass(slots=True)
class Field:
    """One field of a record.

    Parameters:
        name: the Python name. ``key``: the name in JSON.
        shape: its translated type.
        required: whether the sender must give it.
        metadata: what its annotation says beside the type.
        default: the default as JSON, advertised and filled in; NOTHING where there is none, or none that
            JSON can say.
    """

    name: str
    key: str
    shape: Shape
    required: bool
    metadata: Metadata
    default: Any = NOTHING


@dataclass(slots=True)
class Record:
    """A record type, ready to become a schema.

    Parameters:
        fields: in declaration order.
        build: makes the Python value from its fields by name; None for a plain dict.
        read: reads a field off a Python value, NOTHING where it is absent.
        owns: whether a Python value is one of this type.
        tag: a constant property that tells tagged records apart, as (key, value).
        description: the type's own docstring.
        fill: whether a missing field is filled with its default here, rather than by ``build``.
        may_refuse: whether ``build`` runs code of the author's, which may refuse a value.
    """

    fields: list[Field]
    build: Callable[..., Any] | None
    read: ReadAttribute
    owns: Callable[[object], bool]
    tag: tuple[str, Any] | None = None
    description: str | None = None
    fill: bool = False
    may_refuse: bool = False


def record_shape(record: Record) -> Shape:
    """Return the object schema and the codec of a record."""
    return Shape(_document(record), Codec(_loader(record), _dumper(record), record.owns))


def _document(record: Record) -> dict[str, Any]:
    document: dict[str, Any] = {"type": "object"}
    if record.description:
        document["description"] = record.description
    document["additionalProperties"] = False
    properties: dict[str, Any] = {}
    required: list[str] = []
    if record.tag is not None:
        key, value = record.tag
        properties[key] = {"type": "string" if isinstance(value, str) else "integer", "const": value}
        required.append(key)
    for item in record.fields:
        properties[item.key] = annotate(item.shape.document, item.metadata, item.default)
        if item.required:
            required.append(item.key)
    document["properties"] = properties
    if required:
        document["required"] = required
    return document


def _loader(record: Record) -> Callable[[Any], Any]:
    plan = [(item.key, item.name, item.shape.codec.load) for item in record.fields]
    fills = [
        (item.name, item.default, item.shape.codec.load)
        for item in record.fields
        if record.fill and item.default is not NOTHING
    ]
    build = record.build

    def load(value: Any) -> Any:
        found: dict[str, Any] = {}
        for key, name, convert in plan:
            if key in value:
                item = value[key]
                if convert is not None:
                    try:
                        item = convert(item)
                    except Fault as fault:
                        raise fault.inside(key) from None
                found[name] = item
        if len(found) < len(plan):
            for name, default, convert in fills:
                if name not in found:
                    found[name] = default if convert is None else convert(default)
        return found if build is None else construct(build, **found)

    return load


def construct(build: Callable[..., Any], /, *args: Any, **fields: Any) -> Any:
    """Call a constructor or a check; what it raises to refuse a value becomes a fault with its text."""
    try:
        return build(*args, **fields)
    except _REFUSALS as error:
        raise Fault.of(str(error) or type(error).__name__) from error


def _dumper(record: Record) -> Callable[[Any], Any] | None:
    return _dict_dumper(record) if record.build is None else _object_dumper(record)


def _dict_dumper(record: Record) -> Callable[[Any], Any] | None:
    dumps = [(item.key, item.shape.codec.dump) for item in record.fields]
    plan = [(key, convert) for key, convert in dumps if convert is not None]
    if not plan:
        return None

    def dump(value: Any) -> Any:
        if not is_dict(value):
            return value
        result: dict[Any, Any] = dict(value)
        for key, convert in plan:
            if key in result:
                try:
                    result[key] = convert(result[key])
                except Fault as fault:
                    raise fault.inside(key) from None
        return result

    return dump


def _object_dumper(record: Record) -> Callable[[Any], Any]:
    plan = [(item.key, item.name, item.shape.codec.dump) for item in record.fields]
    owns, read, tag = record.owns, record.read, record.tag

    def dump(value: Any) -> Any:
        if not owns(value):
            return value
        result: dict[str, Any] = {} if tag is None else {tag[0]: tag[1]}
        for key, name, convert in plan:
            item = read(value, name)
            if item is NOTHING:
                continue
            if convert is not None:
                try:
                    item = convert(item)
                except Fault as fault:
                    raise fault.inside(key) from None
            result[key] = item
        return result

    return dump
