"""Field cases on arguments, results and schemas: what models and servers really send."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from tests.support.calls import Body, app, make_tool, run, text_of

from dsh_tools.errors import JsonTextError, LossyJsonError
from dsh_tools.json_value import canonical_text, digest, parse_json, snapshot, to_json_text
from dsh_tools.schema import (
    RawSchema,
    Schema,
    argument_hints,
    compile_json_schema,
    compile_parameters,
    compile_raw,
    compile_value,
    to_python,
    to_typescript,
)
from dsh_tools.tools import ErrorInfo, ToolCall, ToolFailure, ToolSuccess

INVALID = ErrorInfo("ToolArgsError", "INVALID_ARGS")
TREE = {
    "type": "object",
    "properties": {"value": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    "required": ["value"],
}


def parameters(**properties: Any) -> dict[str, Any]:
    """A closed object of required properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def refused_text(text: str) -> str:
    with pytest.raises(JsonTextError) as caught:
        parse_json(text)
    return caught.value.message


async def call(schema: Any, arguments: Any) -> tuple[Any, Body]:
    """Run one call of a tool with these parameters, arguments as a model sends them."""
    body = Body()
    async with app() as ctx:
        ctx.tools.register(make_tool("t", body, parameters=schema))
        return await ctx.tools.execute(ToolCall("t", arguments)), body


def first_line(result: Any) -> str:
    assert isinstance(result, ToolFailure)
    assert result.error.info == INVALID
    return result.error.message.splitlines()[0]


@pytest.mark.field("field-001")
@pytest.mark.parametrize("text", ["", "   ", "\n", None, "null", "{}"])
async def test_no_arguments_count_as_an_empty_object(text: Any):
    result, body = await call({"type": "object"}, text)
    assert isinstance(result, ToolSuccess)
    assert body.calls == [{}]
    result, body = await call(parameters(path={"type": "string"}), text)
    assert first_line(result) == 'invalid arguments: missing required property "path"'
    assert body.calls == []


@pytest.mark.field("field-002")
async def test_text_that_is_cut_off_never_runs_with_no_arguments():
    asked: list[Any] = []
    body = Body()
    async with app() as ctx:
        ctx.tools.register(make_tool("delete", body, parameters={"type": "object"}))

        async def policy(execution: Any, next: Any) -> Any:
            asked.append(execution)
            return await next()

        ctx.on("tools/pre-execute", policy)
        result = await ctx.tools.execute(ToolCall("delete", '{"path": "a.tx'))
    assert 'the text ends too early, inside a string, at char 14, near `{"path": "a.tx`' in text_of(result)
    assert first_line(result)
    assert asked == body.calls == []


@pytest.mark.field("field-003")
async def test_one_malformed_call_leaves_its_neighbour_alone():
    async with app() as ctx:
        ctx.tools.register(make_tool("good"))
        results = await asyncio.gather(
            ctx.tools.execute(ToolCall("good", '{"x":1}')), ctx.tools.execute(ToolCall("good", '{"x":1,}'))
        )
    assert isinstance(results[0], ToolSuccess)
    assert "trailing comma before '}' at char 6" in first_line(results[1])


@pytest.mark.field("field-005")
def test_a_backslash_n_between_tokens_gets_the_same_verdict_every_time():
    text = '{"path":"/q.py","view_range": \\n[1,2]\\n}'
    stored = json.loads(json.dumps(text))
    assert stored == text
    assert refused_text(text) == refused_text(stored)
    assert "unexpected character '\\\\', expected a value, at char 30" in refused_text(text)


@pytest.mark.field("field-006")
async def test_two_objects_in_one_text_run_neither():
    result, body = await call({"type": "object"}, '{"a":1}{"b":2}')
    assert "trailing data at char 7" in first_line(result)
    assert body.calls == []


@pytest.mark.field("field-008", "field-009", "field-011")
@pytest.mark.parametrize("text", ["12345", '{"a": 1}', "1e234567", "57785654", "[1]", "true", "null", ""])
async def test_strings_stay_the_strings_they_are(text: str):
    for arguments in (json.dumps({"p": text}), {"p": text}):
        result, body = await call(parameters(p={"type": "string"}), arguments)
        assert isinstance(result, ToolSuccess)
        assert body.calls == [{"p": text}]


