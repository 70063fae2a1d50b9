"""Python annotations and the Python SDK block."""

from __future__ import annotations

import ast
import time

import pytest

from dsh_tools.schema import (
    ArrayNode,
    IntegerNode,
    MapNode,
    Node,
    RefNode,
    Schema,
    SdkTool,
    StringNode,
    UnionNode,
    compile_raw,
    render_sdk_python,
    to_python,
)

TEXT = {"type": "string"}


def closed(properties: dict[str, object], *required: str) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def tool(name: str, parameters: object = TEXT, output: object = TEXT, description: object = None) -> SdkTool:
    return SdkTool(name, description, parameters, output)


def block(*tools: SdkTool) -> str:
    text = render_sdk_python(tools)
    assert text.startswith("```python\n") and text.endswith("\n```")
    source = text.removeprefix("```python\n").removesuffix("\n```")
    ast.parse(source.encode())
    return source


def classes(*tools: SdkTool) -> list[str]:
    """The sections between the error class and the protocol."""
    sections = block(*tools).split("\n\n")
    return sections[2:-2]


def signatures(*tools: SdkTool) -> list[str]:
    return block(*tools).split("class Tools(Protocol):\n")[1].removesuffix("\n\ntools: Tools").splitlines()


def nest(document: object, depth: int) -> object:
    for _ in range(depth):
        document = {"type": "array", "items": document}
    return document


# ── one schema ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, "Any"),
        (TEXT, "str"),
        ({"type": "number"}, "float"),
        ({"type": "integer"}, "int"),
        ({"type": "boolean"}, "bool"),
        ({"type": "null"}, "None"),
        ({"type": "null", "const": None}, "None"),
        ({"type": "null", "enum": [None]}, "None"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "array", "items": {"oneOf": [TEXT, {"type": "null"}]}}, "list[str | None]"),
        ({"oneOf": [{"oneOf": [TEXT, {"type": "integer"}]}, {"type": "null"}]}, "str | int | None"),
        ({"type": "string", "enum": ["a", "b"]}, 'Literal["a", "b"]'),
        ({"type": "string", "enum": ["a", "b"], "const": "b"}, 'Literal["b"]'),
        ({"type": "boolean", "enum": [True, False]}, "Literal[True, False]"),
        ({"$ref": "#/x"}, "Any"),
        (closed({"ok": TEXT, "bad": {"type": "weird"}}), "Any"),
        (None, "Any"),
        (7, "Any"),
    ],
)
def test_annotations(schema: object, expected: str):
    # SCHEMA-G1
    # CODE-43 to 45, 62, 63
    assert to_python(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        closed({}),
        closed({"a": TEXT}, "a"),
        closed({"a-b": TEXT}),
    ],
)
def test_objects_have_no_class_here(schema: object):
    # SCHEMA-G1
    # CODE-70
    assert to_python(schema) == "dict[str, Any]"
    assert to_python({"type": "array", "items": schema}) == "list[dict[str, Any]]"
    assert to_python({"oneOf": [schema, {"type": "null"}]}) == "dict[str, Any] | None"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**60, "1152921504606846976"),
        (2**53 + 1, "9007199254740993"),  # exact in process (D41)
        (float(2**60), "1152921504606846976"),
        (1e21, "1000000000000000000000"),
        (1e16, "10000000000000000"),
        (-1e22, "-10000000000000000000000"),
        (1e-7, "1e-7"),
        (1e-5, "0.00001"),
        (1.5, "1.5"),
        (100.0, "100"),
    ],
)
def test_literal_numbers(value: float, expected: str):
    # SCHEMA-G2
    # CODE-64
    assert to_python({"type": "number", "const": value}) == f"Literal[{expected}]"


def test_an_integer_of_any_length_parses():
    # SCHEMA-G2
    # CODE-83
    value = 7**9_000
    tree = ast.parse(to_python({"type": "integer", "const": value}), mode="eval")
    assert isinstance(tree.body, ast.Subscript)
    assert ast.literal_eval(tree.body.slice) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('say "hi" \\', '"say \\"hi\\" \\\\"'),
        ("\ud800x", '"\\ud800x"'),
        ("\x7f\x85\u2028é🙂", '"\x7f\x85\u2028é🙂"'),
        ("\x00\n", '"\\u0000\\n"'),
    ],
)
def test_literal_strings(value: str, expected: str):
    # SCHEMA-G2
    # CODE-62, 82
    assert to_python({"type": "string", "const": value}) == f"Literal[{expected}]"


