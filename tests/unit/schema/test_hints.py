"""Hints: what to send instead, on lines of their own; nothing is coerced."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dsh_tools.schema import (
    IntegerNode,
    MapNode,
    NullNode,
    ObjectNode,
    RefNode,
    Schema,
    StringNode,
    UnionNode,
    argument_hints,
    compile_parameters,
    compile_raw,
    compile_value,
)

CLOSED = {"type": "object", "additionalProperties": False}
SPEC: dict[str, Any] = {
    "ms": {"type": "integer"},
    "ratio": {"type": "number"},
    "flag": {"type": "boolean"},
    "none": {"type": "null"},
    "text": {"type": "string"},
    "list": {"type": "array", "items": {"type": "integer"}},
    "options": {**CLOSED, "properties": {"path": {"type": "string", "required": True}}},
    "any": {"type": "json"},
    "shape": {
        "oneOf": [
            {
                **CLOSED,
                "properties": {
                    "kind": {"type": "string", "const": kind, "required": True},
                    size: {"type": "integer", "required": True},
                },
            }
            for kind, size in (("circle", "radius"), ("square", "side"))
        ]
    },
    "id": {"oneOf": [{"type": "integer"}, {"type": "null"}]},
}
SCHEMA = compile_parameters(SPEC)


@pytest.mark.parametrize(
    ("arguments", "hints"),
    [
        ({"ms": "2000"}, ['"ms": send 2000, not "2000"']),
        ({"ms": " 2000 "}, ['"ms": send 2000, not " 2000 "']),
        ({"ms": "1234567890123456789"}, ['"ms": send 1234567890123456789, not "1234567890123456789"']),
        ({"ms": "2.0"}, ['"ms": send 2, not "2.0"']),
        ({"ms": "3.7"}, []),
        ({"ms": "soon"}, []),
        ({"ms": ""}, []),
        ({"ms": 3.7}, []),
        ({"ms": True}, []),
        ({"ratio": "0.5"}, ['"ratio": send 0.5, not "0.5"']),
        ({"ratio": "NaN"}, []),
        ({"flag": "true"}, ['"flag": send true, not "true"']),
        ({"flag": 1}, ['"flag": send true, not 1']),
        ({"flag": 2}, []),
        ({"none": "null"}, ['"none": send null, not "null"']),
        ({"text": 5}, ['"text": send "5", not 5']),
        ({"text": True}, ['"text": send "true", not true']),
        ({"text": None}, []),
        ({"list": "[1,2]"}, ['"list": send the array itself, not a string that holds its JSON text']),
        ({"list": [1, "2"]}, ['"list[1]": send 2, not "2"']),
        ({"options": '{"path":"x"}'}, ['"options": send the object itself, not a string that holds its JSON text']),
        ({"options": {"pth": "x"}}, ['"options.pth": did you mean "path"?']),
        ({"options": {"zzz": "x"}}, []),
        ({"any": "5"}, []),
        ({"shape": {"kind": "circle", "radius": "2"}}, ['closest branch: "shape.radius" must be an integer', '"shape.radius": send 2, not "2"']),
        ({"shape": {"kind": "square"}}, ['closest branch: missing required property "shape.side"']),
        ({"shape": {"kind": "star"}}, []),
        ({"shape": 5}, []),
        ({"shape": {"kind": "circle", "radius": 1}}, []),
        ({"id": "7"}, ['"id": send 7, not "7"']),
        ('{"ms": 1}', ['"arguments": send the object itself, not a string that holds its JSON text']),
        ("hello", []),
        ([], []),
    ],
)  # fmt: skip
def test_the_right_form_is_shown(arguments: Any, hints: list[str]):
    assert argument_hints(SCHEMA, arguments) == hints


def test_a_misspelt_required_property_is_recognised_in_open_records_too():
    schema = compile_parameters({"path": {"type": "string", "required": True}, "limit": {"type": "integer"}})
    assert argument_hints(schema, {"paths": "x"}) == ['"paths": did you mean "path"?']
    assert argument_hints(schema, {"path": "x", "limits": 1}) == []


def test_what_is_accepted_gets_no_hint():
    for value in ({}, {"ms": 1.0, "text": "5", "any": "5"}, {"id": None}):
        assert SCHEMA.accepts(value)
        assert argument_hints(SCHEMA, value) == []


def test_hints_are_few():
    schema = compile_value({"type": "array", "items": {"type": "integer"}})
    assert argument_hints(schema, ["1"] * 100) == [f'"[{index}]": send 1, not "1"' for index in range(5)]


def test_raw_and_recursive_schemas_get_hints_too():
    raw = compile_raw({"type": "object", "properties": {"n": {"type": ["integer", "null"]}}, "required": ["n"]})
    assert argument_hints(raw, {"n": "5"}) == ['"n": send 5, not "5"']
    tree = ObjectNode(
        properties={"v": IntegerNode(), "next": UnionNode(branches=(RefNode(name="T"), NullNode()), mode="anyOf")}
    )
    schema = Schema({}, RefNode(name="T"), "types", definitions={"T": tree})
    assert argument_hints(schema, {"v": 1, "next": {"v": "2"}}) == ['"next.v": send 2, not "2"']
    mapped = Schema({}, MapNode(values=StringNode()), "types")
    assert argument_hints(mapped, {"a": 1}) == ['"a": send "1", not 1']


def test_the_effort_is_bounded():
    tree = ObjectNode(properties={"next": UnionNode(branches=(RefNode(name="T"), NullNode()), mode="anyOf")})
    schema = Schema({}, RefNode(name="T"), "types", definitions={"T": tree})
    value: Any = {"next": 5}
    for _ in range(20_000):
        value = {"next": value}
    wide = compile_value({"type": "array", "items": SPEC["shape"]})
    start = time.monotonic()
    assert argument_hints(schema, value) == []
    assert argument_hints(wide, [{"kind": "star"}] * 200_000) == []
    assert time.monotonic() - start < 10
