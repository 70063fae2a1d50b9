"""Raw JSON Schema: the whole language, no network, no catastrophes, and messages a model can act on."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

from dsh_tools.errors import JsonSchemaError
from dsh_tools.json_value import FrozenDict
from dsh_tools.schema import (
    AnyNode,
    ArrayNode,
    MapNode,
    ObjectNode,
    RawSchema,
    RefNode,
    StringNode,
    UnionNode,
    argument_hints,
    compile_raw,
    validate_json_schema_value,
)
from dsh_tools.schema.raw_depth import reach_of


def nest(depth: int, base: Any) -> Any:
    for _ in range(depth):
        base = [base]
    return base


def test_the_whole_language_is_enforced():
    schema = compile_raw(
        {
            "type": "object",
            "properties": {"n": {"type": "integer", "minimum": 1}, "s": {"type": ["string", "null"], "pattern": "^a"}},
            "patternProperties": {"^x-": {"type": "string"}},
            "additionalProperties": False,
            "dependentRequired": {"n": ["s"]},
        }
    )
    assert schema.source == "raw"
    assert schema.accepts({"n": 1, "s": "ab", "x-1": ""})
    assert schema.accepts({"s": None})
    assert sorted(schema.violations({"n": 0, "s": "b", "x-1": 1, "y": 2}, "")) == [
        '"n" must be at least 1',
        '"s" must match the pattern "^a"',
        '"x-1" must be a string',
        '"y" is not a declared property (additionalProperties: false)',
    ]
    assert schema.violations({"n": 1}, "") == ['missing required property "s"']


@pytest.mark.parametrize(
    ("document", "value", "violations"),
    [
        ({"type": "integer"}, "2000", ['"v" must be an integer']),
        ({"type": ["string", "null"]}, 3, ['"v" must be null or a string']),
        ({"enum": [1, "a", {"b": 1}]}, 2, ['"v" must be one of [1,"a",{"b":1}]']),
        ({"const": {"a": 1}}, 2, ['"v" must be {"a":1}']),
        ({"exclusiveMinimum": 3}, 3, ['"v" must be greater than 3']),
        ({"exclusiveMaximum": 3.5}, 4, ['"v" must be less than 3.5']),
        ({"maximum": 3}, 4, ['"v" must be at most 3']),
        ({"multipleOf": 2}, 3, ['"v" must be a multiple of 2']),
        ({"minLength": 1}, "", ['"v" must have at least 1 character']),
        ({"maxLength": 1}, "ab", ['"v" must have at most 1 character']),
        ({"minItems": 2}, [1], ['"v" must have at least 2 items']),
        ({"maxItems": 1}, [1, 2], ['"v" must have at most 1 item']),
        ({"uniqueItems": True}, [1, 1], ['"v" must hold no item twice']),
        ({"minProperties": 1}, {}, ['"v" must have at least 1 property']),
        ({"maxProperties": 0}, {"a": 1}, ['"v" must have at most 0 properties']),
        ({"required": ["a", "b"]}, {}, ['missing required property "v.a"', 'missing required property "v.b"']),
        ({"properties": {"a": False}}, {"a": 1}, ['"v.a" is not allowed']),
        ({"not": {"type": "string"}}, "x", ['"v" must not match {"type":"string"}']),
        ({"unevaluatedProperties": False}, {"a": 1}, ['"v.a" is not a declared property (unevaluatedProperties: false)']),
        ({"items": {"items": {"type": "null"}}}, [[None, 1]], ['"v[0][1]" must be null']),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 3, ['"v" must match exactly one oneOf branch (matched 2)']),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, "x", ['"v" must match exactly one oneOf branch (matched 0)']),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", ['"v" must be an integer or null']),
        ({"anyOf": [{"minimum": 3}, {"multipleOf": 2}]}, 1, ['"v" must match at least one anyOf branch (matched 0)']),
        (
            {"properties": {"o": {"anyOf": [{"properties": {"a": {"type": "string"}}, "type": "object"}, {"type": "null"}]}}},
            {"o": {"a": 1}},
            ['"v.o.a" must be a string'],
        ),
        ({"allOf": [{"type": "string"}, {"type": "string"}]}, 1, ['"v" must be a string']),
        ({"contains": {"const": 1}}, [2], ['"v" breaks contains: None of [2] are valid under the given schema']),
    ],
)  # fmt: skip
def test_messages_are_in_our_vocabulary(document: Any, value: Any, violations: list[str]):
    schema = compile_raw(document)
    assert not schema.accepts(value)
    assert schema.violations(value, "v") == schema.check(value, "v") == violations


def test_long_values_do_not_make_long_messages():
    schema = compile_raw({"contains": {"const": 1}})
    [message] = schema.violations(["x" * 10_000], "v")
    assert len(message) < 300


def test_older_drafts_are_understood_where_the_document_says_so():
    old = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "string"}],
        "additionalItems": False,
    }
    assert compile_raw(old).accepts(["x"])
    assert not compile_raw(old).accepts(["x", 1])


def test_the_marker_and_its_document_compile_alike():
    document = {"type": "array", "minItems": 1}
    for given in (document, RawSchema(document)):
        assert compile_raw(given).violations([]) == ['"value" must have at least 1 item']
    assert repr(RawSchema(document)) == "<RawSchema>"
    assert compile_raw(True).accepts(1)
    assert not compile_raw(False).accepts(1)


def test_a_schema_is_compiled_from_a_snapshot():
    document: Any = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = compile_raw(document)
    document["properties"]["a"]["type"] = "integer"
    assert type(schema.json) is FrozenDict
    assert schema.accepts({"a": "x"})
    assert not schema.accepts({"a": 1})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"type": "nope"}, "schema.type is invalid"),
        (
            {"properties": {"a": {"minimum": "x"}}},
            'schema.properties.a.minimum is invalid: "x" is not of type "number"',
        ),
        ({"$ref": "#/$defs/nope"}, "Pointer '/$defs/nope' does not exist"),
        ({"pattern": "("}, "schema.pattern is not a supported regular expression"),
        ({"patternProperties": {"(?=a)": {}}}, "is not a supported regular expression (no look-around"),
        ({"properties": {"a": {1}}}, "schema.properties.a: set is not a JSON value"),
        (5, 'schema is invalid: 5 is not of types "boolean", "object"'),
        ({"enum": ["\ud800"]}, "schema cannot be compiled"),
    ],
)
def test_an_invalid_document_is_the_authors_error(document: Any, message: str):
    with pytest.raises(JsonSchemaError) as caught:
        compile_raw(document)
    assert message in caught.value.message


@pytest.mark.parametrize(
    "document",
    [
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "https://example.com/x"},
        {"$ref": "file:///etc/hostname"},
        {"$id": "http://127.0.0.1:9/a.json", "properties": {"x": {"$ref": "b.json"}}},
        {"$schema": "http://127.0.0.1:9/meta.json", "type": "string"},
    ],
)
def test_nothing_is_ever_fetched(document: Any, monkeypatch: pytest.MonkeyPatch):
    def refuse(*args: Any) -> Any:
        raise AssertionError(f"network: {args}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    start = time.monotonic()
    with pytest.raises(JsonSchemaError):
        compile_raw(document)
    assert time.monotonic() - start < 2


def test_no_connection_leaves_the_process():
    """The library is native code, so watch from outside: a listener must not be called."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0.3)
        port = listener.getsockname()[1]
        for document in ({"$ref": f"http://127.0.0.1:{port}/a"}, {"$schema": f"http://127.0.0.1:{port}/m"}):
            with pytest.raises(JsonSchemaError):
                compile_raw(document)
        with pytest.raises(TimeoutError):
            listener.accept()


