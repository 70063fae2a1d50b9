"""Compiled schemas: the fast verdict and the careful one are one verdict."""

from __future__ import annotations

from typing import Any

import pytest

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
    compile_json_schema,
    compile_parameters,
    compile_value,
)
from dsh_tools.schema.nodes import Node

LINKED = ObjectNode(
    properties={
        "value": StringNode(),
        "next": UnionNode(branches=(RefNode(name="Linked/1"), NullNode()), mode="anyOf"),
    },
    required=("value",),
    additional=False,
)


def of_nodes(node: Node, **definitions: Node) -> Schema:
    return Schema({}, node, "types", definitions=definitions)


def linked() -> Schema:
    return Schema({}, RefNode(name="Linked/1"), "types", definitions={"Linked/1": LINKED})


def chain(length: int, last: Any = "end") -> dict[str, Any]:
    value: dict[str, Any] = {"value": last, "next": None}
    for _ in range(length):
        value = {"value": "v", "next": value}
    return value


def test_a_schema_is_compiled_once():
    # SCHEMA-E2
    spec: Any = {"a": {"type": "string", "required": True}}
    schema = compile_parameters(spec)
    spec["a"]["type"] = "integer"
    assert schema.source == "dsl"
    assert schema.json == {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert schema.accepts(snapshot({"a": "x"}))
    assert compile_json_schema({"type": "null"}).source == "subset"
    assert repr(schema) == "<Schema from dsl>"


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ({"type": "string"}, ["\ud800", "x", 1]),
        ({"type": "string", "enum": ["\ud800", "x"]}, ["\ud800", "x", "\udfff"]),
        ({"type": "object", "additionalProperties": False, "properties": {"\ud800": {"type": "null"}}}, [{"\ud800": None}, {"\udfff": None}]),
        ({"type": "object", "additionalProperties": False, "properties": {"a": {"type": "null"}}}, [{"\ud800": None}, {"a": None}]),
        ({"type": "array", "items": {"type": "string", "const": "\ud800"}}, [["\ud800"], ["a"]]),
    ],
)  # fmt: skip
def test_lone_surrogates_get_a_verdict(spec: Any, values: list[Any]):
    # SCHEMA-A1: they are data, also where native code cannot hold them
    schema = compile_value(spec)
    for value in values:
        assert schema.accepts(value) == (schema.violations(value) == [])
    assert [schema.accepts(value) for value in values].count(True) >= 1
    assert [schema.accepts(value) for value in values].count(False) >= 1


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        (1, True),
        (1.0, True),
        (True, False),
        ("1", False),
        (2**53 + 1, True),
        (2**53, False),
        (2.0**53, False),
        (10**400, True),
    ],
)
def test_numbers_compare_by_value(value: Any, fits: bool):
    # SCHEMA-A4; SCHEMA-A3 yields to exact integers (D24)
    schema = compile_value({"type": "integer", "enum": [1, 2**53 + 1, 10**400]})
    assert schema.accepts(value) is fits
    assert (schema.violations(value) == []) is fits


@pytest.mark.parametrize("digits", [4301, 10_000])
def test_integers_that_nobody_can_write_down_are_numbers(digits: int):
    # D24: the library takes them for no numbers
    number = -(10 ** (digits - 1))
    for spec, value, fits in [
        ({"type": "integer"}, number, True),
        ({"type": "array", "items": {"type": "number"}}, [1, number], True),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, number, True),
        ({"type": "object", "additionalProperties": False, "properties": {"a": {"oneOf": [{"type": "integer"}, {"type": "null"}]}}}, {"a": number, "b": 1}, False),
        ({"type": "string"}, number, False),
        ({"type": "json"}, {"a": [number]}, True),
    ]:  # fmt: skip
        schema = compile_value(spec)
        assert schema.accepts(value) is fits
        assert (schema.violations(value) == []) is fits
        assert (schema.check(value) == []) is fits


