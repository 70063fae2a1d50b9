"""Validation: the contract's messages, for lossless values and for any others."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

from dsh_tools.errors import JsonSchemaError, ToolArgsError
from dsh_tools.json_value import depth_of, is_lossless
from dsh_tools.schema import compile_json_schema, compile_value, validate, validate_args, validate_json_schema_value

NAN = float("nan")


class Number(enum.IntEnum):
    """An integer that is not a plain one."""

    ONE = 1


class Items(list):
    """A list that is not a plain one."""


class Record(dict):
    """A record that is not a plain one."""


def check(schema: Any, value: Any, path: str = "value") -> list[str]:
    return validate_json_schema_value(schema, value, path)


def test_a_list_of_violations_comes_back_and_nothing_is_raised():
    # SCHEMA-D1
    assert check({"type": "string"}, "x") == []
    assert check({"type": "string"}, 1) == ['"value" must be a string']
    assert check(compile_value({"type": "string"}), 1) == ['"value" must be a string']
    for odd in (object(), lambda: None, Record(), Items(), NAN, type, b"", Number.ONE):
        for schema in (
            {"type": kind} for kind in ("string", "integer", "object", "array", "null", "boolean", "number")
        ):
            assert len(check(schema, odd)) == 1
    with pytest.raises(JsonSchemaError, match="schema.type must be one of"):
        check({"type": "forged"}, 1)


def test_arguments_are_validated_with_an_empty_path():
    # SCHEMA-D2
    spec = {"path": {"type": "string", "required": True}, "n": {"type": "integer"}}
    violations = validate_args(spec, {"n": "x"})
    assert violations == ['missing required property "path"', '"n" must be an integer']
    error = ToolArgsError(violations)
    assert error.code == "INVALID_ARGS"
    assert error.message == 'invalid arguments: missing required property "path"; "n" must be an integer'
    assert error.violations == tuple(violations)
    with pytest.raises(JsonSchemaError):
        validate_args({"a": {"type": "wat"}}, object())


def test_paths():
    # SCHEMA-D3
    leaf = {"type": "null"}
    inner = {"type": "object", "properties": {"": leaf, "x.y": {"type": "array", "items": leaf}}}
    schema = {"type": "object", "properties": {"": inner, "k": inner}}
    assert check(schema, {"": {"": 1, "x.y": [1]}, "k": {"": 1}}, "") == [
        '"arguments" must be null',
        '"x.y[0]" must be null',
        '"k." must be null',
    ]
    assert check(schema, {"": 1}, "") == ['"arguments" must be an object']
    assert check({"type": "array", "items": leaf}, [None, 1], "") == ['"[1]" must be null']
    assert check(schema, {"": {"": 1}}, "v") == ['"v.." must be null']


def test_every_violation_is_listed():
    # SCHEMA-D4
    long = "k" * 10_000
    schema = {"type": "object", "properties": {long: {"type": "array", "items": {"type": "null"}}}}
    found = check(schema, {long: [1] * 3000})
    assert len(found) == 3000
    assert found[-1] == f'"value.{long}[2999]" must be null'


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("string", ["", "\ud800"], {1: "a string", None: "a string"}),
        ("number", [0, 1.5, 2**70, 1e21], {"1": "a number", True: "a number", NAN: "a finite JSON number", -0.0: "a finite JSON number"}),
        ("integer", [0, 1.0, -3.0, 1e21, 10**400], {1.5: "an integer", NAN: "an integer", -0.0: "an integer", "1": "an integer", True: "an integer"}),
        ("boolean", [True, False], {0: "a boolean", "true": "a boolean", None: "a boolean"}),
        ("null", [None], {0: "null", "": "null"}),
    ],
)  # fmt: skip
def test_scalars(kind: str, good: list[Any], bad: dict[Any, str]):
    # SCHEMA-D5, SCHEMA-A4
    for value in good:
        assert check({"type": kind}, value) == []
    for value, phrase in bad.items():
        assert check({"type": kind}, value) == [f'"value" must be {phrase}']
    phrase = {
        "string": "a string",
        "number": "a number",
        "integer": "an integer",
        "boolean": "a boolean",
        "null": "null",
    }[kind]
    for value in (UNSET, Number.ONE, [], {}):
        assert check({"type": kind}, value) == [f'"value" must be {phrase}']


def test_enum_then_const():
    # SCHEMA-D6, SCHEMA-A4
    schema = {"type": "integer", "enum": [1, 2], "const": 1}
    assert check(schema, 1.0) == []
    assert check(schema, 3) == ['"value" must be one of [1,2]']
    assert check(schema, 2) == ['"value" must be 1']
    assert check(schema, True) == ['"value" must be an integer']
    # Strings are compared as they are: no normalisation.
    assert check({"type": "string", "enum": ["é"]}, "e\u0301") == ['"value" must be one of ["é"]']


def test_literals_in_messages_are_javascripts():
    # SCHEMA-D7; integers stay exact (D24)
    options = [1.0, 1e21, 1e-7, 0.000001, 1e20, 2**53 + 1]
    assert check({"type": "number", "enum": options}, 5) == [
        '"value" must be one of [1,1e+21,1e-7,0.000001,100000000000000000000,9007199254740993]'
    ]
    assert check({"type": "string", "const": 'a"\n\u2028\ud800'}, "") == ['"value" must be "a\\"\\n\u2028\\ud800"']


def test_the_unconstrained_schema_takes_what_is_lossless():
    # SCHEMA-D8, SCHEMA-A5
    for value in ({"a": [None, 1.5, "x"]}, "\ud800", [], 0):
        assert check({}, value) == []
    for value in (
        NAN,
        -0.0,
        UNSET,
        (1,),
        {1},
        {1: 2},
        Record(),
        Items(),
        Number.ONE,
        datetime.date(2020, 1, 1),
        {"a": [NAN]},
    ):
        assert check({}, value) == ['"value" must be a lossless JSON value']


def test_objects_in_order():
    # SCHEMA-D9
    schema = {
        "type": "object",
        "properties": {"b": {"type": "string"}, "a": {"type": "integer"}, "n": {}},
        "required": ["n", "a", "a"],
        "additionalProperties": False,
    }
    value = {"z": 1, "a": UNSET, "b": 5, "y": UNSET, "n": None}
    assert check(schema, value) == [
        'missing required property "value.a"',
        'missing required property "value.a"',
        '"value.b" must be a string',
        '"value.z" is not a declared property (additionalProperties: false)',
        '"value.y" is not a declared property (additionalProperties: false)',
    ]
    for odd in ([], Record(a=1), "x", None, datetime.date(2020, 1, 1)):
        assert check(schema, odd) == ['"value" must be an object']


@pytest.mark.parametrize("stranger", [{"x": NAN}, {"a": UNSET}, {1: 2}, {"x": {"y": [(1,)]}}])
def test_lossy_members_are_reported_at_the_innermost_clean_record(stranger: dict[Any, Any]):
    # SCHEMA-D9, SCHEMA-D10
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {"type": "object", "properties": {"in": inner, "n": {"type": "null"}}}
    assert check(inner, stranger) == ['"value" must be a lossless JSON object']
    assert check(schema, {"in": stranger}) == ['"value.in" must be a lossless JSON object']
    assert check(schema, {"in": stranger, "n": 1}) == [
        '"value.in" must be a lossless JSON object',
        '"value.n" must be null',
    ]
    assert check(schema, {"in": {}, "n": 1, "extra": NAN}) == ['"value.n" must be null']


def test_cycles_are_lossy_where_the_schema_ends():
    # SCHEMA-A7, SCHEMA-D10
    ring: list[Any] = []
    ring.append(ring)
    schema = {"type": "array", "items": {"type": "array", "items": {"type": "array"}}}
    assert check(schema, ring) == ['"value[0][0]" must be a dense lossless JSON array']
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert check({"type": "object", "properties": {"self": {"type": "object"}}}, loop) == [
        '"value.self" must be a lossless JSON object'
    ]


def test_arrays():
    # SCHEMA-D11
    items = {"type": "array", "items": {"type": "integer"}}
    assert check(items, [1, 2.0]) == []
    for odd in ("x", {}, (1,), None):
        assert check(items, odd) == ['"value" must be an array']
    assert check(items, Items([1])) == ['"value" must be a dense lossless JSON array']
    assert check(items, Items(["x"])) == ['"value[0]" must be an integer']
    assert check({"type": "array"}, [NAN]) == ['"value" must be a dense lossless JSON array']
    assert check({"type": "array", "items": {}}, [1, UNSET]) == ['"value[1]" must be a lossless JSON value']
    assert check({"type": "array"}, [1, UNSET]) == ['"value" must be a dense lossless JSON array']


def test_a_list_subclass_is_walked_by_the_lists_own_iterator():
    class Liar(list):
        def __iter__(self):
            raise RuntimeError

        def __len__(self) -> int:
            return 0

    assert check({"type": "array", "items": {"type": "string"}}, Liar([1])) == ['"value[0]" must be a string']


def test_exactly_one_branch_must_match():
    # SCHEMA-D12
    def message(count: int) -> list[str]:
        return [f'"value" must match exactly one oneOf branch (matched {count})']

    number = {"oneOf": [{"type": "integer"}, {"type": "number"}, {"type": "string"}]}
    assert check(number, 1.5) == check(number, "x") == []
    assert check(number, 1) == message(2)
    assert check(number, None) == message(0)
    assert check({"oneOf": [{}, {}, {"type": "null"}]}, None) == message(3)
    records = {"oneOf": [{"type": "object"}, {"type": "object", "properties": {"a": {"type": "string"}}}]}
    assert check(records, {"a": 1}) == []
    assert check(records, {"a": "x"}) == message(2)
    assert check({"oneOf": [number, {"type": "null"}]}, 1) == message(0)
    assert check({"oneOf": [{}, {"type": "object"}]}, {"a": NAN}) == message(0)


def test_openness_and_no_coercion():
    # SCHEMA-D14
    closed = {"type": "object", "additionalProperties": False}
    assert check(closed, {}) == []
    assert check(closed, {"toString": 1}) == [
        '"value.toString" is not a declared property (additionalProperties: false)'
    ]
    assert check({"type": "object"}, {"a": 1}) == []
    assert check({"type": "object", "properties": {"n": {"type": "integer", "default": 1}}, "required": ["n"]}, {}) == [
        'missing required property "value.n"'
    ]
    for value in ("1", True, [1]):
        assert check({"type": "integer"}, value) == ['"value" must be an integer']


def test_own_keys_only():
    # SCHEMA-A8
    schema = {
        "type": "object",
        "properties": {"__proto__": {"type": "string"}, "toString": {}},
        "required": ["toString"],
    }
    assert check(schema, {}) == ['missing required property "value.toString"']
    assert check(schema, {"__proto__": 5, "toString": 1}) == ['"value.__proto__" must be a string']


@pytest.mark.parametrize("depth", [5, 50, 500])
def test_nested_data_is_walked_once(depth: int, monkeypatch: pytest.MonkeyPatch):
    # SCHEMA-D15: how often a subtree is searched for lossy parts does not grow with the depth around it
    searched: list[int] = []
    monkeypatch.setattr(validate, "is_lossless", lambda value: searched.append(depth_of(value)) or is_lossless(value))
    schema: Any = {"type": "array"}
    value: Any = [1]
    for _ in range(depth):
        schema = {"type": "object", "properties": {"in": schema}}
        value = {"in": value}
    assert check(schema, {**value, "extra": NAN}) == ['"value" must be a lossless JSON object']
    # The whole at the start, the innermost list, the stranger at the root.
    assert searched == [depth + 1, 1, 0]


def nest(depth: int, base: Any, wrap: Callable[[Any], Any]) -> Any:
    for _ in range(depth):
        base = wrap(base)
    return base


@pytest.mark.parametrize("depth", [200, 5_000, 100_000])
def test_depth_of_lists_costs_memory_only(depth: int):
    # SCHEMA-A10
    arrays = compile_json_schema(nest(depth, {"type": "integer"}, lambda inner: {"type": "array", "items": inner}))
    assert arrays.accepts(nest(depth, 1, lambda inner: [inner]))
    bad = nest(depth, "x", lambda inner: [inner])
    assert not arrays.accepts(bad)
    assert arrays.violations(bad) == [f'"value{"[0]" * depth}" must be an integer']
    assert compile_value({"type": "json"}).accepts(bad)


@pytest.mark.parametrize("depth", [200, 5_000])
def test_depth_of_unions_records_and_lossy_values_costs_memory_only(depth: int):
    # SCHEMA-A10
    unions = compile_json_schema(nest(depth, {"type": "string"}, lambda inner: {"oneOf": [inner, {"type": "null"}]}))
    assert unions.accepts("x")
    assert unions.violations(1) == ['"value" must match exactly one oneOf branch (matched 0)']
    records = compile_json_schema(
        nest(depth, {"type": "null"}, lambda inner: {"type": "object", "properties": {"": inner}})
    )
    assert check(records, nest(depth, 1, lambda inner: {"": inner}), "") == ['"arguments" must be null']
    anything = compile_value({"type": "json"})
    assert check(anything, nest(depth, NAN, lambda inner: {"a": [inner]})) == ['"value" must be a lossless JSON value']
