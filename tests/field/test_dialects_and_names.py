"""Field cases on exported schemas and on names: one odd tool never costs the others, and every name leads back."""

from __future__ import annotations

import ast
from typing import Any

import pydantic
import pytest
from tests.support.calls import Body, app, make_tool

from dsh_tools.schema import (
    Dialect,
    ExportResult,
    SdkTool,
    compile_raw,
    export_tools,
    render_sdk_python,
    render_sdk_typescript,
)
from dsh_tools.tools import ToolCall, ToolFailure, ToolResult, ToolSuccess, tool

OK_TOOL = {
    "name": "ok_tool",
    "description": "",
    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
}


def record(name: str, parameters: Any) -> dict[str, Any]:
    return {"name": name, "description": "", "parameters": parameters}


def parameters_of(result: ExportResult, name: str) -> dict[str, Any]:
    """The exported parameters of one tool."""
    for wire in result.tools:
        fields = wire.get("function", wire)
        if result.names[fields["name"]] == name:
            return fields.get("parameters", fields.get("input_schema", fields.get("inputSchema", {})))
    raise AssertionError(f"{name} is not exported: {result.refused}")


async def call_through(dialect: Dialect, definition: Any, sent: Any, *, strict: bool = False) -> ToolResult:
    """Register a tool, export what is visible, and run a call as a model of that provider sends it."""
    async with app() as ctx:
        ctx.tools.register(definition)
        result = export_tools(ctx.tools.schemas(), dialect, strict=strict, lossy=True)
        [wire_name] = result.names
        name, arguments = result.restore(wire_name, sent)
        return await ctx.tools.execute(ToolCall(name, arguments))


# ── schemas ────────────────────────────────────────────────────────────────────

RECURSIVE = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/Node"}},
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
}


@pytest.mark.field("field-022")
@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic", "mcp", "gemini"])
@pytest.mark.parametrize("strict", [False, True])
def test_a_recursive_schema_is_exported_by_reference_or_reported_by_name(dialect: Dialect, strict: bool):
    result = export_tools([OK_TOOL, record("recursive", RECURSIVE)], dialect, strict=strict)
    assert parameters_of(result, "ok_tool")
    if dialect == "gemini":
        [note] = result.refused
        assert note.tool == "recursive"
        assert "recursive" in note.reason
    else:
        exported = compile_raw(parameters_of(result, "recursive"))
        full = {"next": None} if strict and dialect.startswith("openai") else {}
        assert exported.accepts({"tree": {"next": {"next": full}}})
        assert not exported.accepts({"tree": {"next": {"next": 7}}})


@pytest.mark.field("field-022")
def test_a_cyclic_object_in_memory_is_reported_by_name():
    cyclic: dict[str, Any] = {"type": "object"}
    cyclic["properties"] = {"self": cyclic}
    result = export_tools([record("cyclic", cyclic), OK_TOOL], "openai-chat")
    assert [note.tool for note in result.refused] == ["cyclic"]
    assert list(result.names) == ["ok_tool"]


@pytest.mark.field("field-026")
@pytest.mark.parametrize("dialect", ["anthropic", "openai-chat"])
async def test_alternatives_at_the_root_are_moved_and_still_enforced(dialect: Dialect):
    schema = {
        "type": "object",
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        "properties": {"a": {}, "b": {}},
    }
    body = Body("ran")
    definition = make_tool("t", body, parameters=schema)
    exported = parameters_of(export_tools([record("t", schema)], dialect), "t")
    assert exported["type"] == "object"
    assert not exported.keys() & {"oneOf", "anyOf", "allOf"}
    # What the provider's schema lets through, the tool's own lets through as well.
    assert compile_raw(exported).accepts({"input": {"a": 1}})
    assert not compile_raw(exported).accepts({"input": {}})
    assert isinstance(await call_through(dialect, definition, {"input": {"b": 2}}), ToolSuccess)
    assert body.calls == [{"b": 2}]
    refused = await call_through(dialect, make_tool("t", body, parameters=schema), {"input": {}})
    assert isinstance(refused, ToolFailure)
    assert refused.error.info.code == "INVALID_ARGS"
    assert len(body.calls) == 1


@pytest.mark.field("field-028")
def test_a_tool_flagged_strict_keeps_the_rules_of_strict_mode():
    inner = {"type": "object", "properties": {"deep": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {"u": {"type": "string"}, "age": {"type": "integer"}, "in": inner},
    }
    [wire] = export_tools([record("t", schema)], "openai-chat", strict=True).tools
    function = wire["function"]
    assert function["strict"] is True
    pending = [function["parameters"]]
    objects = 0
    while pending:
        part = pending.pop()
        if part.get("type") == "object":
            objects += 1
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])
        pending += [*part.get("properties", {}).values(), *part.get("anyOf", ())]
    assert objects == 2