def test_recursive_schemas_are_judged_at_any_depth():
    schema = linked()
    for length in (0, 5, 300, 2_000, 20_000):
        assert schema.accepts(snapshot(chain(length)))
        bad = snapshot(chain(length, 1))
        assert not schema.accepts(bad)
        assert schema.violations(bad) == [f'"value{".next" * length}.value" must be a string']
    assert schema.accepts(chain(3), depth=4)
    # A caller who knows that the value is deep keeps native code away from it.
    assert schema.accepts(snapshot(chain(20_000)), depth=20_001)


@pytest.mark.parametrize("mode", ["anyOf", "oneOf"])
def test_nested_unions_take_time_by_the_size_of_the_value(mode: Any):
    kinds = [
        ObjectNode(properties={"op": StringNode(const=name), "arg": RefNode(name="E")}, required=("op", "arg"))
        for name in ("not", "and", "or")
    ]
    union = UnionNode(branches=(*kinds, IntegerNode()), mode=mode)
    schema = Schema({}, RefNode(name="E"), "types", definitions={"E": union})
    good: Any = 1
    bad: Any = "x"
    for level in range(3_000):
        good, bad = ({"op": ("not", "and", "or")[level % 3], "arg": arg} for arg in (good, bad))
    for value, fits in [(snapshot(good), True), (snapshot(bad), False)]:
        assert schema.accepts(value) is fits
        assert (schema.violations(value) == []) is fits


def test_a_cyclic_value_under_a_recursive_schema_ends():
    ring: dict[str, Any] = {"value": "v"}
    ring["next"] = ring
    assert linked().host_violations(ring, "value") == ['"value" must be a lossless JSON value']


@pytest.mark.parametrize(
    "definitions",
    [
        {"a": RefNode(name="a")},
        {"a": RefNode(name="b"), "b": RefNode(name="a")},
        {"a": UnionNode(branches=(NullNode(), RefNode(name="a")))},
        {"a": UnionNode(branches=(NullNode(), UnionNode(branches=(RefNode(name="b"), NullNode())))), "b": RefNode(name="a")},
    ],
)  # fmt: skip
def test_definitions_that_run_in_circles_are_refused(definitions: dict[str, Node]):
    with pytest.raises(JsonSchemaError, match="leads back to itself without a step into the value: "):
        Schema({}, RefNode(name="a"), "types", definitions=definitions)


def test_definitions_may_stand_for_each_other():
    schema = of_nodes(RefNode(name="a"), a=RefNode(name="b"), b=RefNode(name="c"), c=IntegerNode())
    assert schema.accepts(1)
    assert schema.violations("x") == ['"value" must be an integer']


def test_any_of_is_explained_by_the_branch_that_was_meant():
    optional = UnionNode(branches=(ObjectNode(properties={"a": IntegerNode()}), NullNode()), mode="anyOf")
    schema = of_nodes(optional)
    assert schema.accepts(None)
    assert schema.accepts({"a": 1})
    assert schema.violations({"a": "x"}) == ['"value.a" must be an integer']
    assert schema.violations(5) == ['"value" must be an object or null']
    ambiguous = of_nodes(
        UnionNode(
            branches=(ObjectNode(required=("a",)), ObjectNode(required=("b",)), StringNode()),
            mode="anyOf",
        )
    )
    assert ambiguous.violations({}) == ['"value" must match at least one anyOf branch (matched 0)']
    assert of_nodes(UnionNode(branches=(StringNode(), IntegerNode()), mode="anyOf")).accepts(1)
    shapes = of_nodes(
        UnionNode(
            branches=tuple(
                ObjectNode(
                    properties={"kind": StringNode(const=kind), "size": IntegerNode()}, required=("kind", "size")
                )
                for kind in ("circle", "square")
            ),
            mode="anyOf",
        )
    )
    assert shapes.violations({"kind": "square"}) == ['missing required property "value.size"']
    assert shapes.violations({"kind": "star"}) == ['"value" must match at least one anyOf branch (matched 0)']


def test_maps():
    schema = of_nodes(MapNode(values=ArrayNode(items=IntegerNode())))
    assert schema.accepts({"a": [1], "b": []})
    assert schema.violations({"a": [1, "x"], "b": 2}) == [
        '"value.a[1]" must be an integer',
        '"value.b" must be an array',
    ]
    assert schema.violations([]) == ['"value" must be an object']
    assert schema.host_violations({1: [1]}, "v") == ['"v" must be a lossless JSON object']
    numbers = of_nodes(MapNode(values=NumberNode()))
    assert numbers.violations({"a": 1, "b": 1.5}) == []
    assert numbers.host_violations({"a": float("nan")}, "v") == ['"v.a" must be a finite JSON number']


