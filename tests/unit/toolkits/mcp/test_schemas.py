"""Servers' schemas: used where they can be, left open with a warning where not."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_tools.schema import to_typescript
from dsh_tools.toolkits.mcp.schemas import nest_schema, output_schema, parameter_schema

TREE: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}, "again": {"$ref": "#"}},
    "required": ["root"],
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"v": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            "required": ["v"],
            "additionalProperties": False,
        }
    },
}


@pytest.mark.parametrize(
    "document",
    [
        {"type": "object", "properties": {"a": {"type": "strin"}}},
        {"type": "array"},
        {"type": "object", "properties": {"a": {"pattern": "(?=x)"}}},
        {"type": "object", "properties": {"a": {"$ref": "http://example.test/x"}}},
        None,
        [],
    ],
)
def test_parameters_that_are_no_schema_admit_any_object_and_say_so(document: Any, caplog: pytest.LogCaptureFixture):
    # HOST-235: D32 has them registered open, with a warning
    schema = parameter_schema('tool "x"', document)
    assert schema.accepts({"anything": [1]})
    assert not schema.accepts([])
    assert 'tool "x": its parameters are not checked' in caplog.text


def test_parameters_are_checked_by_the_whole_of_json_schema():
    # HOST-235: D8 has raw parameters validated here, too
    schema = parameter_schema("t", {"properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]})
    assert schema.json["type"] == "object"
    assert schema.accepts({"n": 3})
    assert not schema.accepts({"n": 2})


def test_structured_content_is_required_and_checked_where_a_schema_says_so():
    # HOST-236
    schema = output_schema("t", TREE)
    good = {"root": {"v": "a", "children": [{"v": "b"}]}}
    assert schema.accepts({"content": [], "structuredContent": good})
    assert schema.accepts({"content": [], "structuredContent": {**good, "again": good}})
    assert not schema.accepts({"content": [], "structuredContent": {**good, "again": {"root": {}}}})
    assert not schema.accepts({"content": [], "structuredContent": {"root": {"v": "a", "children": [{"w": 1}]}}})
    assert not schema.accepts({"content": []})
    assert "root: " in to_typescript(schema)


@pytest.mark.parametrize("document", [{"type": "nonsense"}, {"$ref": "http://example.test/x"}, 3])
def test_schemas_that_cannot_be_used_leave_structured_content_open(document: Any, caplog: pytest.LogCaptureFixture):
    # HOST-236
    schema = output_schema('tool "x"', document)
    assert schema.accepts({"content": []})
    assert schema.accepts({"content": [], "structuredContent": 3})
    assert 'tool "x": its structured content may be any JSON' in caplog.text


def test_without_a_schema_anything_goes_silently(caplog: pytest.LogCaptureFixture):
    # HOST-236
    assert output_schema("t", None).accepts({"content": [], "structuredContent": None})
    assert caplog.text == ""


def test_nesting_moves_references_and_nothing_else():
    moved = nest_schema({"$ref": "#/a/b", "const": {"$ref": "#"}, "x": [{"$ref": "#"}], "$schema": "s"}, "#/p")
    assert moved == {"$ref": "#/p/a/b", "const": {"$ref": "#"}, "x": [{"$ref": "#/p"}]}
    named = {"$id": "urn:x", "$ref": "#/a"}
    assert nest_schema(named, "#/p") == named
