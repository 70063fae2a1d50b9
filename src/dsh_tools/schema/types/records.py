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
from .scalars import load_int

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
        settable: whether the constructor takes it; the others only go out.
    """

    name: str
    key: str
    shape: Shape
    required: bool
    metadata: Metadata
    default: Any = NOTHING
    settable: bool = True


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
    if record.tag is None and all(item.key == item.name and item.settable for item in record.fields):
        read = _same_names(record)
    else:
        read = _renamed(record)
    fill = _filler(record)
    build = record.build
    if fill is None and build is None:
        return read

    def load(value: Any) -> Any:
        found = read(value)
        if fill is not None:
            fill(found)
        return found if build is None else construct(build, **found)

    return load


def _same_names(record: Record) -> Callable[[Any], dict[str, Any]]:
    """Return the reader of a record whose JSON keys are its Python names: copy, then convert what needs it."""
    integers = [item.key for item in record.fields if item.shape.codec.load is load_int]
    plan = [
        (item.key, item.shape.codec.load)
        for item in record.fields
        if item.shape.codec.load is not None and item.shape.codec.load is not load_int
    ]

    def read(value: Any) -> dict[str, Any]:
        found: dict[str, Any] = dict(value)
        for key in integers:
            # Nearly every integer comes as one; what is absent counts as one here.
            if type(found.get(key, 0)) is not int:
                found[key] = load_int(found[key])
        for key, convert in plan:
            if key in found:
                try:
                    found[key] = convert(found[key])
                except Fault as fault:
                    raise fault.inside(key) from fault.__cause__
        return found

    return read


def _renamed(record: Record) -> Callable[[Any], dict[str, Any]]:
    """Return the reader of a record that is not its own keyword arguments: renamed or tagged, or only in part."""
    plan = [(item.key, item.name, item.shape.codec.load) for item in record.fields if item.settable]

    def read(value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, name, convert in plan:
            if key in value:
                try:
                    found[name] = value[key] if convert is None else convert(value[key])
                except Fault as fault:
                    raise fault.inside(key) from fault.__cause__
        return found

    return read


def _filler(record: Record) -> Callable[[dict[str, Any]], None] | None:
    fills = [
        (item.name, item.default, item.shape.codec.load)
        for item in record.fields
        if record.fill and item.default is not NOTHING
    ]
    if not fills:
        return None
    count = len(record.fields)

    def fill(found: dict[str, Any]) -> None:
        if len(found) < count:
            for name, default, convert in fills:
                if name not in found:
                    found[name] = default if convert is None else convert(default)

    return fill


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
                    raise fault.inside(key) from fault.__cause__
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
                    raise fault.inside(key) from fault.__cause__
            result[key] = item
        return result

    return dump
