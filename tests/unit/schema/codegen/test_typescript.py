"""TypeScript types and the TypeScript SDK block."""

from __future__ import annotations

import time

import pytest

from dsh_tools.schema import (
    IntegerNode,
    MapNode,
    RefNode,
    Schema,
    SdkTool,
    StringNode,
    UnionNode,
    compile_json_schema,
    compile_parameters,
    compile_raw,
    render_sdk_typescript,
    to_typescript,
)


def closed(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, "JsonValue"),
        ({"description": "anything", "default": 3}, "JsonValue"),
        ({"type": "string"}, "string"),
        ({"type": "number"}, "number"),
        ({"type": "integer"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "null"}, "null"),
        ({"type": "null", "const": None}, "null"),
        ({"type": "null", "enum": [None, None]}, "null | null"),
        ({"type": "integer", "const": 2}, "2"),
        ({"type": "string", "enum": ["a", "b"]}, '"a" | "b"'),
        ({"type": "string", "enum": ["a", "b"], "const": "b"}, '"b"'),
        ({"type": "string", "enum": ["a", "a"]}, '"a" | "a"'),
        ({"type": "boolean", "const": False}, "false"),
        ({"type": "array"}, "JsonValue[]"),
    ],
)
def test_scalars_and_literals(schema: object, expected: str):
    # SCHEMA-F2
    # CODE-47 to 50
    assert to_typescript(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        (
            {"oneOf": [{"oneOf": [{"type": "string"}, {"type": "null"}]}, {"type": "number"}]},
            "string | null | number",
        ),
        ({"oneOf": [{"type": "string"}, {"type": "string"}]}, "string | string"),
        (
            {"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "null"}]},
            "{\n  a?: JsonValue;\n} & Record<string, JsonValue> | null",
        ),
    ],
)
def test_unions_flatten_without_parentheses(schema: object, expected: str):
    # SCHEMA-F2
    # CODE-54
    assert to_typescript(schema) == expected


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ({"type": "string", "enum": ["x", "y"]}, '("x" | "y")[]'),
        ({"type": "string", "enum": ["x"]}, '"x"[]'),
        ({"type": "string", "const": "a|b"}, '("a|b")[]'),
        ({"type": "string", "const": "R&D"}, '("R&D")[]'),
        (
            {"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "null"}]}},
            "((string | null)[])[]",
        ),
        ({"type": "object"}, "Record<string, JsonValue>[]"),
        ({"type": "object", "properties": {"a": {}}}, "({\n  a?: JsonValue;\n} & Record<string, JsonValue>)[]"),
        (closed(a={"type": "string"}), "{\n  a?: string;\n}[]"),
        (closed(a={"type": "string", "description": "x | y"}), "({\n  /** x | y */\n  a?: string;\n})[]"),
        (closed(**{"a|b": {"type": "string"}}), '({\n  "a|b"?: string;\n})[]'),
        (closed(o={"type": "object", "properties": {"x": {}}}), None),
    ],
)
def test_array_items_get_parentheses_by_their_text(items: object, expected: str | None):
    # SCHEMA-F3
    # CODE-50, 51
    text = to_typescript({"type": "array", "items": items})
    if expected is None:
        assert text.startswith("(") and text.endswith(")[]")
    else:
        assert text == expected


def test_parentheses_look_only_at_their_own_items():
    # SCHEMA-F3
    schema = closed(
        u={"oneOf": [{"type": "string"}, {"type": "null"}]}, xs={"type": "array", "items": {"type": "string"}}
    )
    assert to_typescript(schema) == "{\n  u?: string | null;\n  xs?: string[];\n}"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object"}, "Record<string, JsonValue>"),
        ({"type": "object", "properties": {}}, "Record<string, JsonValue>"),
        ({"type": "object", "additionalProperties": False}, "Record<string, never>"),
        (
            {**closed(id={"type": "integer"}, label={"type": "string"}), "required": ["id"]},
            "{\n  id: number;\n  label?: string;\n}",
        ),
        (
            {"type": "object", "properties": {"id": {"type": "integer"}}},
            "{\n  id?: number;\n} & Record<string, JsonValue>",
        ),
    ],
)
def test_objects(schema: object, expected: str):
    # SCHEMA-F4
    # CODE-52, 53
    assert to_typescript(schema) == expected