@pytest.mark.parametrize(
    ("node", "good", "bad", "message"),
    [
        (IntegerNode(constraints={"minimum": 3}), [3, 4.0], 2, '"v" must be at least 3'),
        (NumberNode(constraints={"maximum": 1.5}), [1.5], 2, '"v" must be at most 1.5'),
        (NumberNode(constraints={"exclusiveMinimum": 0}), [0.1], 0, '"v" must be greater than 0'),
        (NumberNode(constraints={"exclusiveMaximum": 1}), [0], 1.0, '"v" must be less than 1'),
        (IntegerNode(constraints={"multipleOf": 5}), [0, 10], 7, '"v" must be a multiple of 5'),
        (NumberNode(constraints={"multipleOf": 0.1}), [0.5], 0.55, '"v" must be a multiple of 0.1'),
        (StringNode(constraints={"minLength": 2}), ["ab", "🙂🙂"], "🙂", '"v" must have at least 2 characters'),
        (StringNode(constraints={"maxLength": 1}), ["", "\ud800"], "ab", '"v" must have at most 1 character'),
        (StringNode(constraints={"pattern": "^a+$"}), ["aa"], "b", '"v" must match the pattern "^a+$"'),
        (StringNode(constraints={"pattern": "^a$"}), ["a"], "\ud800", '"v" must match the pattern "^a$"'),
        (ArrayNode(constraints={"minItems": 1}), [[1]], [], '"v" must have at least 1 item'),
        (ArrayNode(constraints={"maxItems": 0}), [[]], [1], '"v" must have at most 0 items'),
        (ArrayNode(constraints={"uniqueItems": True}), [[1, True, "1"], [{"a": 1}, {"a": 2}]], [1, 1.0], '"v" must hold no item twice'),
        (ArrayNode(constraints={"uniqueItems": True}), [[]], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], '"v" must hold no item twice'),
        (ObjectNode(constraints={"minProperties": 1}), [{"a": 1}], {}, '"v" must have at least 1 property'),
        (MapNode(values=AnyNode(), constraints={"maxProperties": 1}), [{"a": 1}], {"a": 1, "b": 2}, '"v" must have at most 1 property'),
        (AnyNode(constraints={"minimum": 1}), [1, "x"], 0, '"v" must be at least 1'),
        (UnionNode(branches=(IntegerNode(), NullNode()), mode="anyOf", constraints={"minimum": 1}), [1, None], 0, '"v" must be at least 1'),
    ],
)  # fmt: skip
def test_constraints_beyond_the_subset(node: Node, good: list[Any], bad: Any, message: str):
    schema = of_nodes(node)
    for value in good:
        assert schema.accepts(value)
        assert schema.violations(value, "v") == schema.check(value, "v") == []
        assert schema.host_violations(value, "v") == []
    assert not schema.accepts(bad)
    assert schema.check(bad, "v") == [message]
    assert schema.violations(bad, "v") == [message]
    assert schema.host_violations(bad, "v") == [message]


def test_constraints_come_after_the_type_and_the_list():
    node = StringNode(enum=("a", "bcd"), constraints={"maxLength": 2, "minLength": 4, "format": "date"})
    schema = of_nodes(node)
    assert schema.violations(1) == ['"value" must be a string']
    assert schema.violations("x") == ['"value" must be one of ["a","bcd"]']
    assert schema.violations("bcd") == [
        '"value" must have at most 2 characters',
        '"value" must have at least 4 characters',
    ]


def test_definition_names_may_hold_anything():
    for name in ("a/b", "a~b", "a%b c", "ü#", "Page[int]"):
        schema = Schema({}, ArrayNode(items=RefNode(name=name)), "types", definitions={name: IntegerNode()})
        assert schema.accepts([1])
        assert schema.violations(["x"]) == ['"value[0]" must be an integer']
