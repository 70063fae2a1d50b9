"""Schemas of random Python types: what a type admits validates and comes back as it was, all else does not."""

from __future__ import annotations

import ast
import dataclasses
import enum
import itertools
import math
from collections.abc import Callable
from typing import Any, Literal, NotRequired, TypedDict, Union

import jsonschema_rs
import msgspec
import pydantic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_tools.json_value import snapshot, thaw
from dsh_tools.schema import from_types, to_python, to_typescript

relaxed = settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

Fits = Callable[[Any], bool]


@dataclasses.dataclass
class Case:
    """A type, its values, and an independent test of JSON values."""

    tp: Any
    values: st.SearchStrategy[Any]
    fits: Fits


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Size(enum.IntEnum):
    S = 1
    L = 2


def is_number(value: Any) -> bool:
    return type(value) in (int, float)


def is_integral(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


floats = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not (x == 0 and math.copysign(1, x) < 0))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
numbers = itertools.count()

LEAVES = [
    Case(int, st.integers(-(2**60), 2**60), is_integral),
    Case(float, floats, is_number),
    Case(str, texts, lambda v: type(v) is str),
    Case(bool, st.booleans(), lambda v: type(v) is bool),
    Case(None, st.none(), lambda v: v is None),
    Case(Color, st.sampled_from(Color), lambda v: type(v) is str and v in ("red", "green")),
    Case(Size, st.sampled_from(Size), lambda v: is_number(v) and v in (1, 2)),
    Case(Literal["red", "x"], st.sampled_from(["red", "x"]), lambda v: type(v) is str and v in ("red", "x")),
    Case(Literal[1, 5], st.sampled_from([1, 5]), lambda v: is_number(v) and v in (1, 5)),
]


def list_of(item: Case) -> Case:
    return Case(
        list[item.tp],
        st.lists(item.values, max_size=3),
        lambda v: isinstance(v, list) and all(item.fits(x) for x in v),
    )


def tuple_of(item: Case) -> Case:
    return Case(
        tuple[item.tp, ...],
        st.lists(item.values, max_size=3).map(tuple),
        lambda v: isinstance(v, list) and all(item.fits(x) for x in v),
    )


def map_of(item: Case) -> Case:
    return Case(
        dict[str, item.tp],
        st.dictionaries(texts, item.values, max_size=3),
        lambda v: isinstance(v, dict) and all(item.fits(x) for x in v.values()),
    )


def optional(item: Case) -> Case:
    return Case(
        item.tp | None if item.tp is not None else None, st.none() | item.values, lambda v: v is None or item.fits(v)
    )


def union_of(items: list[Case]) -> Case:
    return Case(
        Union[tuple(item.tp for item in items)],  # noqa: UP007 - the branches are data
        st.one_of([item.values for item in items]),
        lambda v: any(item.fits(v) for item in items),
    )


def record_fits(items: dict[str, Case], required: set[str]) -> Fits:
    def fits(value: Any) -> bool:
        if not isinstance(value, dict) or not required <= value.keys() <= items.keys():
            return False
        return all(items[key].fits(child) for key, child in value.items())

    return fits


def typed_dict_of(items: dict[str, Case], optional_keys: set[str]) -> Case:
    hints = {key: NotRequired[item.tp] if key in optional_keys else item.tp for key, item in items.items()}
    needed = {key: item.values for key, item in items.items() if key not in optional_keys}
    extra = {key: item.values for key, item in items.items() if key in optional_keys}
    return Case(
        TypedDict(f"TD{next(numbers)}", hints),  # type: ignore[misc]
        st.fixed_dictionaries(needed, optional=extra),
        record_fits(items, set(needed)),
    )


def dataclass_of(items: dict[str, Case]) -> Case:
    cls = dataclasses.make_dataclass(f"DC{next(numbers)}", [(key, item.tp) for key, item in items.items()])
    return Case(cls, st.builds(cls, **{k: i.values for k, i in items.items()}), record_fits(items, set(items)))