def test_members_are_indented_from_the_given_level():
    # SCHEMA-F4
    # CODE-53
    schema = closed(o=closed(x={"type": "string"}))
    assert to_typescript(schema, 2) == "{\n      o?: {\n        x?: string;\n      };\n    }"


def test_keys_keep_declaration_order():
    # CODE-42
    text = to_typescript(closed(b={}, **{"10": {}, "9": {}}, a={}))
    assert [line.strip().split("?")[0] for line in text.splitlines()[1:-1]] == ["b", '"10"', '"9"', "a"]


def test_keys_are_quoted_only_where_needed():
    # SCHEMA-F5
    # CODE-55
    schema = closed(**{"my-mcp.tool": {}, "路径": {}, "class": {}, "__proto__": {}, "$ok": {}, "abc\n": {}, 'q"': {}})
    keys = [line.strip().removesuffix("?: JsonValue;") for line in to_typescript(schema).splitlines()[1:-1]]
    assert keys == ['"my-mcp.tool"', '"路径"', "class", "__proto__", "$ok", '"abc\\n"', '"q\\""']


def test_only_property_descriptions_are_shown():
    # SCHEMA-F6
    # CODE-56
    schema = closed(
        o={**closed(x={"type": "integer", "description": "inner"}), "description": "outer"},
        xs={"type": "array", "items": {"type": "string", "description": "item"}},
        u={"oneOf": [{"type": "string", "description": "branch"}, {"type": "null"}], "title": "union"},
    )
    text = to_typescript({**schema, "description": "root", "title": "root"})
    assert [line.strip() for line in text.splitlines() if "/**" in line] == ["/** outer */", "/** inner */"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1e-7, "1e-7"),
        (1e16, "10000000000000000"),
        (1e21, "1e+21"),
        (2.5, "2.5"),
        (100.0, "100"),
        (2**60, "1152921504606847000"),
        (10**400, "number"),  # no double is near enough to be a literal
        (-(10**400), "number"),
    ],
)
def test_numbers_are_written_as_javascript_does(value: float, expected: str):
    # SCHEMA-F7
    assert to_typescript({"type": "number", "const": value}) == expected


@pytest.mark.parametrize(
    "schema",
    [
        42,
        "s",
        [],
        True,
        None,
        object(),
        {"$ref": "#/x"},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"allOf": [{}]},
        {"type": "string", "format": "email"},
        {"type": "number", "minimum": 1},
        {"type": "string", "pattern": "a"},
        {"type": ["string", "null"]},
        {"oneOf": [{"type": "string"}]},
        {"type": "string", "oneOf": [{}, {}]},
        {"enum": ["a"]},
        {"type": "object", "properties": {}, "required": ["a"]},
        {"type": "object", "additionalProperties": {}},
        {"type": "string", "enum": []},
        {"type": "string", "enum": [1]},
        {"type": "string", "const": 1},
        {"type": "string", "enum": ["a"], "const": "b"},
        {"type": "object", "const": {}},
        {"type": "string", "items": {}},
        {"type": "string", "description": 7},
        {"type": "string", "const": None},
        closed(ok={"type": "string"}, bad={"type": "weird"}),
    ],
)
def test_a_document_outside_the_subset_is_unknown_as_a_whole(schema: object):
    # SCHEMA-F1
    # CODE-43 to 45, 47
    assert to_typescript(schema) == "unknown"


def test_a_circular_document_is_unknown():
    # SCHEMA-F1
    # CODE-45
    circular: dict[str, object] = {"type": "array"}
    circular["items"] = circular
    assert to_typescript(circular) == "unknown"


def test_schemas_of_python_types_say_what_they_can():
    # SCHEMA-F1
    node = UnionNode(
        mode="anyOf",
        branches=(
            MapNode(values=IntegerNode(constraints={"minimum": 0})),
            RefNode(name="Tree"),
            StringNode(constraints={"pattern": "^a"}),
        ),
    )
    assert to_typescript(Schema({}, node, "types", definitions={"Tree": StringNode()})) == (
        "Record<string, number> | unknown | string"
    )


def test_raw_schemas_say_what_they_can():
    # SCHEMA-F1
    raw = compile_raw(
        {
            "type": "object",
            "properties": {
                "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                "when": {"type": ["string", "null"], "format": "date-time"},
                "odd": {"not": {"type": "string"}},
                "next": {"$ref": "#"},
            },
            "required": ["tags"],
            "additionalProperties": False,
        }
    )
    assert to_typescript(raw) == (
        "{\n  tags: Record<string, string>;\n  when?: string | null;\n  odd?: JsonValue;\n  next?: unknown;\n}"
    )


