"""Reading the fields of TypedDict, dataclass and ``msgspec.Struct`` types."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from typing_extensions import is_typeddict

from ...errors import DefinitionError, LossyJsonError
from ...json_value import snapshot
from .annotations import Unwrapped, unwrap
from .codec import Fault, Shape
from .docstrings import class_docs
from .guards import is_class, is_dict
from .hints import class_hints
from .metadata import NOTHING, Metadata
from .records import Field, Record
from .refusals import refuse, type_name
from .type_variables import bindings, substitute

__all__ = ["FieldReader", "json_default", "read_field", "record_reader"]


@dataclasses.dataclass(frozen=True, slots=True)
class FieldReader:
    """What reading fields needs of the translator.

    Parameters:
        translate: from an unwrapped annotation to its shape; the text names the field in messages.
        names: local names that annotations may use.
        output: whether the schema describes what a body returns: then defaults are always present.
        where: the owner of the type, for messages.
    """

    translate: Callable[[Unwrapped, str], Shape]
    names: Mapping[str, Any]
    output: bool
    where: str

    def hints(self, cls: Any, tp: Any) -> dict[str, Any]:
        """Return the annotations of a class, strings resolved and type variables bound."""
        hints = class_hints(cls, self.names, self.where)
        bound = bindings(tp)
        return {name: substitute(hint, bound) for name, hint in hints.items()}

    def owner(self, cls: Any, name: str) -> str:
        """Return how messages name a field."""
        return f'{self.where}: field "{name}" of {type_name(cls)}'


def read_typed_dict(tp: Any, cls: Any, reader: FieldReader) -> Record:
    """Read a TypedDict: Required, NotRequired, ReadOnly and ``total`` are honoured."""
    docs = class_docs(cls)
    fields: list[Field] = []
    for name, hint in reader.hints(cls, tp).items():
        given = unwrap(hint)
        # With string annotations Python itself cannot see the qualifiers, so they are read here.
        required = name in cls.__required_keys__
        if "required" in given.qualifiers or "not_required" in given.qualifiers:
            required = "required" in given.qualifiers
        shape = reader.translate(given, reader.owner(cls, name))
        fields.append(Field(name, name, shape, required, _described(given.metadata, docs.parameters, name)))
    return Record(fields, None, _read_key, is_dict, description=docs.description or None)


def read_dataclass(tp: Any, cls: Any, reader: FieldReader) -> Record:
    """Read a dataclass: the model may send what ``__init__`` takes, and reads every field."""
    docs = class_docs(cls)
    hints = reader.hints(cls, tp)
    for name, hint in hints.items():
        if type(hint) is dataclasses.InitVar:
            raise refuse(
                reader.owner(cls, name), "InitVar is not a field", "make it a field, or compute it in the body"
            )
    fields: list[Field] = []
    for item in dataclasses.fields(cls):
        if not item.init and not reader.output:
            continue
        owner = reader.owner(cls, item.name)
        given = unwrap(hints[item.name])
        note = item.metadata.get("description")
        metadata = _described(given.metadata, docs.parameters, item.name)
        if isinstance(note, str):
            metadata = dataclasses.replace(metadata, description=note)
        default = NOTHING if item.default is dataclasses.MISSING else item.default
        factory = None if item.default_factory is dataclasses.MISSING else item.default_factory
        key = metadata.alias or item.name
        read = read_field(item.name, key, given, metadata, default, factory, reader, owner)
        read.settable = item.init
        fields.append(read)
    return Record(
        fields,
        cls,
        _read_attribute,
        lambda value: isinstance(value, cls),
        description=docs.description or None,
        may_refuse=hasattr(cls, "__post_init__") or not cls.__dataclass_params__.init,
    )


def read_struct(tp: Any, cls: Any, reader: FieldReader) -> Record:
    """Read a ``msgspec.Struct``: renamed fields and tags are honoured."""
    config = cls.__struct_config__
    if config.array_like:
        raise refuse(
            reader.where, f"{type_name(cls)} is array_like", "use an ordinary Struct: models fill in names, not places"
        )
    docs = class_docs(cls)
    hints = reader.hints(cls, tp)
    fields: list[Field] = []
    for item in msgspec.structs.fields(cls):
        owner = reader.owner(cls, item.name)
        given = unwrap(hints[item.name])
        metadata = _described(given.metadata, docs.parameters, item.name)
        default = NOTHING if item.default is msgspec.NODEFAULT else item.default
        factory = None if item.default_factory is msgspec.NODEFAULT else item.default_factory
        fields.append(read_field(item.name, item.encode_name, given, metadata, default, factory, reader, owner))
    tag = None if config.tag is None else (config.tag_field, config.tag)
    return Record(
        fields,
        cls,
        _read_attribute,
        lambda value: isinstance(value, cls),
        tag,
        docs.description or None,
        may_refuse=hasattr(cls, "__post_init__"),
    )


def read_field(
    name: str,
    key: str,
    given: Unwrapped,
    metadata: Metadata,
    default: Any,
    factory: Any,
    reader: FieldReader,
    owner: str,
) -> Field:
    """Return one field that may have a default, translated and with the default as JSON."""
    shape = reader.translate(given, owner)
    optional = default is not NOTHING or factory is not None or given.may_be_unset
    if reader.output:
        # An instance always has the field, unless its type says that it may be unset.
        return Field(name, key, shape, not given.may_be_unset, metadata)
    if default is NOTHING and factory in (list, dict):
        default = [] if factory is list else {}
    return Field(name, key, shape, not optional, metadata, json_default(default, shape, owner))


def json_default(default: Any, shape: Shape, owner: str) -> Any:
    """Return a default as frozen JSON: never the author's own object, so that calls cannot share it."""
    if default is NOTHING:
        return NOTHING
    dump = shape.codec.dump
    try:
        return snapshot(default if dump is None else dump(default))
    except (LossyJsonError, Fault) as error:
        raise _bad_default(owner, default, str(error)) from None


def _bad_default(owner: str, default: Any, reason: str) -> DefinitionError:
    return refuse(owner, f"the default {default!r} is not JSON ({reason})", "use a JSON value")


def _described(metadata: Metadata, texts: Mapping[str, str], name: str) -> Metadata:
    if metadata.description is None and name in texts:
        return dataclasses.replace(metadata, description=texts[name])
    return metadata


def _read_key(value: Any, name: str) -> Any:
    return value.get(name, NOTHING)


def _read_attribute(value: Any, name: str) -> Any:
    return getattr(value, name, NOTHING)


def record_reader(cls: Any) -> Callable[[Any, Any, FieldReader], Record] | None:
    """Return how to read the fields of a class, None where it has none to read."""
    if is_typeddict(cls):
        return read_typed_dict
    if is_class(cls) and issubclass(cls, msgspec.Struct):
        return read_struct
    if dataclasses.is_dataclass(cls):
        return read_dataclass
    return None