RECURSIVE = {"$defs": {"J": {"type": "array", "items": {"$ref": "#/$defs/J"}}}, "$ref": "#/$defs/J"}


def test_deep_values_are_judged_or_refused_with_a_clear_message():
    schema = compile_raw(RECURSIVE)
    assert schema.accepts(nest(512, [])[0])
    for depth in (600, 100_000):
        value = nest(depth, [])
        assert not schema.accepts(value)
        assert not schema.accepts(value, depth + 1)
        assert schema.violations(value, "", depth + 1) == [
            f'"arguments" is nested {depth + 1} levels deep; at most 512 can be checked against this recursive schema'
        ]
        assert schema.violations(value, "") == schema.violations(value, "", depth + 1)
    open_ended = compile_raw({"type": "array", "items": {"type": "array"}})
    assert open_ended.accepts(nest(100_000, []))
    assert compile_raw({"type": "object"}).violations(nest(100_000, [])) == ['"value" must be an object']


def test_the_process_survives_long_reference_chains():
    """Native recursion takes stack for each level of value and each step of schema; the limit counts both."""
    program = """
import json, sys, threading
from dsh_tools.schema import compile_raw
def chain(length):
    defs = {f"r{i}": {"allOf": [{"anyOf": [{"$ref": f"#/$defs/r{i + 1}"}, {"type": "null"}]}]} for i in range(length)}
    defs[f"r{length}"] = {"type": "array", "items": {"$ref": "#/$defs/r0"}}
    return {"$defs": defs, "$ref": "#/$defs/r0"}
def check():
    for length in (1, 8, 60):
        schema = compile_raw(chain(length))
        value = []
        for depth in range(600):
            value = [value]
            if depth % 50 == 0:
                schema.accepts(value), schema.violations(value)
        print(length, schema.accepts([[]]), schema.accepts(value))
threading.stack_size(1024 * 1024)
thread = threading.Thread(target=check)
thread.start()
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.splitlines() == ["1 True False", "8 True False", "60 True False"]


@pytest.mark.parametrize(
    ("document", "limit"),
    [
        ({"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}]}}}, None),
        (RECURSIVE, 512),
        ({"uniqueItems": True}, 512),
        ({"properties": {"a": {"$ref": "#"}}}, 512),
        ({"$ref": "#"}, 512),
        ({"allOf": [{"$ref": "#"}], "anyOf": [{}] * 2000}, 16),
        (
            {
                "$defs": {f"r{i}": {"$ref": f"#/$defs/r{i + 1}"} for i in range(300)} | {"r300": {}},
                "$ref": "#/$defs/r0",
            },
            108,
        ),
    ],
)
def test_the_depth_limit_shrinks_with_the_chain(document: Any, limit: int | None):
    assert reach_of(document).limit == limit


EXPRESSION = {
    "$ref": "#/$defs/E",
    "$defs": {
        "E": {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in ("Not", "And", "Or", "Leaf")]},
        "Leaf": {"type": "object", "properties": {"leaf": {"type": "integer"}}, "required": ["leaf"]},
        **{
            name: {
                "type": "object",
                "properties": {"op": {"const": name}, "arg": {"$ref": "#/$defs/E"}, "x": {"pattern": "^a"}},
                "required": ["op", "arg"],
            }
            for name in ("Not", "And", "Or")
        },
    },
}


def expression(depth: int, leaf: Any) -> Any:
    for level in range(depth):
        leaf = {"op": ("Not", "And", "Or")[level % 3], "arg": leaf}
    return leaf


@pytest.mark.parametrize("depth", [1, 3, 12, 60, 400])
def test_nested_unions_are_explained_in_good_time(depth: int):
    schema = compile_raw(EXPRESSION)
    assert schema.accepts(expression(depth, {"leaf": 1}))
    for leaf in ({"leaf": "x"}, {"op": "Not", "arg": {"leaf": 1}, "x": "b"}, 5):
        start = time.monotonic()
        violations = schema.violations(expression(depth, leaf), "")
        hints = argument_hints(schema, expression(depth, leaf))
        assert violations
        assert len(hints) <= 5
        assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    "document",
    [
        {
            "$defs": {
                **{
                    f"r{i}": {"allOf": [{"$ref": f"#/$defs/r{i + 1}"}, {"$ref": f"#/$defs/r{i + 1}"}]}
                    for i in range(30)
                },
                "r30": {"type": "array"},
            },
            "$ref": "#/$defs/r0",
        },
        {
            "$defs": {
                **{
                    f"r{i}": {"allOf": [{"anyOf": [{"$ref": f"#/$defs/r{i + 1}"}]}], "unevaluatedItems": False}
                    for i in range(20)
                },
                "r20": {"type": "array", "items": {"$ref": "#/$defs/r0"}},
            },
            "$ref": "#/$defs/r0",
        },
    ],
)
def test_documents_that_multiply_are_refused(document: Any):
    with pytest.raises(JsonSchemaError, match="applies more than 20,000 schemas to one value"):
        compile_raw(document)


@pytest.mark.parametrize(
    "definitions",
    [
        {"p": {"$ref": "#/$defs/p"}},
        {"p": {"allOf": [{"$ref": "#/$defs/p"}]}},
        {"p": {"not": {"$ref": "#/$defs/p"}}},
        {"p": {"oneOf": [{"$ref": "#/$defs/p"}, {"type": "integer"}]}},
        {"p": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/p"}, {"$ref": "#/$defs/b"}]}},
        {"p": {"if": {"$ref": "#/$defs/p"}, "then": {"type": "integer"}}},
    ],
)
def test_documents_that_run_in_circles_end(definitions: Any):
    schema = compile_raw({"type": "object", "properties": {"p": {"$ref": "#/$defs/p"}}, "$defs": definitions})
    for value in ({}, {"p": 1}, {"p": "1"}, {"p": {"x": [1]}}, 5):
        assert (schema.violations(value) == []) == schema.accepts(value)
        assert argument_hints(schema, value) == []
    assert not schema.accepts(5)


def test_lone_surrogates_are_judged_as_replacement_characters():
    schema = compile_raw(
        {"type": "object", "properties": {"a": {"type": "string", "maxLength": 1}}, "additionalProperties": False}
    )
    assert schema.accepts({"a": "\ud800"})
    assert schema.violations({"a": "\ud800\ud800"}, "") == ['"a" must have at most 1 character']
    assert schema.violations({"\ud800": [{"\udfff": "x"}]}, "") == [
        '"\ufffd" is not a declared property (additionalProperties: false)'
    ]


def test_any_host_value_can_be_judged():
    schema = compile_raw({"type": "array"})
    assert validate_json_schema_value(schema, [1]) == []
    assert validate_json_schema_value(schema, (1,)) == ['"value" must be a lossless JSON value']
    assert validate_json_schema_value(schema, {}, "v") == ['"v" must be an array']


def test_documents_become_nodes_as_far_as_nodes_go():
    schema = compile_raw(
        {
            "type": "object",
            "definitions": {"Tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/definitions/Tree"}}}}},
            "properties": {
                "tree": {"$ref": "#/definitions/Tree", "description": "d"},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                "maybe": {"type": ["string", "null"], "description": "m", "enum": ["a", None]},
                "mixed": {"enum": ["a", 1]},
                "odd": {"if": {}, "then": {}},
                "tuple": {"type": "array", "prefixItems": [{}], "items": False},
                "one": {"allOf": [{"type": "string", "pattern": "x"}]},
                "open": {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "null"}},
                "none": {"type": "null"},
            },
            "required": ["tree", "undeclared"],
        }
    )  # fmt: skip
    node = schema.node
    assert isinstance(node, ObjectNode)
    kinds = {key: type(child).__name__ for key, child in node.properties.items()}
    assert kinds == {
        "tree": "RefNode",
        "map": "MapNode",
        "maybe": "UnionNode",
        "mixed": "UnionNode",
        "odd": "AnyNode",
        "tuple": "ArrayNode",
        "one": "StringNode",
        "open": "ObjectNode",
        "none": "NullNode",
    }
    tree = node.properties["tree"]
    assert isinstance(tree, RefNode)
    assert (tree.name, tree.description) == ("Tree", "d")
    target = schema.definitions["Tree"]
    assert isinstance(target, ObjectNode)
    kids = target.properties["kids"]
    assert isinstance(kids, ArrayNode)
    assert isinstance(kids.items, RefNode)
    maybe = node.properties["maybe"]
    assert isinstance(maybe, UnionNode)
    assert (maybe.mode, maybe.description) == ("anyOf", "m")
    assert isinstance(maybe.branches[0], StringNode)
    assert maybe.branches[0].enum == ("a",)
    assert isinstance(node.properties["map"], MapNode)
    one = node.properties["one"]
    assert one.constraints == {"pattern": "x"}
    assert node.required == ("tree", "undeclared")


def test_whatever_a_document_says_its_nodes_allow_at_least_that():
    """Nodes are for readers; what they cannot say allows more, never less."""
    documents: list[Any] = [
        True,
        {"anyOf": [{"type": "string"}]},
        {"$ref": "#/properties/a", "properties": {"a": {"type": "string"}}},
        {"$defs": {"x": {"type": "null"}}, "$ref": "#/$defs/x"},
        {"type": "object", "properties": {"p": {"$ref": "#"}}},
        {"enum": [[1]]},
        {"const": None},
        {"type": "string", "const": "a"},
    ]
    for document in documents:
        schema = compile_raw(document)
        from_nodes = type(schema).__mro__[1]({}, schema.node, "types", definitions=schema.definitions)
        for value in ("a", None, [1], {}, {"p": {"p": {}}}):
            if schema.accepts(value):
                assert from_nodes.accepts(value), json.dumps(document)
    assert isinstance(compile_raw({"enum": [[1]]}).node, AnyNode)