def test_a_compiled_schema_renders_like_its_document():
    document = {"type": "array", "items": closed(a={"type": "string"})}
    assert to_typescript(compile_json_schema(document)) == to_typescript(document)


@pytest.mark.parametrize("wrap", ["array", "oneOf"])
def test_deep_schemas_render_in_linear_time(wrap: str):
    # CODE-46
    def schema(depth: int) -> Schema:
        document: object = {"type": "string"}
        for _ in range(depth):
            document = (
                {"type": "array", "items": document} if wrap == "array" else {"oneOf": [document, {"type": "null"}]}
            )
        return compile_json_schema(document)

    def seconds(compiled: Schema) -> float:
        # Processor time, since other programs may be busy; the best of several, for the same reason.
        taken: list[float] = []
        for _ in range(5):
            start = time.process_time()
            to_typescript(compiled)
            taken.append(time.process_time() - start)
        return min(taken)

    small, large = schema(2_000), schema(32_000)
    unit = len("[]") if wrap == "array" else len(" | null")
    assert len(to_typescript(large)) == len("string") + unit * 32_000
    # Sixteen times the size: sixteen times the work, where quadratic would be 256 times.
    assert seconds(large) < 80 * seconds(small)


def test_deep_objects_render():
    # CODE-46
    document: object = {"type": "string"}
    for _ in range(1_500):
        document = closed(n=document)
    text = to_typescript(document)
    assert text.startswith("{\n  n?: {\n    n?: {")
    assert text.count("{") == text.count("}") == 1_500


# ── the SDK block ──────────────────────────────────────────────────────────────

EMPTY_BLOCK = """\
```ts
type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue }

interface ToolArgsMap {}

interface ToolOutputMap {}

type ToolName = keyof ToolOutputMap

declare class ToolCallError extends Error {
  readonly name: "ToolCallError";
  readonly toolName: ToolName;
}

declare const tools: {
  [K in ToolName]: (args: ToolArgsMap[K]) => Promise<ToolOutputMap[K]>;
}
```"""


def test_the_block_without_tools():
    # SCHEMA-H2
    # CODE-60
    assert render_sdk_typescript([]) == EMPTY_BLOCK


def test_the_block_with_tools():
    # SCHEMA-H1, H2
    # CODE-41, 56, 60, 61
    tools = [
        SdkTool("my-tool", "Dash", {"type": "object", "properties": {"q": {"type": "string"}}}, {"type": "null"}),
        SdkTool("Zed", None, {"type": "object"}, closed(a={"type": "string", "description": "letter"})),
        SdkTool("bad", "Bad", {"$ref": "#"}, {"type": "wat"}),
    ]
    text = render_sdk_typescript(tools)
    args = """\
interface ToolArgsMap {
  Zed: Record<string, JsonValue>;
  /** Bad */
  bad: unknown;
  /** Dash */
  "my-tool": {
    q?: string;
  } & Record<string, JsonValue>;
}
"""
    outputs = """\
interface ToolOutputMap {
  Zed: {
    /** letter */
    a?: string;
  };
  bad: unknown;
  "my-tool": null;
}
"""
    assert f"\n{args}\n{outputs}\n" in text
    # The order of the tools given does not matter, and the same tools give the same text.
    # CODE-42
    assert render_sdk_typescript(tools[::-1]) == text


def test_tool_names_that_look_like_numbers_are_sorted_as_text():
    # SCHEMA-H2
    tools = [SdkTool(name, "", {"type": "object"}, {}) for name in ("10", "9", "a", "10")]
    lines = [line.strip() for line in render_sdk_typescript(tools).splitlines() if "Record<string, JsonValue>;" in line]
    # SCHEMA-H1: tools of one name are both there
    assert lines == [f"{key}: Record<string, JsonValue>;" for key in ('"10"', '"10"', '"9"', "a")]


def test_compiled_parameters_render():
    spec = {"path": {"type": "string", "required": True, "description": "Where"}}
    text = render_sdk_typescript([SdkTool("read", "Read.", compile_parameters(spec), {"type": "string"})])
    assert "  /** Read. */\n  read: {\n    /** Where */\n    path: string;\n  } & Record<string, JsonValue>;\n" in text