def struct_of(items: dict[str, Case]) -> Case:
    fields = [(key, item.tp) for key, item in items.items()]
    cls = msgspec.defstruct(f"ST{next(numbers)}", fields, rename="camel")
    renamed = {
        key.title().replace("_", "")[0].lower() + key.title().replace("_", "")[1:]: i for key, i in items.items()
    }
    return Case(cls, st.builds(cls, **{k: i.values for k, i in items.items()}), record_fits(renamed, set(renamed)))


def model_of(items: dict[str, Case]) -> Case:
    cls: Any = pydantic.create_model(f"PM{next(numbers)}", **{key: (item.tp, ...) for key, item in items.items()})
    return Case(cls, st.builds(cls, **{k: i.values for k, i in items.items()}), record_fits(items, set(items)))


KEYS = ("a", "b_c", "kind")


def branch(children: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    records = st.dictionaries(st.sampled_from(KEYS), children, min_size=1, max_size=3)
    # Pydantic's own unions pick a branch by rules of their own; it gets leaves.
    flat = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(LEAVES), min_size=1, max_size=3)
    return st.one_of(
        children.map(list_of),
        children.map(tuple_of),
        children.map(map_of),
        children.map(optional),
        st.lists(children, min_size=2, max_size=3).map(union_of),
        st.tuples(records, st.sets(st.sampled_from(KEYS))).map(lambda pair: typed_dict_of(*pair)),
        records.map(dataclass_of),
        records.map(struct_of),
        flat.map(model_of),
    )


cases = st.recursive(st.sampled_from(LEAVES), branch, max_leaves=6)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 6), floats, texts, st.sampled_from(["red", "x", 1.0, 5]))
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYS, "bC", "other"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """The value with one place changed: replaced, removed, or with a key too many."""
    root = [thaw(value)]
    container: Any = root
    key: Any = 0
    while isinstance(container[key], (dict, list)) and container[key] and draw(st.booleans()):
        container = container[key]
        key = draw(st.sampled_from(list(container) if isinstance(container, dict) else range(len(container))))
    what = draw(st.sampled_from(["replace", "remove", "add"]))
    if what == "remove" and container is not root:
        del container[key]
    elif what == "add" and isinstance(container[key], dict):
        container[key][draw(st.sampled_from([*KEYS, "other"]))] = draw(json_values)
    else:
        container[key] = draw(json_values)
    return root[0]


def equal(one: Any, other: Any) -> bool:
    """Equality that tells 1 from 1.0 and True, down to the leaves."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return one == other


@relaxed
@given(st.data())
def test_values_of_the_type_validate_and_come_back(data: st.DataObject):
    case = data.draw(cases)
    value = data.draw(case.values)
    schema = from_types(case.tp)
    output = from_types(case.tp, output=True)
    dumped = schema.dump(value)
    assert schema.violations(dumped) == []
    assert schema.accepts(dumped)
    assert output.accepts(output.dump(value))
    assert case.fits(dumped)
    back = schema.load(dumped)
    # A union may hold a value that several branches describe; then the JSON form is what must agree.
    assert equal(schema.dump(back), dumped)
    if not has_union(case.tp):
        assert equal(back, value)
        assert type(back) is type(value)


def has_union(tp: Any) -> bool:
    return "oneOf" in str(from_types(tp).json) or "anyOf" in str(from_types(tp).json)


@relaxed
@given(st.data())
def test_the_verdict_is_the_types(data: st.DataObject):
    # D41
    case = data.draw(cases)
    schema = from_types(case.tp)
    if data.draw(st.booleans()):
        value = data.draw(json_values)
    else:
        value = data.draw(mutated(schema.dump(data.draw(case.values))))
    frozen = snapshot(value)
    verdict = schema.accepts(frozen)
    assert verdict == case.fits(value)
    assert verdict == (schema.violations(frozen) == [])
    assert verdict == jsonschema_rs.Draft202012Validator(thaw(schema.json)).is_valid(value)
    if verdict:
        schema.load(frozen)


@relaxed
@given(cases)
def test_documents_and_generated_code_are_sound(case: Case):
    schema = from_types(case.tp)
    assert snapshot(schema.json) == schema.json
    assert jsonschema_rs.meta.is_valid(thaw(schema.json))
    ast.parse(to_python(schema), mode="eval")
    assert to_typescript(schema)