@pytest.mark.field("field-029")
def test_what_strict_mode_cannot_say_is_sent_without_it():
    @tool
    async def a(q: str) -> str:
        """Find."""
        return q

    @tool
    async def b(filters: list[dict[str, Any]]) -> str:
        """Filter."""
        return str(filters)

    tools = [SdkTool(each.name, each.description, each.parameters, {}) for each in (a, b)]
    result = export_tools(tools, "openai-responses", strict=True)
    assert [(wire["name"], wire["strict"]) for wire in result.tools] == [("a", True), ("b", False)]
    assert result.refused == []
    [note] = result.notes
    assert str(note) == (
        'tool "b" at filters[]: sent without strict: an object with free keys cannot be said in strict mode'
    )


@pytest.mark.field("field-031")
async def test_a_type_array_and_a_default_in_gemini():
    schema = {"type": "object", "properties": {"p": {"type": ["string", "null"], "default": None}}}
    exported = parameters_of(export_tools([record("t", schema)], "gemini"), "t")
    # The default is told in words; the field is one that some clients refuse.
    assert exported["properties"]["p"] == {"type": "STRING", "nullable": True, "description": "Default: null."}
    for arguments in ({"p": None}, {"p": "x"}, {}):
        body = Body("ran")
        assert isinstance(await call_through("gemini", make_tool("t", body, parameters=schema), arguments), ToolSuccess)
        assert body.calls == [arguments]


@pytest.mark.field("field-032")
@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic", "mcp"])
async def test_a_default_survives_the_export(dialect: Dialect):
    schema = {"type": "object", "properties": {"v": {"type": "string", "default": "v1"}}, "required": ["v"]}
    exported = parameters_of(export_tools([record("t", schema)], dialect), "t")
    assert exported["properties"]["v"]["default"] == "v1"
    # A default in a schema is never applied to values (SCHEMA-D14): the server asked for the key.
    result = await call_through(dialect, make_tool("t", Body(), parameters=schema), {})
    assert isinstance(result, ToolFailure)
    assert result.error.message.splitlines()[0] == 'invalid arguments: missing required property "v"'


@pytest.mark.field("field-032")
async def test_a_default_in_strict_mode_is_told_in_words_and_that_of_a_function_is_filled():
    @tool
    async def t(v: str = "v1") -> str:
        """Give the version."""
        return v

    for sent in ({"v": None}, {"v": "v2"}):
        result = await call_through("openai-chat", t, sent, strict=True)
        assert isinstance(result, ToolSuccess)
        assert result.value == (sent["v"] or "v1")
    exported = export_tools([SdkTool(t.name, "", t.parameters, {})], "openai-chat", strict=True)
    assert parameters_of(exported, "t")["properties"]["v"]["description"] == 'Default: "v1".'


@pytest.mark.field("field-033")
@pytest.mark.parametrize("sent", [{}, "", "  ", "{}", None])
async def test_a_tool_without_inputs_in_gemini(sent: Any):
    @tool
    async def now() -> str:
        """Tell the time."""
        return "noon"

    result = export_tools([SdkTool(now.name, now.description, now.parameters, {})], "gemini")
    assert result.tools == [{"name": "now", "description": "Tell the time."}]
    called = await call_through("gemini", now, sent)
    assert isinstance(called, ToolSuccess)
    assert called.value == "noon"


class Node(pydantic.BaseModel):
    v: str
    ch: list[Node] = []


@pytest.mark.field("field-128")
@pytest.mark.parametrize("strict", [False, True])
async def test_a_recursive_model_keeps_its_constraints(strict: bool):
    @tool
    async def count(root: Node) -> int:
        """Count the nodes."""
        pending, found = [root], 0
        while pending:
            found += 1
            pending += pending.pop().ch
        return found

    exported = export_tools([SdkTool(count.name, "", count.parameters, {})], "openai-chat", strict=strict)
    schema = compile_raw(parameters_of(exported, "count"))
    leaf = {"v": "b", "ch": []}
    assert schema.accepts({"root": {"v": "a", "ch": [leaf, {"v": "c", "ch": [leaf]}]}})
    assert not schema.accepts({"root": {"v": "a", "ch": [{"v": 7, "ch": []}]}})
    assert not schema.accepts({"root": {"v": "a", "ch": [{}]}})
    empty = None if strict else []
    sent = {"root": {"v": "a", "ch": [{"v": "b", "ch": empty}]}}
    result = await call_through("openai-chat", count, sent, strict=strict)
    assert isinstance(result, ToolSuccess)
    assert result.value == 2


