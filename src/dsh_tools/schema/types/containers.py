"""Lists, tuples of one type, and dictionaries with string keys."""

from __future__ import annotations

from typing import Any

from ...json_value import thaw
from .codec import Codec, Fault, Shape
from .guards import is_dict, is_list

__all__ = ["list_shape", "map_shape", "tuple_shape"]


def list_shape(item: Shape | None) -> Shape:
    """Return the shape of a list; without an item type it holds any JSON."""
    if item is None:
        return Shape({"type": "array"}, Codec(thaw, None, is_list))
    return Shape({"type": "array", "items": item.document}, _list_codec(item.codec, is_list))


def tuple_shape(item: Shape | None) -> Shape:
    """Return the shape of ``tuple[T, ...]``: an array for the model, a tuple for the body."""
    base = list_shape(item)
    load_list, dump_list = base.codec.load, base.codec.dump

    def load(value: Any) -> tuple[Any, ...]:
        items: Any = value if load_list is None else load_list(value)
        return tuple(items)

    def dump(value: object) -> object:
        if not isinstance(value, tuple):
            return value
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return items if dump_list is None else dump_list(items)

    return Shape(base.document, Codec(load, dump, lambda value: isinstance(value, tuple)))


def map_shape(value: Shape | None) -> Shape:
    """Return the shape of ``dict[str, T]``; without a value type it holds any JSON."""
    if value is None or not value.document:
        return Shape({"type": "object", "additionalProperties": True}, Codec(thaw, None, is_dict))
    document = {"type": "object", "additionalProperties": value.document}
    return Shape(document, _map_codec(value.codec))


def _list_codec(item: Codec, owns: Any) -> Codec:
    load_item, dump_item = item.load, item.dump
    load = list if load_item is None else _each(load_item)
    if dump_item is None:
        return Codec(load, None, owns)
    dump_all = _each(dump_item)

    def dump(value: object) -> object:
        return dump_all(value) if is_list(value) else value

    return Codec(load, dump, owns)


def _each(convert: Any) -> Any:
    def convert_all(values: Any) -> list[Any]:
        result: list[Any] = []
        add = result.append
        try:
            for value in values:
                add(convert(value))
        except Fault as fault:
            raise fault.inside(len(result)) from fault.__cause__
        return result

    return convert_all


def _map_codec(item: Codec) -> Codec:
    load_item, dump_item = item.load, item.dump
    load = dict if load_item is None else _values(load_item)
    if dump_item is None:
        return Codec(load, None, is_dict)
    dump_all = _values(dump_item)

    def dump(value: object) -> object:
        return dump_all(value) if is_dict(value) else value

    return Codec(load, dump, is_dict)


def _values(convert: Any) -> Any:
    def convert_all(values: Any) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in values.items():
            try:
                result[key] = convert(value)
            except Fault as fault:
                raise fault.inside(key) from fault.__cause__
        return result

    return convert_all