@pytest.mark.parametrize(
    ("depth", "lists", "leaf"),
    [(179, 179, "str"), (180, 180, "str"), (181, 180, "Any"), (5_000, 180, "Any")],
)
def test_open_lists_are_capped(depth: int, lists: int, leaf: str):
    # SCHEMA-G3
    # CODE-74
    assert to_python(nest(TEXT, depth)) == "list[" * lists + leaf + "]" * lists


def test_union_branches_inherit_the_depth():
    # SCHEMA-G3
    # CODE-74
    union = {"oneOf": [{"type": "array", "items": TEXT}, TEXT]}
    assert to_python(nest(union, 180)) == "list[" * 180 + "Any | str" + "]" * 180


def test_maps_count_as_open_brackets():
    # SCHEMA-G3
    node: Node = StringNode()
    for _ in range(300):
        node = MapNode(values=node)
    assert to_python(Schema({}, node, "types")) == "dict[str, " * 180 + "Any" + "]" * 180


def test_a_long_union_is_not_capped():
    # CODE-74
    assert to_python({"oneOf": [TEXT] * 700}) == " | ".join(["str"] * 700)


def test_schemas_of_python_types_say_what_they_can():
    # SCHEMA-G1
    node = ArrayNode(items=UnionNode(mode="anyOf", branches=(MapNode(values=IntegerNode()), RefNode(name="Tree"))))
    assert to_python(Schema({}, node, "types", definitions={"Tree": StringNode()})) == "list[dict[str, int] | Any]"


# ── the SDK block ──────────────────────────────────────────────────────────────


def test_the_block_without_tools():
    # SCHEMA-H3, H4
    # CODE-78 to 80
    assert block() == (
        "from typing import Protocol\n\n"
        "class ToolCallError(Exception):\n    toolName: str\n\n"
        "class Tools(Protocol):\n    pass\n\n"
        "tools: Tools"
    )


def test_the_whole_block():
    # SCHEMA-H3, H7, H8
    # CODE-65 to 68, 75, 76, 80
    phases = {"type": "array", "items": closed({"title": TEXT}, "title")}
    meta = closed({"name": {**TEXT, "description": "Short"}, "phases": phases}, "name")
    parameters = {"type": "object", "properties": {"meta": meta, "deep": {"type": "boolean"}}, "required": ["meta"]}
    output = {"type": "array", "items": closed({"id": {"type": "integer"}}, "id")}
    assert block(tool("workflow", parameters, output, "Run")) == (
        "from typing import NotRequired, Protocol, TypedDict\n\n"
        "class ToolCallError(Exception):\n    toolName: str\n\n"
        "class WorkflowArgsMetaPhases(TypedDict):\n    title: str\n\n"
        "class WorkflowArgsMeta(TypedDict):\n"
        "    # Short\n"
        "    name: str\n"
        "    phases: NotRequired[list[WorkflowArgsMetaPhases]]\n\n"
        "class WorkflowArgs(TypedDict):\n"
        "    meta: WorkflowArgsMeta\n"
        "    deep: NotRequired[bool]\n"
        "    # Additional keys beyond those declared are allowed.\n\n"
        "class WorkflowOutput(TypedDict):\n    id: int\n\n"
        "class Tools(Protocol):\n"
        "    async def workflow(self, args: WorkflowArgs) -> list[WorkflowOutput]:\n"
        '        """Run"""\n\n'
        "tools: Tools"
    )


@pytest.mark.parametrize(
    ("output", "imports"),
    [
        (TEXT, "Protocol"),
        ({}, "Any, Protocol"),
        ({"type": "string", "const": "k"}, "Literal, Protocol"),
        (closed({"a": TEXT}, "a"), "Protocol, TypedDict"),
        (closed({"a": TEXT}), "NotRequired, Protocol, TypedDict"),
        (closed({"a": {"type": "array"}, "b": {"const": 1, "type": "integer"}}, "a"), None),
    ],
)
def test_only_used_names_are_imported(output: object, imports: str | None):
    # SCHEMA-H3
    # CODE-79
    expected = imports or "Any, Literal, NotRequired, Protocol, TypedDict"
    assert block(tool("x", TEXT, output)).splitlines()[0] == f"from typing import {expected}"