# ── names ──────────────────────────────────────────────────────────────────────


@pytest.mark.field("field-036")
@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic", "gemini"])
async def test_property_names_that_are_no_identifiers(dialect: Dialect):
    properties = {key: {"type": "string"} for key in ("from", "class", "cik-A")}
    schema = {"type": "object", "properties": properties}
    body = Body("ran")
    definition = make_tool("t", body, parameters=schema)
    exported = parameters_of(export_tools([record("t", schema)], dialect), "t")
    sent = dict(zip(exported["properties"], ("1", "2", "3"), strict=True))
    await call_through(dialect, definition, sent)
    assert body.calls == [{"from": "1", "class": "2", "cik-A": "3"}]
    source = render_sdk_python([SdkTool("t", None, schema, schema)]).removeprefix("```python").removesuffix("```")
    ast.parse(source)


ODD_TOOLS = ["send-email", "a.b", "tools", "class", "await"]


@pytest.mark.field("field-038")
def test_every_tool_is_reachable_in_generated_code():
    sdk = [SdkTool(name, f"about {name}", {"type": "object"}, {"type": "string"}) for name in ODD_TOOLS]
    tree = ast.parse(render_sdk_python(sdk).removeprefix("```python").removesuffix("```"))
    [protocol] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tools"]
    assert [node.name for node in protocol.body if isinstance(node, ast.AsyncFunctionDef)] == ["tools"]
    subscripts = [line.split('"')[1] for line in render_sdk_python(sdk).splitlines() if "# tools[" in line]
    assert sorted([*subscripts, "tools"]) == sorted(ODD_TOOLS)
    # In TypeScript the interface's keys are the names themselves, quoted where they must be.
    lines = [line.strip() for line in render_sdk_typescript(sdk).splitlines() if line.endswith(": string;")]
    assert lines == ['"a.b": string;', "await: string;", "class: string;", '"send-email": string;', "tools: string;"]


@pytest.mark.field("field-039")
def test_stubs_of_names_without_letters_have_distinct_classes():
    fields = {"type": "object", "properties": {"q": {"type": "string"}}}
    names = ["2048_game", "_", "--", "日本"]
    source = render_sdk_python([SdkTool(name, None, fields, fields) for name in names])
    tree = ast.parse(source.removeprefix("```python").removesuffix("```"))
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    assert len(classes) == len(set(classes)) == 2 + 2 * len(names)
    assert all(name.isidentifier() for name in classes)
    result = export_tools([record(name, {"type": "object"}) for name in names], "gemini")
    assert sorted(result.names.values()) == sorted(names)
    assert all(wire.isidentifier() or wire.replace("-", "_").isidentifier() for wire in result.names)


@pytest.mark.field("field-041")
async def test_a_name_may_start_with_a_digit():
    async with app() as ctx:
        ctx.tools.register(make_tool("7zip_list"))
        for dialect in ("openai-chat", "openai-responses", "anthropic", "mcp"):
            assert export_tools(ctx.tools.schemas(), dialect).names == {"7zip_list": "7zip_list"}
        # Gemini's rule is stricter; the way back is exact.
        result = export_tools(ctx.tools.schemas(), "gemini")
        assert result.restore("_7zip_list", {}) == ("7zip_list", {})


@pytest.mark.field("field-042")
@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic", "gemini", "mcp"])
async def test_names_that_normalise_to_one_stay_apart(dialect: Dialect):
    names = ["search-a", "search_a", "search.a", "search a"]
    async with app() as ctx:
        for name in names:
            ctx.tools.register(make_tool(name, Body(name)))
        result = export_tools(ctx.tools.schemas(), dialect)
        assert sorted(result.names.values()) == sorted(names)
        reached = [await ctx.tools.execute(ToolCall(*result.restore(wire_name, {}))) for wire_name in result.names]
    assert {each.value for each in reached if isinstance(each, ToolSuccess)} == set(names)


@pytest.mark.field("field-045")
@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic", "gemini", "mcp"])
def test_server_and_tool_names_that_meet_stay_apart(dialect: Dialect):
    names = ["a/b_c", "a_b/c", "a_b_c"]
    result = export_tools([record(name, {"type": "object"}) for name in names], dialect)
    assert sorted(result.names.values()) == names
    assert result.names["a_b_c"] == "a_b_c"
    assert result.refused == []
