"""Generated code against real readers: Python's parser and the TypeScript checker in Deno."""

from __future__ import annotations

import ast
import builtins
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import deno
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.raw_schemas import parameters as raw_parameters

from dsh_tools.json_value import js_string, to_json_text
from dsh_tools.schema import SdkTool, compile_raw, render_sdk_python, render_sdk_typescript, to_python, to_typescript
from dsh_tools.schema.codegen.names import ts_key_is_bare

ODD_TEXTS = [
    "",
    "plain words",
    " \n\t ",
    "a | b & c",
    "closer */ and /* opener",
    'ends in a quote"',
    '"""triple"""',
    "back\\slash\\",
    "nul\x00 esc\x1b c1\x93 del\x7f",
    "lone \ud800 half",
    "emoji 🙂 and \u2028 line",
    "```ts",
    "# hash",
    "${x} `tick`",
]
ODD_NAMES = [
    *["a", "path", "class", "await", "match", "_", "__", "__x", "__x__", "_x", "self", "constructor"],
    *["a-b", "a.b", "1st", "2048_game", "", "日本", "π", "ﬁeld", "𝕏", "🙂", 'q"', "new\nline", "a\ud800", "--"],
    *["tools", "ToolCallError", "Any", "Protocol", "JsonValue", "\u0301x", "가ᄀ", "back\\", "*/", "a\u200cb"],
]
names = st.sampled_from(ODD_NAMES) | st.text(max_size=4)
texts = st.sampled_from(ODD_TEXTS) | st.text(max_size=8)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: str(x) != "-0.0")