def test_what_a_degraded_object_hides_is_not_imported():
    # SCHEMA-H6
    hidden = closed({"a-b": {"type": "string", "const": "k"}, "c": closed({"d": TEXT})})
    assert block(tool("x", hidden)).splitlines()[0] == "from typing import Any, Protocol"
    assert classes(tool("x", hidden)) == []


def test_methods_and_subscripts_are_one_sorted_stream():
    # SCHEMA-H1, H4, H5
    # CODE-41, 75 to 77
    names = ["b", "a-b", "_c", "class", "match", "ﬁx", "Zed", "__meta__", 'q"']
    lines = signatures(*(tool(name, description=f"about {name}") for name in names))
    assert lines == [
        "    async def Zed(self, args: str) -> str:",
        '        """about Zed"""',
        '    # tools["__meta__"](args: str) -> str',
        "    #   about __meta__",
        '    # tools["_c"](args: str) -> str',
        "    #   about _c",
        '    # tools["a-b"](args: str) -> str',
        "    #   about a-b",
        "    async def b(self, args: str) -> str:",
        '        """about b"""',
        '    # tools["class"](args: str) -> str',
        "    #   about class",
        "    async def match(self, args: str) -> str:",
        '        """about match"""',
        '    # tools["q\\""](args: str) -> str',
        '    #   about q"',
        '    # tools["ﬁx"](args: str) -> str',
        "    #   about ﬁx",
    ]


def test_methods_without_description():
    # SCHEMA-H4, H11
    # CODE-58, 75
    assert signatures(tool("a"), tool("b", description=" \n"), tool("c-d", description=42)) == [
        "    async def a(self, args: str) -> str: ...",
        "    async def b(self, args: str) -> str: ...",
        '    # tools["c-d"](args: str) -> str',
    ]


def test_comments_alone_are_no_class_body():
    # SCHEMA-H4
    # CODE-78
    assert signatures(tool("a-b")) == ["    pass", '    # tools["a-b"](args: str) -> str']


def test_objects_that_stay_plain():
    # SCHEMA-H6
    # CODE-68
    assert classes(tool("a", {"type": "object"}), tool("b", {"type": "object", "properties": {}})) == []
    assert classes(tool("c", closed({}))) == ["class CArgs(TypedDict):\n    pass"]


@pytest.mark.parametrize("field", ["a-b", "class", "__debug__", "__token", "ﬁeld", "1", ""])
def test_a_field_that_cannot_be_declared_degrades_its_object(field: str):
    # SCHEMA-H6
    # CODE-69
    bad = closed({"ok": closed({"deep": TEXT}), field: TEXT})
    assert signatures(tool("x", bad)) == ["    async def x(self, args: dict[str, Any]) -> str: ..."]
    outer = tool("y", closed({"inner": bad}, "inner"))
    assert classes(outer) == ["class YArgs(TypedDict):\n    inner: dict[str, Any]"]


@pytest.mark.parametrize("field", ["match", "type", "_", "__", "___", "__meta__", "_x", "路径", "print", "self"])
def test_fields_that_can_be_declared(field: str):
    # SCHEMA-H6
    # CODE-69
    assert classes(tool("x", closed({field: TEXT}, field))) == [f"class XArgs(TypedDict):\n    {field}: str"]


def test_a_union_degrades_by_branch_or_as_a_whole():
    # SCHEMA-H12
    # CODE-44
    good = closed({"a": TEXT}, "a")
    by_branch = tool("x", {"oneOf": [closed({"a-b": TEXT}), good]})
    assert signatures(by_branch) == ["    async def x(self, args: dict[str, Any] | XArgs2) -> str: ..."]
    whole = tool("x", {"oneOf": [{"type": "wat"}, good]})
    assert signatures(whole) == ["    async def x(self, args: Any) -> str: ..."]
    assert classes(whole) == []


