"""Nodes beyond the contract's subset: our verdict and the native one are one verdict (D31, D41)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.json_strategies import floats, integers, json_values, scalars, texts

from dsh_tools.errors import JsonSchemaError
from dsh_tools.json_value import snapshot
from dsh_tools.schema import (
    AnyNode,
    ArrayNode,
    IntegerNode,
    MapNode,
    NullNode,
    NumberNode,
    ObjectNode,
    RefNode,
    Schema,
    StringNode,
    UnionNode,
)
from dsh_tools.schema.native import native_validator
from dsh_tools.schema.nodes import Node, find_circle
from dsh_tools.schema.validate import Validator

MODERATE = settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
bounds = st.one_of(st.integers(-5, 5), floats, st.sampled_from([2**53, 2**53 + 1, 10**20]))
sizes = st.integers(0, 3)
divisors = st.sampled_from([1, 2, 3, 0.5, 0.1, 7])
patterns = st.sampled_from(["^a", "b$", "^(a+)+$", "é", "[0-9]+", ""])

number_limits = st.fixed_dictionaries(
    {},
    optional={
        "minimum": bounds,
        "maximum": bounds,
        "exclusiveMinimum": bounds,
        "exclusiveMaximum": bounds,
        "multipleOf": divisors,
    },
)
text_limits = st.fixed_dictionaries({}, optional={"minLength": sizes, "maxLength": sizes, "pattern": patterns})
list_limits = st.fixed_dictionaries({}, optional={"minItems": sizes, "maxItems": sizes, "uniqueItems": st.booleans()})
record_limits = st.fixed_dictionaries({}, optional={"minProperties": sizes, "maxProperties": sizes})
any_limits = st.one_of(number_limits, text_limits, list_limits, record_limits)

leaves: st.SearchStrategy[Node] = st.one_of(
    st.builds(IntegerNode, constraints=number_limits),
    st.builds(NumberNode, constraints=number_limits),
    st.builds(StringNode, constraints=text_limits),
    st.builds(AnyNode, constraints=any_limits),
    st.builds(ArrayNode, constraints=list_limits),
    st.just(NullNode()),
    st.just(RefNode(name="D")),
)


def containers(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.builds(ArrayNode, items=inner, constraints=list_limits),
        st.builds(MapNode, values=inner, constraints=record_limits),
        st.builds(
            ObjectNode,
            properties=st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            required=st.lists(st.sampled_from("abc"), max_size=2).map(tuple),
            additional=st.booleans(),
            constraints=record_limits,
        ),
        st.builds(
            UnionNode,
            branches=st.lists(inner, min_size=1, max_size=3).map(tuple),
            mode=st.sampled_from(["oneOf", "anyOf"]),
            constraints=any_limits,
        ),
    )


nodes = st.recursive(leaves, containers, max_leaves=6)
small_keys = st.dictionaries(st.sampled_from("abc"), st.one_of(scalars, st.lists(integers, max_size=3)), max_size=3)
values = st.one_of(
    scalars,
    st.lists(st.one_of(integers, floats, texts, small_keys), max_size=4),
    small_keys,
    st.dictionaries(st.sampled_from("abc"), small_keys, max_size=3),
    json_values,
)


@MODERATE
@given(nodes, nodes, values)
def test_constraints_maps_references_and_any_of(node: Node, definition: Node, value: Any):
    if find_circle({"D": definition}):
        with pytest.raises(JsonSchemaError):
            Schema({}, node, "types", definitions={"D": definition})
        return
    schema = Schema({}, node, "types", definitions={"D": definition})
    frozen = snapshot(value)
    violations = schema.violations(frozen)
    assert schema.accepts(frozen) == (violations == [])
    native = native_validator(node, {"D": definition})
    assert native is not None
    try:
        expected = native(frozen)
    except UnicodeEncodeError:
        return
    assert (violations == []) == expected, violations


@MODERATE
@given(nodes, values)
def test_careful_and_fast_messages_are_the_same_without_references(node: Node, value: Any):
    definitions: dict[str, Node] = {"D": NullNode()}
    validator = Validator(node, definitions)
    frozen = snapshot(value)
    assert validator.violations(frozen, "v", lossless=True) == validator.violations(value, "v", lossless=False)
