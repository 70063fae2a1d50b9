"""Tool lists in the form of each provider."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.raw_schemas import near, parameters

from dsh_tools.errors import ConfigError
from dsh_tools.schema import (
    Dialect,
    ExportResult,
    RawSchema,
    SdkTool,
    compile_parameters,
    compile_raw,
    export_tools,
)
from dsh_tools.tools import define_tool

DIALECTS: tuple[Dialect, ...] = ("openai-chat", "openai-responses", "anthropic", "gemini", "mcp")
LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def record(schema: Any, name: str = "t", description: object = "does it") -> dict[str, Any]:
    return {"name": name, "description": description, "parameters": schema}


def obj(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def wire(result: ExportResult, index: int = 0) -> dict[str, Any]:
    """The parameters of one exported tool, wherever the dialect keeps them."""
    tool = result.tools[index]
    tool = tool.get("function", tool)
    for key in ("parameters", "input_schema", "inputSchema"):
        if key in tool:
            return tool[key]
    return {}


def strict(schema: Any) -> dict[str, Any]:
    result = export_tools([record(schema)], "openai-responses", strict=True)
    assert result.tools[0]["strict"] is True, result.notes
    return wire(result)


def not_strict(schema: Any) -> str:
    """The reason why a tool is sent without strict; its schema is then sent as it is."""
    result = export_tools([record(schema)], "openai-responses", strict=True)
    assert result.tools[0]["strict"] is False
    assert not result.refused
    return result.notes[0].reason


def gemini(schema: Any, **options: Any) -> dict[str, Any]:
    result = export_tools([record(schema)], "gemini", **options)
    assert not result.refused, result.refused
    return wire(result)


def refusal(schema: Any, dialect: Dialect = "gemini") -> str:
    result = export_tools([record(schema), record(obj({"ok": {"type": "string"}}), "other")], dialect)
    # Nothing else is lost.
    assert list(result.names) == ["other"]
    [note] = result.refused
    assert note.tool == "t"
    return str(note)


# ── envelopes ──────────────────────────────────────────────────────────────────

SIMPLE = obj({"q": {"type": "string", "default": "v1"}}, "q")


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (
            "openai-chat",
            {"type": "function", "function": {"name": "t", "description": "does it", "parameters": SIMPLE}},
        ),
        (
            "openai-responses",
            {"type": "function", "name": "t", "description": "does it", "parameters": SIMPLE, "strict": False},
        ),
        ("anthropic", {"name": "t", "description": "does it", "input_schema": SIMPLE}),
        ("mcp", {"name": "t", "description": "does it", "inputSchema": SIMPLE}),
        (
            "gemini",
            {
                "name": "t",
                "description": "does it",
                "parameters": {
                    "type": "OBJECT",
                    "properties": {"q": {"type": "STRING", "description": 'Default: "v1".'}},
                    "required": ["q"],
                },
            },
        ),
    ],
)
def test_envelopes(dialect: Dialect, expected: dict[str, Any]):
    result = export_tools([record(SIMPLE)], dialect)
    assert result.tools == [expected]
    assert result.names == {"t": "t"}
    assert result.notes == result.refused == []


def test_strict_flags():
    chat = export_tools([record(SIMPLE)], "openai-chat", strict=True).tools[0]
    assert chat["function"]["strict"] is True
    assert export_tools([record(SIMPLE)], "openai-responses", strict=True).tools[0]["strict"] is True


def test_other_dialects_say_that_they_have_no_strict_mode():
    for dialect in ("anthropic", "gemini", "mcp"):
        result = export_tools([record(SIMPLE)], dialect, strict=True)
        assert [note.reason for note in result.notes] == [f"{dialect} has no strict mode here; exported without"]
        assert len(result.tools) == 1


def test_mcp_lists_object_outputs_only():
    tools = [
        SdkTool("a", "", SIMPLE, obj({"n": {"type": "integer"}})),
        SdkTool("b", "", SIMPLE, {"type": "string"}),
        SdkTool("c", "", SIMPLE, 7),
    ]
    result = export_tools(tools, "mcp")
    assert [tool.get("outputSchema") for tool in result.tools] == [obj({"n": {"type": "integer"}}), None, None]
    assert [note.tool for note in result.notes] == ["c"]
    assert "outputSchema" not in export_tools(tools, "anthropic").tools[0]


def test_inputs_of_every_kind_are_read():
    spec = {"path": {"type": "string", "required": True}}
    document = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    for schema in (compile_parameters(spec), RawSchema(document), compile_raw(document), document):
        assert wire(export_tools([record(schema, description=None)], "anthropic")) == document


def test_definitions_are_read():
    definition = define_tool(
        name="add",
        description="Add.",
        parameters={"n": {"type": "integer", "required": True}},
        output={"type": "object", "properties": {"sum": {"type": "integer"}}, "additionalProperties": False},
        execute=lambda args, run: {"sum": args["n"]},
    )
    [listed] = export_tools([definition], "mcp").tools
    assert listed["inputSchema"] == obj({"n": {"type": "integer"}}, "n")
    assert listed["outputSchema"]["properties"] == {"sum": {"type": "integer"}}


def test_the_records_are_plain_and_independent():
    schema = compile_parameters({"path": {"type": "string"}})
    exported = wire(export_tools([record(schema)], "anthropic"))
    assert type(exported) is dict
    exported["properties"]["path"]["type"] = "integer"
    assert wire(export_tools([record(schema)], "anthropic"))["properties"]["path"]["type"] == "string"


def test_an_unknown_dialect_is_an_error():
    with pytest.raises(ConfigError, match=r'unknown provider dialect "bedrock" \(known: openai-chat, '):
        export_tools([], "bedrock")  # pyright: ignore[reportArgumentType]


# ── names ──────────────────────────────────────────────────────────────────────


def exported_names(*names: str, dialect: Dialect = "openai-chat") -> dict[str, str]:
    result = export_tools([record(SIMPLE, name) for name in names], dialect)
    return {own: sent for sent, own in result.names.items()}


def test_legal_names_are_sent_as_they_are():
    names = ["7zip_list", "search-a", "search_a", "A" * 64, "_", "--"]
    assert exported_names(*names) == {name: name for name in names}


def test_other_names_are_spelled_and_noted():
    result = export_tools([record(SIMPLE, "a.b/c d")], "anthropic")
    assert result.names == {"a_b_c_d": "a.b/c d"}
    assert str(result.notes[0]) == 'tool "a.b/c d": sent as "a_b_c_d": a name has 1 to 64 of a-z A-Z 0-9 _ -'


def test_colliding_names_stay_apart():
    sent = exported_names("a.b", "a_b", "a/b", "x" * 70, "x" * 71)
    assert sent["a_b"] == "a_b"
    assert len(set(sent.values())) == 5
    assert all(re.fullmatch(r"a_b_[0-9a-f]{8}", sent[name]) for name in ("a.b", "a/b"))
    # The order of the tools does not matter.
    assert exported_names("x" * 71, "a/b", "a_b", "x" * 70, "a.b") == sent


def test_gemini_names_start_with_a_letter():
    assert exported_names("7zip_list", "-x", dialect="gemini") == {"7zip_list": "_7zip_list", "-x": "_-x"}


def test_mcp_allows_dots_and_length():
    names = ["a.b", "x" * 128]
    assert exported_names(*names, dialect="mcp") == {name: name for name in names}


def test_a_repeated_name_is_refused():
    result = export_tools([record(SIMPLE, "a"), record(SIMPLE, "a")], "mcp")
    assert len(result.tools) == 1
    assert [str(note) for note in result.refused] == ['tool "a": another tool of the list has the same name']


@given(st.lists(st.text(max_size=6) | st.text("a.-_é", min_size=60, max_size=70), unique=True, max_size=8))
def test_names_are_injective_and_legal(names: list[str]):
    sent = exported_names(*names)
    assert set(sent) == set(names)
    assert len(set(sent.values())) == len(names)
    assert all(LEGAL.fullmatch(name) for name in sent.values())
    assert all(sent[name] == name for name in names if LEGAL.fullmatch(name))


# ── roots ──────────────────────────────────────────────────────────────────────

UNION_ROOT = {
    "oneOf": [
        obj({"kind": {"const": "a"}, "n": {"type": "integer"}}, "kind"),
        obj({"kind": {"const": "b"}}, "kind"),
    ]
}


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf", "allOf", "not", "enum"])
@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic"])
def test_what_may_not_stand_at_the_root_is_wrapped(dialect: Dialect, keyword: str):
    value = {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["c"]}, "enum": [{"a": 1}]}
    schema = obj({"a": {"type": "integer"}}, **{keyword: value.get(keyword, value["oneOf"])})
    result = export_tools([record(schema)], dialect)
    assert wire(result) == obj({"input": schema}, "input", additionalProperties=False)
    assert result.notes[0].reason.startswith(f"{keyword} may not stand at the root")
    assert result.restore("t", {"input": {"a": 1}}) == ("t", {"a": 1})
    # A model that leaves the wrapper out is understood, too.
    assert result.restore("t", {"a": 1}) == ("t", {"a": 1})


def test_a_wrapped_root_in_strict_and_in_gemini():
    assert list(strict(UNION_ROOT)["properties"]["input"]) == ["anyOf"]
    assert list(gemini(UNION_ROOT)["properties"]["input"]) == ["anyOf"]
    assert wire(export_tools([record(UNION_ROOT)], "mcp")) == {**UNION_ROOT, "type": "object"}


def test_a_wrapped_root_keeps_its_references():
    schema = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "leaf": {"$ref": "#/definitions/Leaf"}},
        "anyOf": [{"required": ["next"]}, {"required": ["leaf"]}],
        "definitions": {"Leaf": {"type": "string"}},
    }
    result = export_tools([record(schema)], "anthropic")
    exported = compile_raw(wire(result))
    assert exported.accepts({"input": {"next": {"leaf": "x"}}})
    assert not exported.accepts({"input": {"next": {"leaf": 1}}})
    assert not exported.accepts({"input": {"next": {}}})


def test_a_root_that_refers_is_replaced_by_its_definition():
    node = obj({"v": {"type": "string"}, "ch": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}, "v")
    exported = wire(export_tools([record({"$ref": "#/$defs/Node", "$defs": {"Node": node}})], "openai-chat"))
    assert exported == {**node, "$defs": {"Node": node}}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_root_that_is_no_object_is_refused(dialect: Dialect):
    assert refusal({"type": "string"}, dialect) == 'tool "t": the root must be an object, not string'


@pytest.mark.parametrize("root", [{}, {"type": ["object", "null"]}, {"properties": {}}])
@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic", "mcp"])
def test_a_root_without_type_gets_one(dialect: Dialect, root: dict[str, Any]):
    assert wire(export_tools([record(root)], dialect))["type"] == "object"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (7, "the schema is not an object"),
        (None, "the schema is not an object"),
        ({"type": "object", "x": {1, 2}}, "the schema is not lossless JSON"),
        ({"type": "wat"}, "unsupported JSON schema"),
        ({"$ref": "https://example.com/s.json"}, "unsupported JSON schema"),
        ({"$ref": "#/$defs/missing"}, "unsupported JSON schema"),
    ],
)
def test_what_is_no_schema_is_refused_by_name(dialect: Dialect, schema: Any, reason: str):
    assert reason in refusal(schema, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_cyclic_document_is_refused_by_name(dialect: Dialect):
    cyclic: dict[str, Any] = {"type": "object", "properties": {}}
    cyclic["properties"]["self"] = cyclic
    assert "not lossless JSON" in refusal(cyclic, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("depth", [90, 5_000])
def test_deep_documents_never_crash(dialect: Dialect, depth: int):
    document: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        document = {"type": "object", "properties": {"n": document}}
    result = export_tools([record(document), record(SIMPLE, "other")], dialect, strict=True)
    assert "other" in result.names
    if depth > 200:
        assert "levels deep" in result.refused[0].reason
    for compiled in (compile_parameters({"a": {"type": "string"}}),):
        assert export_tools([record(compiled)], dialect).tools


# ── OpenAI without strict ──────────────────────────────────────────────────────


def test_openai_gets_items_and_properties():
    schema = {"type": "object", "properties": {"xs": {"type": "array"}, "type": {"type": ["array", "null"]}}}
    exported = wire(export_tools([record(schema)], "openai-chat"))
    assert exported["properties"] == {
        "xs": {"type": "array", "items": {}},
        "type": {"type": ["array", "null"], "items": {}},
    }
    assert wire(export_tools([record({"type": "object"})], "openai-chat")) == {"type": "object", "properties": {}}


# ── strict mode ────────────────────────────────────────────────────────────────


def test_strict_closes_and_requires_everything():
    inner = obj({"x": {"type": "string"}, "y": {"type": "integer"}}, "y")
    assert strict(obj({"u": {"type": "string"}, "age": {"type": "integer"}, "in": inner}, "u")) == {
        "type": "object",
        "properties": {
            "u": {"type": "string"},
            "age": {"type": ["integer", "null"]},
            "in": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"x": {"type": ["string", "null"]}, "y": {"type": "integer"}},
                        "required": ["x", "y"],
                        "additionalProperties": False,
                    },
                    {"type": "null"},
                ]
            },
        },
        "required": ["u", "age", "in"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["string", "null"], "default": None}, {"type": ["string", "null"], "description": "Default: null."}),
        ({"enum": ["a", 1, None]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "integer", "enum": [1]}, {"type": "null"}]}),
        ({"enum": ["a", None, "a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"const": True}, {"type": "boolean", "enum": [True]}),
        ({"type": "number", "enum": ["no", 1, True, 1.0]}, {"type": "integer", "enum": [1]}),
        ({"type": "string", "enum": ["a", "long"], "maxLength": 1}, {"type": "string", "enum": ["a"]}),
        ({"type": "integer", "exclusiveMinimum": 0.5, "minimum": 0}, {"type": "integer", "minimum": 1}),
        ({"type": "string", "format": "uuid", "title": "Id"}, {"type": "string", "format": "uuid", "title": "Id"}),
        ({"type": "string", "format": "uri", "description": "Where."}, {"type": "string", "description": "Where. Format: uri."}),
        ({"type": "string", "examples": ["a", "b"]}, {"type": "string", "description": 'Examples: "a", "b".'}),
        ({"type": "string", "minLength": 0, "x-secret": 1, "minItems": 3}, {"type": "string"}),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": False}, {"type": "array", "items": {"type": "string"}}),
        ({"allOf": [{"type": "string"}], "description": "d"}, {"type": "string", "description": "d"}),
        ({"anyOf": [{"type": "string"}]}, {"type": "string"}),
        ({"type": "string", "anyOf": [{"enum": ["a", 1]}, {"pattern": "^b"}]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "string", "pattern": "^b"}]}),
        ({"properties": {}, "additionalProperties": False}, obj({}, additionalProperties=False)),
    ],
)  # fmt: skip
def test_strict_conversions_that_lose_nothing(schema: dict[str, Any], expected: dict[str, Any]):
    assert strict(obj({"p": schema}, "p"))["properties"]["p"] == expected


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({}, "any JSON value cannot be said in strict mode"),
        ({"type": "array"}, "any JSON value cannot be said in strict mode"),
        ({"type": "object"}, "an object with free keys cannot be said in strict mode"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "an object with free keys"),
        (obj({"a": {"type": "string"}}, additionalProperties=True), "undeclared keys cannot be sent"),
        (obj({"a": {"type": "string"}}, patternProperties={"^x": {}}), "patternProperties is not allowed"),
        ({"type": "string", "minLength": 2}, "minLength is not allowed"),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "uniqueItems is not allowed"),
        ({"type": "string", "not": {"const": "a"}}, "not is not allowed"),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "allOf is not allowed"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf alternatives that may overlap"),
        ({"anyOf": [{"type": "string"}], "oneOf": [{}]}, "anyOf beside oneOf"),
        ({"type": "object", "properties": {}, "anyOf": [{}]}, "anyOf beside properties"),
        ({"type": "integer", "anyOf": [{"type": "number"}]}, "a type beside alternatives of other types"),
        ({"type": "object", "required": ["zz"]}, '"zz" is required but not declared'),
        ({"enum": [{"a": 1}]}, "a listed value that is an object or a list"),
        ({"type": "string", "enum": [1]}, "a schema that accepts nothing"),
        (False, "a schema that accepts nothing"),
        ({"$ref": "#/properties/p"}, "a reference that only leads back to itself"),
        ({"enum": list(range(1_001))}, "more than 1000 listed values"),
    ],
)
def test_what_strict_cannot_say_is_sent_without(schema: Any, reason: str):
    assert reason in not_strict(obj({"p": schema}, "p"))


def test_strict_keeps_references_and_recursion():
    node = obj(
        {
            "v": {"type": "integer"},
            "next": {"$ref": "#/definitions/N"},
            "doc": {"$ref": "#/definitions/N", "description": "d"},
        },
        "v",
        "doc",
    )
    exported = strict({**obj({"n": {"$ref": "#/definitions/N"}}, "n"), "definitions": {"N": node, "unused": {}}})
    assert exported["properties"]["n"] == {"$ref": "#/$defs/N"}
    assert list(exported["$defs"]) == ["N"]
    assert exported["$defs"]["N"]["properties"] == {
        "v": {"type": "integer"},
        "next": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]},
        "doc": {"anyOf": [{"$ref": "#/$defs/N"}], "description": "d"},
    }


def test_strict_nulls_turn_back_into_absent_keys():
    branch = obj({"kind": {"const": "a"}, "x": {"type": "string"}}, "kind")
    other = obj({"kind": {"const": "b"}, "x": {"type": ["string", "null"]}}, "kind")
    schema = obj({"u": {"oneOf": [branch, other]}, "xs": {"type": "array", "items": branch}, "n": {"$ref": "#"}})
    result = export_tools([record(schema)], "openai-chat", strict=True)
    assert result.tools[0]["function"]["strict"]

    def restored(**arguments: Any) -> Any:
        full = {"u": None, "xs": None, "n": None, **arguments}
        assert compile_raw(wire(result)).accepts(full)
        own = result.restore("t", full)[1]
        assert compile_raw(schema).accepts(own)
        return own

    assert restored() == {}
    assert restored(u={"kind": "a", "x": None}) == {"u": {"kind": "a"}}
    assert restored(u={"kind": "b", "x": None}) == {"u": {"kind": "b", "x": None}}
    assert restored(xs=[{"kind": "a", "x": None}, {"kind": "a", "x": "1"}]) == {
        "xs": [{"kind": "a"}, {"kind": "a", "x": "1"}]
    }
    assert restored(n={"u": None, "xs": [], "n": None}) == {"n": {"xs": []}}


# ── Gemini ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["string", "null"], "default": None}, {"type": "STRING", "nullable": True, "description": "Default: null."}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "title": "T"}, {"type": "STRING", "title": "T", "nullable": True}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "description": "d"}, {"anyOf": [{"type": "STRING", "description": "d", "nullable": True}, {"type": "INTEGER"}]}),
        ({"anyOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "integer"}]}, {"anyOf": [{"type": "STRING", "nullable": True}, {"type": "INTEGER"}]}),
        ({"type": "null"}, {"type": "NULL"}),
        ({"enum": ["a", "b"]}, {"type": "STRING", "enum": ["a", "b"]}),
        ({"const": 3}, {"type": "INTEGER", "minimum": 3, "maximum": 3}),
        ({"enum": [1, 2.5]}, {"anyOf": [{"type": "NUMBER", "minimum": 1, "maximum": 1}, {"type": "NUMBER", "minimum": 2.5, "maximum": 2.5}]}),
        ({"enum": [True, False]}, {"type": "BOOLEAN"}),
        ({"type": "string", "format": "date-time", "minLength": 2}, {"type": "STRING", "format": "date-time", "minLength": 2}),
        ({"type": "integer", "format": "int64", "exclusiveMaximum": 10}, {"type": "INTEGER", "maximum": 9, "description": "Format: int64."}),
        ({"type": "array", "items": {"$ref": "#/$defs/Leaf"}, "maxItems": 2}, {"type": "ARRAY", "items": {"type": "STRING"}, "maxItems": 2}),
        (obj({"a": {"type": "string"}}, additionalProperties=True), {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}),
    ],
)  # fmt: skip
def test_gemini_conversions_that_lose_nothing(schema: dict[str, Any], expected: dict[str, Any]):
    document = {**obj({"p": schema}, "p"), "$defs": {"Leaf": {"type": "string"}}}
    assert gemini(document)["properties"]["p"] == expected


@pytest.mark.parametrize(
    ("schema", "reason", "lossy"),
    [
        ({}, "any JSON value", {"anyOf": [{"type": "STRING", "nullable": True}, {"type": "NUMBER"}, {"type": "BOOLEAN"}]}),
        ({"type": "object"}, "an object with free keys", {"type": "OBJECT"}),
        (obj({}, additionalProperties=False), "Gemini takes no object without properties", {"type": "OBJECT"}),
        ({"type": "number", "exclusiveMinimum": 0}, "exclusiveMinimum is not allowed", {"type": "NUMBER"}),
        ({"type": "integer", "multipleOf": 2}, "multipleOf is not allowed", {"type": "INTEGER"}),
        ({"const": True}, "Gemini cannot ask for true alone", {"type": "BOOLEAN"}),
        ({"enum": ["", "a"]}, "Gemini lists no empty string", {"type": "STRING", "enum": ["a"]}),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf alternatives that may overlap", {"anyOf": [{"type": "INTEGER"}, {"type": "NUMBER"}]}),
    ],
)  # fmt: skip
def test_what_gemini_cannot_say_is_refused_unless_losses_are_allowed(schema: Any, reason: str, lossy: dict[str, Any]):
    document = obj({"p": schema}, "p")
    assert refusal(document).startswith(f'tool "t" at p: {reason}')
    result = export_tools([record(document)], "gemini", lossy=True)
    assert wire(result)["properties"]["p"] == lossy
    assert result.notes[0].path == "p"
    assert result.notes[0].reason.startswith(reason)


def test_gemini_has_no_recursion():
    document = {**obj({"n": {"$ref": "#/$defs/N"}}), "$defs": {"N": obj({"next": {"$ref": "#/$defs/N"}})}}
    assert refusal(document) == "tool \"t\" at n.next: the definition 'N' is recursive, which Gemini cannot say"


def test_written_out_references_have_a_limit():
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for number in range(1, 30):
        pair = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = obj({"a": pair, "b": pair})
    document = {**obj({"x": {"$ref": "#/$defs/d29"}}), "$defs": definitions}
    assert "too large or too deeply nested for Gemini" in refusal(document)
    assert export_tools([record(document)], "openai-chat").tools


def test_no_arguments():
    for schema in (obj({}), {"type": "object"}, obj({}, additionalProperties=False)):
        result = export_tools([record(schema, "now")], "gemini")
        assert result.tools == [{"name": "now", "description": "does it"}]
        assert strict(schema) == obj({}, additionalProperties=False)
        assert result.restore("now", None) == ("now", {})


# ── property names ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
def test_property_names_are_renamed_where_they_must(dialect: Dialect):
    inner = obj({"$top": {"type": "integer"}, "_top": {"type": "string"}}, "$top")
    schema = obj({"$filter": {"type": "string"}, "page": inner, "xs": {"type": "array", "items": inner}}, "$filter")
    result = export_tools([record(schema)], dialect)
    exported = wire(result)
    assert list(exported["properties"]) == ["_filter", "page", "xs"]
    assert exported["required"] == ["_filter"]
    renamed, kept = exported["properties"]["page"]["properties"]
    assert kept == "_top"
    assert re.fullmatch(r"_top_[0-9a-f]{8}", renamed)
    sent = {"_filter": "x", "page": {renamed: 1, "_top": "y"}, "xs": [{renamed: 2}]}
    own = {"$filter": "x", "page": {"$top": 1, "_top": "y"}, "xs": [{"$top": 2}]}
    assert result.restore("t", sent) == ("t", own)
    assert '"$filter" is sent as "_filter"' in [note.reason for note in result.notes]


def test_gemini_property_names_have_no_dashes():
    result = export_tools([record(obj({"cik-A": {"type": "string"}}))], "gemini")
    assert result.restore("t", {"cik_A": "x"}) == ("t", {"cik-A": "x"})


def test_renaming_keeps_what_anthropic_can_say():
    schema = obj(
        {"$any": {}, "map": {"type": "object", "additionalProperties": {"type": "string"}}, "free": {"type": "object"}}
    )
    exported = wire(export_tools([record(schema)], "anthropic"))
    assert exported["properties"] == {
        "_any": {},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "additionalProperties": {}},
    }


def test_renaming_that_would_lose_something_is_refused():
    schema = obj({"$a": {"type": "string"}}, patternProperties={"^x": {"type": "string"}})
    assert "patternProperties is not allowed in Anthropic" in refusal(schema, "anthropic")


# ── the way back ───────────────────────────────────────────────────────────────


def test_restore_passes_on_what_it_does_not_know():
    result = export_tools([record(SIMPLE, "a.b")], "openai-chat")
    assert result.restore("a_b", {"q": 1}) == ("a.b", {"q": 1})
    assert result.restore("a_b", '{"q": 1}') == ("a.b", '{"q": 1}')
    assert result.restore("other", {"q": 1}) == ("other", {"q": 1})


def test_restore_reads_text_where_something_is_to_be_undone():
    result = export_tools([record(obj({"a": {"type": "string"}}))], "openai-chat", strict=True)
    assert result.restore("t", '{"a": null}') == ("t", {})
    assert result.restore("t", "") == ("t", {})
    assert result.restore("t", "{broken") == ("t", "{broken")
    assert result.restore("t", [1]) == ("t", [1])
    assert result.restore("t", {"a": [None]}) == ("t", {"a": [None]})


def test_restore_leaves_deep_values_alone():
    schema = obj({"v": {"type": "string"}, "next": {"$ref": "#"}})
    result = export_tools([record(schema)], "openai-chat", strict=True)
    value: Any = {"v": None, "next": None}
    for _ in range(5_000):
        value = {"v": None, "next": value}
    name, own = result.restore("t", value)
    assert name == "t"
    assert list(own) == ["next"]
    while isinstance(own, dict) and own.get("next") is not None:
        own = own["next"]
    assert own == {"v": None, "next": None}


def test_a_definition_that_only_refers_to_itself_ends():
    schema = {**obj({"a": {"$ref": "#/$defs/A"}, "b": {"type": "string"}}), "$defs": {"A": {"$ref": "#/$defs/A"}}}
    for dialect in DIALECTS:
        export_tools([record(schema)], dialect, strict=True)


# ── properties ─────────────────────────────────────────────────────────────────

STRICT_KEYWORDS = {
    *("type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "$ref", "$defs"),
    *("title", "description", "pattern", "format", "minItems", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
GEMINI_KEYWORDS = {
    *("type", "properties", "required", "items", "enum", "anyOf", "nullable", "title", "description", "format"),
    *("pattern", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("minimum", "maximum"),
}


def parts(schema: dict[str, Any]) -> list[dict[str, Any]]:
    children = [
        *schema.get("properties", {}).values(),
        *schema.get("$defs", {}).values(),
        *schema.get("anyOf", []),
        *([schema["items"]] if "items" in schema else []),
    ]
    return [schema, *(part for child in children for part in parts(child))]


def check_strict_form(schema: dict[str, Any]) -> None:
    for part in parts(schema):
        assert part.keys() <= STRICT_KEYWORDS
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])
        assert "type" in part or "anyOf" in part or "$ref" in part
        assert "$ref" not in part or len(part) == 1


def check_gemini_form(schema: dict[str, Any], *, lossy: bool) -> None:
    for part in parts(schema):
        assert part.keys() <= GEMINI_KEYWORDS
        if "anyOf" in part:
            assert part.keys() == {"anyOf"}
            continue
        assert part["type"] in ("STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL")
        assert part["type"] != "ARRAY" or "items" in part
        assert part["type"] != "OBJECT" or part.get("properties") or lossy
        assert "enum" not in part or (part["type"] == "STRING" and "" not in part["enum"])
        assert all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]{0,63}", key) for key in part.get("properties", {}))


def standard(schema: dict[str, Any]) -> dict[str, Any]:
    """Read a Gemini schema as what its server enforces: declared keys only, ``nullable`` as null."""
    if "anyOf" in schema:
        return {"anyOf": [standard(branch) for branch in schema["anyOf"]]}
    result = {k: v for k, v in schema.items() if k not in ("nullable", "type", "properties", "items")}
    result["type"] = schema.get("type", "OBJECT").lower()
    if "properties" in schema:
        result["properties"] = {key: standard(child) for key, child in schema["properties"].items()}
        result["additionalProperties"] = False
    elif result["type"] == "object":
        result["additionalProperties"] = False
    if "items" in schema:
        result["items"] = standard(schema["items"])
    return {"anyOf": [result, {"type": "null"}]} if schema.get("nullable") else result


@pytest.mark.parametrize(
    ("dialect", "is_strict"),
    [*((dialect, False) for dialect in DIALECTS), ("openai-responses", True)],
)
@settings(max_examples=70, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_an_exported_schema_accepts_ours_accepts(dialect: Dialect, is_strict: bool, data: st.DataObject):
    document = data.draw(parameters())
    own = compile_raw(document)
    result = export_tools([record(own, "a.tool")], dialect, strict=is_strict)
    if result.refused:
        assert dialect == "gemini" or any(not LEGAL.fullmatch(key) for key in _keys(document))
        return
    exported = wire(result)
    if not exported:
        assert own.violations(result.restore("a_tool", None)[1]) == []
        return
    if dialect == "gemini":
        check_gemini_form(exported, lossy=False)
        exported = standard(exported)
    elif result.tools[0].get("strict"):
        check_strict_form(exported)
    compiled = compile_raw(exported)
    [sent_name] = result.names
    for _ in range(4):
        value = data.draw(st.composite(lambda draw: near(draw, exported, exported.get("$defs", {})))())
        if isinstance(value, dict) and compiled.accepts(value):
            name, arguments = result.restore(sent_name, value)
            assert name == "a.tool"
            assert own.violations(arguments) == []


def _keys(document: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    pending: list[Any] = [document]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            found |= set(current.get("properties", {}) if isinstance(current.get("properties"), dict) else ())
            pending.extend(current.values())
        elif isinstance(current, list):
            pending.extend(current)
    return found


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(parameters())
def test_lossy_exports_refuse_little_and_stay_in_form(document: dict[str, Any]):
    result = export_tools([record(document)], "gemini", lossy=True)
    for tool in result.tools:
        check_gemini_form(tool.get("parameters", {"type": "NULL"}), lossy=True)
    assert len(result.tools) + len(result.refused) == 1
