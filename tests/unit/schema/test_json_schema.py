"""The JSON Schema subset: which documents are refused, and with which violations."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from dsh_tools.errors import JsonSchemaError
from dsh_tools.json_value import snapshot
from dsh_tools.schema import (
    ArrayNode,
    ObjectNode,
    StringNode,
    UnionNode,
    assert_object_json_schema,
    assert_supported_json_schema,
    compile_json_schema,
)

KEYWORD = (
    "is not a supported keyword (subset: type/oneOf/properties/required/additionalProperties/items/enum/const"
    " + annotations)"
)


def violations_of(document: Any, check: Any = assert_supported_json_schema) -> list[str]:
    with pytest.raises(JsonSchemaError) as caught:
        check(document)
    assert caught.value.message == "unsupported JSON schema: " + "; ".join(caught.value.violations)
    return list(caught.value.violations)


def test_the_subset():
    # SCHEMA-C1
    for keyword in ("$ref", "anyOf", "pattern", "minimum", "format", "$schema", "x-note", "Type", ""):
        assert violations_of({"type": "string", keyword: 1}) == [f"schema.{keyword} {KEYWORD}"]


def test_all_violations_come_in_walk_order():
    # SCHEMA-C2, SCHEMA-C3
    document = {
        "description": float("nan"),
        "zzz": 1,
        "title": 2,
        "type": "object",
        "properties": {"a": {"type": "wat"}, "b": 5},
        "required": ["a", "q", "q"],
        "additionalProperties": {},
    }
    assert violations_of(document) == [
        "schema.description annotation must be lossless JSON data",
        f"schema.zzz {KEYWORD}",
        "schema.description must be a string",
        "schema.title must be a string",
        "schema.properties.a.type must be one of object/array/string/number/integer/boolean/null",
        "schema.properties.b must be a schema object",
        'schema.required names "q" which is not in properties',
        'schema.required names "q" which is not in properties',
        "schema.additionalProperties must be a boolean",
    ]


@pytest.mark.parametrize(
    "document", [None, True, [], "string", 1, UNSET, {1: 2}, type("D", (dict,), {})(type="string")]
)
def test_schemas_are_plain_records(document: Any):
    # SCHEMA-C3
    assert violations_of(document) == ["schema must be a schema object"]
    assert violations_of({"type": "array", "items": document}) == ["schema.items must be a schema object"]


def test_frozen_documents_are_plain_records():
    assert_supported_json_schema(snapshot({"type": "object", "properties": {"a": {"enum": [1], "type": "number"}}}))


def test_circles():
    # SCHEMA-C3
    node: dict[str, Any] = {"type": "array"}
    node["items"] = node
    assert violations_of(node) == ["schema.items is circular"]
    shared = {"type": "null"}
    assert_supported_json_schema({"oneOf": [shared, shared]})


def test_type_and_union_exclude_each_other():
    # SCHEMA-C4
    assert violations_of({"type": UNSET, "oneOf": UNSET, "enum": []}) == ["schema cannot declare both type and oneOf"]


def test_constraints_need_a_type():
    # SCHEMA-C5
    document = {"const": 1, "enum": [], "items": 5, "properties": {"a": 5}}
    assert violations_of(document) == [
        f"schema.{keyword} requires type or oneOf" for keyword in ("properties", "items", "enum", "const")
    ]


def test_unions_have_two_branches_and_no_siblings():
    # SCHEMA-C6
    for listed in ([], [{}], None, {"a": {}}, ({}, {})):
        assert violations_of({"oneOf": listed}) == ["schema.oneOf must be an array of at least two schemas"]
    assert violations_of({"const": 1, "oneOf": [{"type": "x"}, 1], "items": {}}) == [
        "schema.oneOf[0].type must be one of object/array/string/number/integer/boolean/null",
        "schema.oneOf[1] must be a schema object",
        "schema.items is not supported beside oneOf",
        "schema.const is not supported beside oneOf",
    ]


def test_types():
    # SCHEMA-C7
    assert violations_of({"type": ["string"], "items": 1}) == [
        "schema.type must be a single type string (type arrays are not supported)"
    ]
    for kind in ("String", "any", None, 1, UNSET, {}):
        assert violations_of({"type": kind}) == [
            "schema.type must be one of object/array/string/number/integer/boolean/null"
        ]


def test_misplaced_keywords_are_not_visited():
    # SCHEMA-C8
    everything = {"const": 1, "enum": 5, "items": 5, "additionalProperties": 5, "required": 5, "properties": 5}
    order = ["properties", "required", "additionalProperties", "items", "enum", "const"]
    for kind, own in [("null", ["enum", "const"]), ("array", ["items"]), ("object", order[:3])]:
        given = {key: value for key, value in everything.items() if key not in own}
        assert violations_of({"type": kind, **given}) == [
            f'schema.{key} is not supported on type "{kind}"' for key in order if key not in own
        ]


def test_objects():
    # SCHEMA-C9, SCHEMA-C13
    assert violations_of({"type": "object", "properties": [], "required": ["a"]}) == [
        "schema.properties must be an object of schemas",
        'schema.required names "a" which is not in properties',
    ]
    for required in ("a", ("a",), [1], None, {"a": 1}):
        assert violations_of({"type": "object", "properties": {"a": {}}, "required": required}) == [
            "schema.required must be an array of strings"
        ]
    assert violations_of({"type": "object", "properties": {}, "required": ["toString"]}) == [
        'schema.required names "toString" which is not in properties'
    ]
    assert_supported_json_schema({"type": "object", "properties": {"a": {}}, "required": ["a", "a"]})
    assert_supported_json_schema({"type": "object", "required": []})


def test_items_are_one_schema():
    # SCHEMA-C10
    for items in ([{}], True, UNSET, None):
        assert violations_of({"type": "array", "items": items}) == ["schema.items must be a schema object"]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("string", ["a", "a"], [1]),
        ("number", [1, 1.5, 1e21], [-0.0]),
        ("integer", [1.0, 1e21, 2**70], [1.5]),
        ("integer", [0], [True]),
        ("integer", [0], [-0.0]),
        ("boolean", [True, True], [1]),
        ("null", [None], [UNSET]),
        ("number", [1], [float("inf")]),
    ],
)
def test_enum_entries_have_the_type(kind: str, good: list[Any], bad: list[Any]):
    # SCHEMA-C11
    assert_supported_json_schema({"type": kind, "enum": good})
    for entries in (bad, [*good, *bad], [], tuple(good), None):
        assert violations_of({"type": kind, "enum": entries}) == [
            f"schema.enum must be a non-empty array of {kind} values"
        ]


def test_const():
    # SCHEMA-C12
    assert violations_of({"type": "integer", "const": "1"}) == ["schema.const must be a integer value"]
    assert violations_of({"type": "null", "const": UNSET}) == ["schema.const must be a null value"]
    assert violations_of({"type": "integer", "enum": [1, 2], "const": 3}) == [
        "schema.const must be one of schema.enum when both are declared"
    ]
    assert violations_of({"type": "integer", "enum": ["x"], "const": 3}) == [
        "schema.enum must be a non-empty array of integer values"
    ]
    assert_supported_json_schema({"type": "number", "enum": [1], "const": 1.0})


def test_object_roots():
    # SCHEMA-C14
    assert_object_json_schema({"type": "object"})
    message = 'schema.type must be "object" (structured output is object-rooted)'
    for document in ({}, {"type": "array"}, {"oneOf": [{"type": "object"}, {"type": "object"}]}):
        assert violations_of(document, assert_object_json_schema) == [message]
    assert violations_of({"type": "array", "items": 1}, assert_object_json_schema) == [
        "schema.items must be a schema object"
    ]


def test_documents_become_nodes():
    schema = compile_json_schema(
        {
            "type": "object",
            "properties": {"b": {"type": "string", "description": "d", "enum": ["x"]}, "a": {"type": "array"}},
            "required": ["a", "a"],
            "additionalProperties": False,
            "title": "T",
            "default": {"b": ["x"]},
        }
    )
    node = schema.node
    assert isinstance(node, ObjectNode)
    assert (list(node.properties), node.required, node.additional, node.declared) == (
        ["b", "a"],
        ("a", "a"),
        False,
        True,
    )
    assert (node.title, node.description, node.default) == ("T", None, {"b": ["x"]})
    first = node.properties["b"]
    assert isinstance(first, StringNode)
    assert (first.enum, first.description) == (("x",), "d")
    assert isinstance(node.properties["a"], ArrayNode)
    union = compile_json_schema({"oneOf": [{}, {"type": "object"}]}).node
    assert isinstance(union, UnionNode)
    assert (union.mode, len(union.branches)) == ("oneOf", 2)
    assert isinstance(union.branches[1], ObjectNode)
    assert not union.branches[1].declared


def test_a_deep_document_is_checked_or_refused_without_recursion():
    # SCHEMA-A10
    document: Any = {"type": "string", "enum": []}
    for _ in range(20_000):
        document = {"type": "array", "items": document}
    [violation] = violations_of(document)
    assert violation.startswith("schema.items.items")
    assert violation.endswith(".items.enum must be a non-empty array of string values")