def test_lists_in_fields_start_one_deeper():
    # SCHEMA-H7
    # CODE-74
    [text] = classes(tool("x", closed({"deep": nest(TEXT, 200)}, "deep")))
    assert text.count("list[") == 179
    assert signatures(tool("x", nest(TEXT, 200)))[0].count("list[") == 180


def test_field_docs():
    # SCHEMA-H7, H11
    # CODE-67, 81
    field = {**TEXT, "description": '# "quoted" \x00\n\\'}
    assert classes(tool("x", closed({"a": field, "b": {**TEXT, "description": ""}}, "a", "b"))) == [
        'class XArgs(TypedDict):\n    # # "quoted" \\x00 \\\n    a: str\n    b: str'
    ]


def test_class_names_of_nested_and_alternative_objects():
    # SCHEMA-H8
    # CODE-65
    branch = closed({"k": TEXT}, "k")
    union = {"oneOf": [{"oneOf": [branch, {"type": "null"}]}, {"type": "array", "items": branch}]}
    names = [text.split("(")[0].removeprefix("class ") for text in classes(tool("do.it", union, union))]
    assert names == ["DoItArgs11", "DoItArgs2", "DoItOutput11", "DoItOutput2"]


def test_names_are_allocated_before_children_and_classes_written_after():
    # SCHEMA-H8
    # CODE-66, 72
    inner = closed({"v": TEXT}, "v")
    schema = closed({"phase": inner, "phase2": inner, "Phase": inner, "phase3": inner})
    names = [text.split("(")[0].removeprefix("class ") for text in classes(tool("t", schema))]
    assert names == ["TArgsPhase", "TArgsPhase2", "TArgsPhase3", "TArgsPhase32", "TArgs"]


def test_colliding_tools():
    # SCHEMA-H8, H9
    # CODE-71, 72
    fields = closed({"q": TEXT}, "q")
    names = [f"class {name}(TypedDict):\n    q: str" for name in ("MyToolArgs", "MyToolArgs2", "MyToolArgs3")]
    assert classes(tool("my-tool", fields), tool("my.tool", fields), tool("myTool", fields)) == names


def test_deep_chains_of_classes_stay_linear():
    # SCHEMA-H10
    # CODE-46, 73
    def chain(depth: int) -> object:
        document: object = TEXT
        for _ in range(depth):
            document = closed({"someFieldName": document}, "someFieldName")
        return document

    small, large = len(render_sdk_python([tool("c", chain(500))])), len(render_sdk_python([tool("c", chain(5_000))]))
    assert large < 12 * small
    source = render_sdk_python([tool("c", chain(5_000))]).removeprefix("```python\n").removesuffix("\n```")
    ast.parse(source)
    longest = max(len(line.split("(")[0]) for line in source.splitlines() if line.startswith("class "))
    assert longest == len("class ") + 120 + 4


def test_deep_unions_of_objects_render_quickly():
    # SCHEMA-H8, H10
    # CODE-46
    document: object = closed({})
    for _ in range(2_000):
        document = {"oneOf": [document, closed({})]}
    start = time.process_time()
    text = render_sdk_python([tool("deep", closed({"root": document}, "root"))])
    assert time.process_time() - start < 20
    names = [line for line in text.splitlines() if line.startswith("class DeepArgs")]
    assert len(names) == len(set(names)) == 2_002


def test_raw_schemas_say_what_they_can():
    # SCHEMA-H12
    raw = compile_raw(
        {
            "type": "object",
            "properties": {
                "tags": {"type": "object", "additionalProperties": {"type": "integer"}},
                "when": {"type": ["string", "null"], "minLength": 3},
                "next": {"$ref": "#"},
            },
            "required": ["tags"],
        }
    )
    assert classes(tool("x", raw)) == [
        "class XArgs(TypedDict):\n"
        "    tags: dict[str, int]\n"
        "    when: NotRequired[str | None]\n"
        "    next: NotRequired[Any]\n"
        "    # Additional keys beyond those declared are allowed."
    ]


def test_the_same_tools_give_the_same_text():
    # CODE-42
    tools = [tool(name, closed({"b": TEXT, "a": TEXT})) for name in ("x", "y", "x-y")]
    assert render_sdk_python(tools) == render_sdk_python(tools[::-1])
    assert "    b: NotRequired[str]\n    a: NotRequired[str]" in render_sdk_python(tools)