def scalars() -> st.SearchStrategy[dict[str, Any]]:
    def of(kind: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        plain = st.just({"type": kind})
        listed = st.lists(values, min_size=1, max_size=3).map(lambda enum: {"type": kind, "enum": enum})
        return plain | listed | values.map(lambda const: {"type": kind, "const": const})

    return st.one_of(
        of("string", texts),
        of("number", numbers),
        of("integer", st.integers() | st.sampled_from([1e21, 2.0**80])),
        of("boolean", st.booleans()),
        of("null", st.none()),
        st.just({}),
        st.just({"type": "array"}),
    )


@st.composite
def objects(draw: st.DrawFn, children: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    properties = draw(st.dictionaries(names, children, max_size=4))
    document: dict[str, Any] = {"type": "object", "properties": properties}
    if properties:
        document["required"] = draw(st.lists(st.sampled_from(sorted(properties)), max_size=3))
    if draw(st.booleans()):
        document["additionalProperties"] = draw(st.booleans())
    return document


def composites(children: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    described = st.tuples(children, texts).map(lambda pair: {**pair[0], "description": pair[1]})
    return st.one_of(
        described.map(lambda items: {"type": "array", "items": items}),
        st.lists(described, min_size=2, max_size=3).map(lambda branches: {"oneOf": branches}),
        objects(described),
    )


schemas = st.recursive(scalars(), composites, max_leaves=12)
broken = st.sampled_from([{"$ref": "#"}, {"type": "wat"}, 7, None, {"oneOf": []}, {"type": "string", "description": 1}])
tool_lists = st.lists(
    st.builds(SdkTool, names, texts | st.none() | st.integers(), schemas | broken, schemas | broken),
    max_size=4,
    unique_by=lambda tool: tool.name,
)


def python_source(tools: list[SdkTool]) -> str:
    return render_sdk_python(tools).removeprefix("```python\n").removesuffix("\n```")


def typescript_source(tools: list[SdkTool]) -> str:
    return render_sdk_typescript(tools).removeprefix("```ts\n").removesuffix("\n```")


# ── Python ─────────────────────────────────────────────────────────────────────


@settings(max_examples=100)
@given(tool_lists)
def test_the_python_block_parses_and_declares_what_it_uses(tools: list[SdkTool]):
    # CODE-66, 78, 79, 83
    tree = ast.parse(python_source(tools).encode())
    known = set(dir(builtins))
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom):
            assert [alias.name for alias in statement.names] == sorted(alias.name for alias in statement.names)
            known |= {alias.name for alias in statement.names}
            continue
        annotations = [
            node.annotation
            for node in ast.walk(statement)
            if isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation
        ]
        annotations += [node.returns for node in ast.walk(statement) if isinstance(node, ast.AsyncFunctionDef)]
        used = {name.id for annotation in annotations for name in ast.walk(annotation) if isinstance(name, ast.Name)}
        assert used <= known
        if isinstance(statement, ast.ClassDef):
            assert statement.name not in known - set(dir(builtins))
            known.add(statement.name)


@settings(max_examples=100)
@given(schemas | broken)
def test_a_python_annotation_parses(schema: object):
    # SCHEMA-G1 to G3
    # CODE-83
    ast.parse(to_python(schema).encode(), mode="eval")


@settings(max_examples=100)
@given(tool_lists)
def test_every_tool_is_reachable_by_its_exact_name(tools: list[SdkTool]):
    # SCHEMA-H4
    # CODE-77
    source = python_source(tools)
    methods = {node.name for node in ast.walk(ast.parse(source.encode())) if isinstance(node, ast.AsyncFunctionDef)}
    subscripts = {
        ast.literal_eval(line.removeprefix("    # tools[").split("](args: ")[0])
        for line in source.split("\n")
        if line.startswith("    # tools[")
    }
    assert methods | subscripts == {tool.name for tool in tools}
    assert not methods & subscripts


@settings(max_examples=60)
@given(raw_parameters())
def test_the_python_of_raw_documents_parses(document: dict[str, Any]):
    # SCHEMA-G1, H12
    # CODE-83
    raw = compile_raw(document)
    ast.parse(to_python(raw).encode(), mode="eval")
    ast.parse(python_source([SdkTool("t", None, raw, raw)]).encode())


# ── TypeScript ─────────────────────────────────────────────────────────────────


def deno_check(folder: Path, sources: list[str]) -> None:
    """Type-check modules in one process; a failure shows the checker's words."""
    for number, source in enumerate(sources):
        (folder / f"m{number}.ts").write_bytes(source.encode("utf-8", "replace"))
    (folder / "deno.json").write_text('{"lock": false}')
    program = [deno.find_deno_bin(), "check", "--no-remote", "--no-npm", "."]
    environment = {**os.environ, "DENO_DIR": str(folder / "cache"), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"}
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, timeout=100, check=False)
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace")
        pytest.fail(f"the generated TypeScript does not check:\n{words[:4000]}")


def test_the_checker_sees_mistakes(tmp_path: Path):
    source = typescript_source([SdkTool("read", None, {"type": "object", "properties": {}}, {"type": "string"})])
    with pytest.raises(pytest.fail.Exception, match="m1.ts"):
        deno_check(tmp_path, [source + "\nexport {};", source + "\nexport const x: number = await tools.read({});"])


def test_the_typescript_block_type_checks(tmp_path: Path):
    # SCHEMA-H2
    # CODE-59, 60
    sources: list[str] = []

    @settings(max_examples=80, database=None, suppress_health_check=list(HealthCheck))
    @given(tool_lists)
    def collect(tools: list[SdkTool]) -> None:
        # Each tool is called by its exact name, with its declared argument type.
        calls = "".join(
            f"export const r{number} = (args: ToolArgsMap[{js_string(tool.name)}]): "
            f"Promise<ToolOutputMap[{js_string(tool.name)}]> => tools[{js_string(tool.name)}](args);\n"
            for number, tool in enumerate(tools)
        )
        sources.append(f"{typescript_source(tools)}\n{calls}export {{}};\n")

    collect()
    deno_check(tmp_path, sources)


def test_the_typescript_of_raw_documents_type_checks(tmp_path: Path):
    # SCHEMA-F1
    sources: list[str] = []

    @settings(max_examples=40, database=None, suppress_health_check=list(HealthCheck))
    @given(raw_parameters())
    def collect(document: dict[str, Any]) -> None:
        raw = compile_raw(document)
        sources.append(f"{typescript_source([SdkTool('t', None, raw, raw)])}\nexport {{}};\n")

    collect()
    deno_check(tmp_path, sources)


def sample(draw: st.DrawFn, schema: dict[str, Any]) -> Any:
    """Draw a value that a schema accepts; alternatives are taken from the first branch that has one."""
    if "oneOf" in schema:
        return sample(draw, draw(st.sampled_from(schema["oneOf"])))
    kind = schema.get("type")
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else draw(st.sampled_from(schema["enum"]))
    if kind == "object":
        # Every JavaScript object has a constructor, so the checker never takes that one for absent.
        required = {*schema.get("required", ()), "constructor"}
        present = [key for key in schema["properties"] if key in required or draw(st.booleans())]
        return {key: sample(draw, schema["properties"][key]) for key in present}
    if kind == "array":
        return [sample(draw, schema.get("items", {})) for _ in range(draw(st.integers(0, 2)))]
    values: dict[Any, Any] = {"string": "s", "number": 1.5, "integer": 2, "boolean": True, "null": None}
    return values.get(kind, [1, {"any": None}])


def literal(value: Any) -> str:
    """Write a value as TypeScript; a quoted ``__proto__`` would not declare a property."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    return to_json_text(value) if isinstance(value, (str, bool)) or value is None else json.dumps(float(value))


def _key(key: str) -> str:
    return key if ts_key_is_bare(key) else to_json_text(key)


def test_what_a_schema_accepts_its_type_accepts(tmp_path: Path):
    # SCHEMA-F2 to F4
    # CODE-48, 49, 52
    lines: list[str] = [
        "type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue }"
    ]

    @settings(max_examples=120, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        schema = data.draw(schemas)
        value = data.draw(st.composite(lambda draw: sample(draw, schema))())
        lines.append(f"export const v{len(lines)}: {to_typescript(schema)} = {literal(value)};")

    collect()
    deno_check(tmp_path, ["\n".join(lines)])