@pytest.mark.field("field-012")
@pytest.mark.parametrize("number", [9007199254740993, 1234567890123456789, -(2**70)])
async def test_integers_arrive_exactly_or_not_at_all(number: int):
    schema = parameters(id={"type": "integer"})
    result, body = await call(schema, f'{{"id":{number}}}')
    assert isinstance(result, ToolSuccess)
    assert body.calls == [{"id": number}]
    result, body = await call(schema, f'{{"id":"{number}"}}')
    assert first_line(result) == 'invalid arguments: "id" must be an integer'
    assert f'"id": send {number}, not "{number}"' in text_of(result).splitlines()
    assert body.calls == []
    assert str(number) in canonical_text({"id": number})
    assert parse_json(to_json_text({"id": number})) == {"id": number}


@pytest.mark.field("field-013")
@pytest.mark.parametrize("number", ["3.7", '"3.7"'])
async def test_fractions_are_not_cut_off(number: str):
    result, body = await call(parameters(n={"type": "integer"}), f'{{"n": {number}}}')
    assert first_line(result) == 'invalid arguments: "n" must be an integer'
    assert body.calls == []


@pytest.mark.field("field-015")
async def test_a_number_in_quotes_is_refused_for_what_it_is():
    result, _ = await call(parameters(ms={"type": "integer"}), '{"ms":"2000"}')
    assert text_of(result).splitlines() == [
        'Error: invalid arguments: "ms" must be an integer',
        '"ms": send 2000, not "2000"',
    ]


@pytest.mark.field("field-016")
async def test_numbers_that_json_has_not_are_refused():
    for text, reason in [
        ('{"seconds": NaN}', "NaN is not JSON at char 12"),
        ('{"seconds": -Infinity}', "-Infinity is not JSON at char 12"),
        ('{"seconds": 1e999}', "number 1e999 is out of range at char 12"),
    ]:
        result, body = await call({"type": "object"}, text)
        assert reason in first_line(result)
        assert body.calls == []
    async with app() as ctx:
        ctx.tools.register(make_tool("t", parameters={"type": "object"}))
        result = await run(ctx, "t", {"seconds": float("nan")})
        assert isinstance(result, ToolFailure)
        assert "seconds: nan is not a finite number" in result.error.message
        assert isinstance(await run(ctx, "t", {"seconds": 1}), ToolSuccess)


@pytest.mark.field("field-018")
async def test_lone_surrogates_go_through_without_an_exception():
    for given in ({"t": "\ud800"}, '{"t":"\\ud800"}'):
        result, body = await call(parameters(t={"type": "string"}), given)
        assert isinstance(result, ToolSuccess)
        assert body.calls == [{"t": "\ud800"}]
    async with app() as ctx:
        ctx.tools.register(make_tool("scrape", Body("a\ud835b"), schema={"type": "string"}))
        result = await run(ctx, "scrape")
    assert isinstance(result, ToolSuccess)
    assert result.value == "a\ud835b"
    assert to_json_text(result.value).encode() == b'"a\\ud835b"'
    assert len(digest(result.value)) == 64


