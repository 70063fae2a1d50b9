"""The author DSL: what it compiles to, and how a wrong spec is refused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from dsh_tools.errors import JsonSchemaError
from dsh_tools.json_value import FrozenDict, to_json_text
from dsh_tools.schema import compile_parameters, compile_value


def violations_of(compile_spec: Any, spec: Any) -> list[str]:
    with pytest.raises(JsonSchemaError) as caught:
        compile_spec(spec)
    return list(caught.value.violations)


def test_a_parameter_map_stands_for_an_open_object_root():
    # SCHEMA-B1, SCHEMA-B16, SCHEMA-B18, SCHEMA-D14
    schema = compile_parameters({"required": {"type": "string", "required": True}, "any": {"type": "json"}})
    assert schema.json == {
        "type": "object",
        "properties": {"required": {"type": "string"}, "any": {}},
        "required": ["required"],
    }
    assert schema.accepts({"required": "x", "undeclared": 1})
    assert compile_parameters({}).json == {"type": "object", "properties": {}}


def test_a_value_spec_may_be_any_root():
    # SCHEMA-B1, B2
    for spec, good, bad in [
        ({"type": "string"}, "x", 1),
        ({"type": "number"}, 1.5, "x"),
        ({"type": "integer"}, 1.0, 1.5),
        ({"type": "boolean"}, False, 0),
        ({"type": "null"}, None, 0),
        ({"type": "array", "items": {"type": "null"}}, [None], [1]),
        ({"type": "object", "additionalProperties": False}, {}, {"a": 1}),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, None, 1),
    ]:
        schema = compile_value(spec)
        assert schema.accepts(good)
        assert not schema.accepts(bad)
    assert compile_value({"type": "json"}).accepts({"anything": [None]})


def test_member_order_is_fixed():
    # SCHEMA-B17
    notes = {"examples": [1], "default": 0, "title": "t", "description": "d"}
    scalar = compile_value({**notes, "const": 1, "enum": [1, 2], "type": "integer"})
    assert list(scalar.json) == ["type", "description", "title", "default", "examples", "enum", "const"]
    array = compile_value({"items": {"type": "json"}, **notes, "type": "array"})
    assert list(array.json) == ["type", "description", "title", "default", "examples", "items"]
    record = compile_value(
        {
            "properties": {"a": {"required": True, "type": "null"}},
            "additionalProperties": True,
            **notes,
            "type": "object",
        }
    )
    assert list(record.json) == [
        *("type", "description", "title", "default", "examples", "additionalProperties", "properties", "required")
    ]
    union = compile_value({**notes, "oneOf": [{"type": "null"}, {"type": "string"}]})
    assert list(union.json) == ["oneOf", "description", "title", "default", "examples"]
    assert list(compile_parameters({"a": {"type": "null", "required": True}}).json) == [
        "type",
        "properties",
        "required",
    ]


def test_declaration_order_is_kept_for_every_name():
    # SCHEMA-A9 yields to D2
    schema = compile_parameters({name: {"type": "null", "required": True} for name in ("b", "10", "2", "__proto__")})
    assert to_json_text(schema.json["required"]) == '["b","10","2","__proto__"]'
    assert schema.violations({}, "") == [
        f'missing required property "{name}"' for name in ("b", "10", "2", "__proto__")
    ]


@pytest.mark.parametrize(
    ("spec", "violation"),
    [
        ({"type": "string", "pattern": "x", "format": "y"}, "schema.pattern is not supported by the value schema DSL"),
        ({"type": "string", "required": True}, "schema.required is not supported by the value schema DSL"),
        ({"type": "json", "enum": [1]}, "schema.enum is not supported by the value schema DSL"),
        ({"type": "array", "properties": {}}, "schema.properties is not supported by the value schema DSL"),
        (
            {"type": "array", "items": {"type": "null", "required": True}},
            "schema.items.required is not supported by the value schema DSL",
        ),
        (
            {"oneOf": [{"type": "null", "required": True}, {"type": "null"}]},
            "schema.oneOf[0].required is not supported by the value schema DSL",
        ),
    ],
)
def test_only_known_keys_are_allowed(spec: Any, violation: str):
    # SCHEMA-B3
    assert violations_of(compile_value, spec) == [violation]


@pytest.mark.parametrize("flag", [False, None, 1, "true", UNSET])
def test_required_may_only_be_true(flag: Any):
    # SCHEMA-B4
    assert violations_of(compile_parameters, {"a": {"type": "string", "required": flag}}) == [
        "parameters.a.required must be true when present"
    ]


@pytest.mark.parametrize("openness", [{}, *({"additionalProperties": v} for v in (UNSET, None, 0, {}, "true"))])
def test_objects_say_whether_they_are_open(openness: dict[str, Any]):
    # SCHEMA-B5
    assert violations_of(compile_value, {"type": "object", **openness}) == [
        "schema.additionalProperties must be explicitly true or false"
    ]
    assert violations_of(compile_value, {"type": "object", "zzz": 1, **openness}) == [
        "schema.zzz is not supported by the value schema DSL"
    ]


def test_properties_are_records_of_nodes():
    # SCHEMA-B6
    base = {"type": "object", "additionalProperties": True}
    for properties in (None, [], "x", UNSET):
        assert violations_of(compile_value, {**base, "properties": properties}) == [
            "schema.properties must be an object of value schemas"
        ]
    assert violations_of(compile_value, {**base, "properties": {"a": 1}}) == [
        "schema.properties.a must be a value schema object"
    ]


def test_unions():
    # SCHEMA-B7
    two = [{"type": "string"}, {"type": "null"}]
    assert violations_of(compile_value, {"type": UNSET, "oneOf": two}) == ["schema cannot declare both type and oneOf"]
    assert violations_of(compile_value, {"type": "string", "oneOf": two, "zzz": 1}) == [
        "schema.zzz is not supported by the value schema DSL"
    ]
    for listed in (None, (1, 2), {"a": 1}, "ab"):
        assert violations_of(compile_value, {"oneOf": listed}) == [
            "schema.oneOf must be an array of at least two value schemas"
        ]
    assert violations_of(compile_value, {"oneOf": [{"type": "string"}]}) == [
        "schema.oneOf must be an array of at least two schemas"
    ]
    assert violations_of(compile_value, {"oneOf": [{"type": "wat"}]}) == [
        "schema.oneOf[0].type must be string/number/integer/boolean/null/array/object/json, or use oneOf"
    ]


def test_enums():
    # SCHEMA-B8: what is no list is the DSL's fault, what is in the list the document's
    for listed in (None, ("a",), {"a"}, "ab", UNSET):
        assert violations_of(compile_value, {"type": "string", "enum": listed}) == [
            "schema.enum must be a non-empty array of scalar values"
        ]
    for entries in ([], [1], [None]):
        assert violations_of(compile_value, {"type": "string", "enum": entries}) == [
            "schema.enum must be a non-empty array of string values"
        ]


@pytest.mark.parametrize(
    "node", [{}, {"description": "x", "zzz": 1}, {"type": ["string"]}, {"type": "any"}, {"type": UNSET}]
)
def test_a_type_is_needed(node: Any):
    # SCHEMA-B9
    assert violations_of(compile_value, node) == [
        "schema.type must be string/number/integer/boolean/null/array/object/json, or use oneOf"
    ]


def test_nodes_and_maps_are_plain_records():
    # SCHEMA-B10
    class Record(dict):
        pass

    for node in (None, 1, [], "x", UNSET, Record(type="string"), {"type": "string", 1: 2}):
        assert violations_of(compile_value, node) == ["schema must be a value schema object"]
        assert violations_of(compile_parameters, {"a": node}) == ["parameters.a must be a value schema object"]
    for spec in (None, [], Record(), {1: {"type": "string"}}):
        assert violations_of(compile_parameters, spec) == ["parameters must be an object of value schemas"]


def test_circles_are_refused_and_sharing_is_not():
    # SCHEMA-B11, SCHEMA-B21
    node: dict[str, Any] = {"type": "array"}
    node["items"] = node
    assert violations_of(compile_value, node) == ["schema.items is circular"]
    spec: dict[str, Any] = {}
    spec["self"] = {"type": "object", "additionalProperties": True, "properties": spec}
    assert violations_of(compile_parameters, spec) == ["parameters.self.properties is circular"]
    leaf = {"type": "integer", "enum": [1, 2], "const": 1}
    schema = compile_parameters({"a": leaf, "b": leaf})
    assert schema.json["properties"] == {"a": leaf, "b": leaf}
    assert schema.json["properties"]["a"] is not schema.json["properties"]["b"]


def test_compilation_stops_at_the_first_fault_depth_first():
    # SCHEMA-B12
    spec = {
        "a": {"type": "object", "additionalProperties": True, "properties": {"x": {"type": "bad"}}},
        "b": {"type": "string", "required": 1},
    }
    assert violations_of(compile_parameters, spec) == [
        "parameters.a.properties.x.type must be string/number/integer/boolean/null/array/object/json, or use oneOf"
    ]


def test_the_second_stage_has_paths_of_its_own_and_lists_everything():
    # SCHEMA-B13, SCHEMA-B14
    spec = {"a.b": {"type": "string", "enum": []}, "": {"type": "integer", "const": "x"}}
    assert violations_of(compile_parameters, spec) == [
        "schema.properties.a.b.enum must be a non-empty array of string values",
        "schema.properties..const must be a integer value",
    ]
    assert violations_of(compile_parameters, {**spec, "z\n": {"type": "zz"}}) == [
        "parameters.z\n.type must be string/number/integer/boolean/null/array/object/json, or use oneOf"
    ]


def test_the_error_carries_code_message_and_violations():
    # SCHEMA-B15
    with pytest.raises(JsonSchemaError) as caught:
        compile_parameters({"a": {"type": "string", "enum": []}, "b": {"type": "null", "const": 0}})
    error = caught.value
    assert error.code == "UNSUPPORTED_SCHEMA"
    assert len(error.violations) == 2
    assert error.message == "unsupported JSON schema: " + "; ".join(error.violations)


def test_annotations_are_copied_by_presence_and_never_applied():
    # SCHEMA-B19, SCHEMA-D14
    schema = compile_parameters({"n": {"type": "integer", "default": "not one", "examples": None}})
    assert schema.json["properties"]["n"] == {"type": "integer", "default": "not one", "examples": None}
    assert schema.accepts({})
    assert violations_of(compile_value, {"type": "json", "default": UNSET}) == [
        "schema.default annotation must be lossless JSON data"
    ]


def test_a_compiled_schema_is_detached_and_frozen():
    # SCHEMA-B20: frozen throughout, annotations included (see the decision record)
    default: list[Any] = [1]
    spec: Any = {"a": {"type": "string", "enum": ["x"], "default": default}}
    schema = compile_parameters(spec)
    spec["a"]["enum"].append("y")
    default.append(2)
    assert schema.json["properties"]["a"] == {"type": "string", "default": [1], "enum": ["x"]}
    assert type(schema.json) is FrozenDict
    assert not schema.accepts({"a": "y"})