@pytest.mark.field("field-019")
async def test_a_schema_that_refers_to_itself_keeps_its_references():
    schema = RawSchema({**parameters(root={"$ref": "#/$defs/Node"}), "$defs": {"Node": TREE}})
    tree: Any = {"value": "leaf", "children": []}
    for _ in range(50):
        tree = {"value": "v", "children": [tree]}
    result, body = await call(schema, json.dumps({"root": tree}))
    assert isinstance(result, ToolSuccess)
    assert body.calls == [{"root": tree}]
    wrong = {"value": "a", "children": [{"value": "b", "children": [{"value": 5}]}]}
    result, _ = await call(schema, {"root": wrong})
    assert first_line(result) == 'invalid arguments: "root.children[0].children[0].value" must be a string'
    assert compile_raw(schema).json["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}


@pytest.mark.field("field-021")
def test_a_recursive_alias_that_is_no_object_compiles_and_renders():
    schema = compile_raw(
        {
            "$ref": "#/$defs/J",
            "$defs": {"J": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/J"}}]}},
        }
    )
    assert schema.accepts(["a", ["b"]])
    assert not schema.accepts([1])
    assert schema.violations([["a", 1]]) == ['"value[0][1]" must be a string or an array']
    assert to_typescript(schema)
    assert to_python(schema)


@pytest.mark.field("field-023")
def test_definitions_work_like_defs():
    node = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/definitions/Node"}}}}
    schema = compile_raw({"definitions": {"Node": node}, **parameters(root={"$ref": "#/definitions/Node"})})
    assert schema.accepts({"root": {"children": [{"children": []}]}})
    assert schema.violations({"root": {"children": [{"children": [5]}]}}, "") == [
        '"root.children[0].children[0]" must be an object'
    ]
    assert schema.violations({}, "") == ['missing required property "root"']


@pytest.mark.field("field-025")
def test_what_is_advertised_is_what_is_enforced():
    def branch(kind: str, name: str, type_: str) -> dict[str, Any]:
        return parameters(kind={"type": "string", "const": kind}, **{name: {"type": type_}})

    union = {"oneOf": [branch("a", "x", "string"), branch("b", "y", "integer")]}
    values: list[Any] = [
        {"kind": "a", "x": "1"},
        {"kind": "b", "y": 1},
        {"kind": "a", "y": 1},
        {"kind": "c"},
        {},
        [],
    ]
    for schema in (compile_json_schema(union), compile_raw(union), compile_json_schema(parameters(u=union))):
        assert schema.json
        again = compile_raw(schema.json)
        for value in values:
            for tried in (value, {"u": value}):
                assert schema.accepts(tried) == again.accepts(tried)
    assert compile_json_schema(union).json == union
    assert sum(compile_json_schema(union).accepts(value) for value in values) == 2


@pytest.mark.field("field-035")
async def test_a_catastrophic_pattern_takes_no_time():
    schema = RawSchema(parameters(s={"type": "string", "pattern": "^(a+)+$"}))
    for length in (30, 100_000):
        start = time.perf_counter()
        result, _ = await call(schema, {"s": "a" * length + "!"})
        assert time.perf_counter() - start < 1
        assert first_line(result) == 'invalid arguments: "s" must match the pattern "^(a+)+$"'


@pytest.mark.field("field-112")
@pytest.mark.parametrize(
    ("value", "path"),
    [({"n": 0, "mean": float("nan")}, "mean"), (float("inf"), ""), (-0.0, ""), ({"a": [1, -0.0]}, "a[1]")],
)
async def test_results_that_json_cannot_hold_are_refused_by_path(value: Any, path: str):
    with pytest.raises(LossyJsonError) as caught:
        snapshot(value)
    assert caught.value.path == path
    async with app() as ctx:
        ctx.tools.register(make_tool("t", Body(value)))
        result = await run(ctx)
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("ToolOutputError", "INVALID_TOOL_OUTPUT")
    assert path in text_of(result)


@pytest.mark.field("field-113")
async def test_results_that_contain_themselves_are_refused():
    ring: dict[str, Any] = {}
    ring["self"] = ring
    async with app() as ctx:
        body = Body(ring)
        ctx.tools.register(make_tool("t", body))
        result = await run(ctx)
        assert isinstance(result, ToolFailure)
        assert result.error.info == ErrorInfo("ToolOutputError", "INVALID_TOOL_OUTPUT")
        body.outcome = "fine"
        assert isinstance(await run(ctx), ToolSuccess)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert snapshot(deep) is not deep
    assert compile_value({"type": "json"}).accepts(snapshot(deep))
    assert compile_value({"type": "array", "items": {"type": "string"}}).violations(snapshot(deep)) == [
        '"value[0]" must be a string'
    ]


@pytest.mark.field("field-125")
@pytest.mark.parametrize(("kind", "phrase", "sent"), [("integer", "an integer", "true"), ("boolean", "a boolean", "1")])
async def test_booleans_and_integers_are_two_things(kind: str, phrase: str, sent: str):
    for schema in (parameters(n={"type": kind}), RawSchema(parameters(n={"type": kind}))):
        result, body = await call(schema, f'{{"n": {sent}}}')
        assert first_line(result) == f'invalid arguments: "n" must be {phrase}'
        assert body.calls == []


@pytest.mark.parametrize("wrap", ["{}", "[]", '"x"'])
async def test_double_encoded_arguments_are_refused_not_unwrapped(wrap: str):
    result, body = await call({"type": "object"}, json.dumps(wrap))
    assert first_line(result) == 'invalid arguments: "arguments" must be an object'
    assert body.calls == []
    hint = '"arguments": send the object itself, not a string that holds its JSON text'
    assert (hint in text_of(result)) == (wrap == "{}")


async def test_of_duplicate_keys_the_last_one_counts():
    # D39
    result, body = await call(parameters(a={"type": "integer"}), '{"a":"x","a":2}')
    assert isinstance(result, ToolSuccess)
    assert body.calls == [{"a": 2}]


def test_hints_never_change_the_contracts_first_line():
    # D38
    schema: Schema = compile_parameters({"ms": {"type": "integer", "required": True}})
    assert schema.violations({"ms": "2000"}, "") == ['"ms" must be an integer']
    assert argument_hints(schema, {"ms": "2000"}) == ['"ms": send 2000, not "2000"']
