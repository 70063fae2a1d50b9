"""Field cases on Python types: what reaches a typed body, and what is refused before it."""

from __future__ import annotations

import ast
import dataclasses
import json
import threading
from typing import Any

import pydantic
import pytest
from tests.support.calls import app, run, text_of

from dsh_tools.errors import InvalidTimeoutError
from dsh_tools.schema import RawSchema, SdkTool, render_sdk_python
from dsh_tools.tools import (
    Ask,
    ToolCall,
    ToolFailure,
    ToolRunContext,
    ToolSuccess,
    compile_definition,
    define_tool,
    tool,
)


async def call(definition: Any, arguments: Any) -> Any:
    async with app() as ctx:
        ctx.tools.register(definition)
        return await ctx.tools.execute(ToolCall(definition.name, arguments))


def refused(result: Any, message: str) -> None:
    """The call failed for its arguments, with this message first."""
    assert isinstance(result, ToolFailure)
    assert result.error.info.code == "INVALID_ARGS"
    assert result.error.message.splitlines()[0] == f"invalid arguments: {message}"


@tool
async def echo(p: str) -> str:
    """Give the text back."""
    return p


@pytest.mark.field("field-008", "field-009", "field-011")
@pytest.mark.parametrize("value", ["12345", '{"a": 1}', "[1]", "1e234567", "57785654", "true", "null", ""])
async def test_a_string_stays_the_string_it_is(value: str):
    for arguments in ({"p": value}, json.dumps({"p": value})):
        result = await call(echo, arguments)
        assert isinstance(result, ToolSuccess)
        assert result.value == value
        assert text_of(result) == value


class Counted:
    """A tool ``t(n: int)`` that counts its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

        @tool
        async def t(n: int) -> int:
            self.calls.append(n)
            return n

        self.tool = t


@pytest.mark.field("field-013")
@pytest.mark.parametrize("n", [3.7, "3.7", "3", None, [3]])
async def test_integers_are_not_cut_or_parsed(n: Any):
    counted = Counted()
    for arguments in ({"n": n}, json.dumps({"n": n})):
        refused(await call(counted.tool, arguments), '"n" must be an integer')
    assert counted.calls == []


@pytest.mark.field("field-125")
async def test_booleans_are_no_integers_and_integers_no_booleans():
    counted = Counted()
    refused(await call(counted.tool, '{"n": true}'), '"n" must be an integer')
    assert counted.calls == []

    @tool
    async def flag(on: bool) -> bool:
        return on

    refused(await call(flag, '{"on": 1}'), '"on" must be a boolean')
    assert (await call(flag, '{"on": true}')).value is True


@dataclasses.dataclass
class Node:
    value: str
    children: list[Node] = dataclasses.field(default_factory=list)


def tree(depth: int, leaf: Any = "v") -> dict[str, Any]:
    node: dict[str, Any] = {"value": leaf, "children": []}
    for _ in range(depth):
        node = {"value": "v", "children": [node]}
    return node


@pytest.mark.field("field-019")
async def test_a_type_that_contains_itself_is_kept_by_reference():
    @tool
    async def depth_of(root: Node) -> int:
        depth = 0
        while root.children:
            root, depth = root.children[0], depth + 1
        return depth

    assert "$defs" in depth_of.parameters.json  # type: ignore[union-attr]
    assert depth_of.parameters.json["properties"]["root"] == {"$ref": "#/$defs/Node"}  # type: ignore[union-attr]
    assert (await call(depth_of, {"root": tree(50)})).value == 50
    refused(await call(depth_of, {"root": tree(2, leaf=3)}), '"root.children[0].children[0].value" must be a string')
    # Depth is never a crash: JSON text has its own limit, values from the host have the type's.
    for depth in (1_000, 100_000):
        result = await call(depth_of, {"root": tree(depth)})
        assert isinstance(result, ToolFailure)
        assert result.error.info.code == "INVALID_ARGS"


@pytest.mark.field("field-036")
async def test_property_names_that_are_no_identifiers():
    document = {
        "type": "object",
        "properties": {"from": {"type": "string"}, "class": {"type": "string"}, "cik-A": {"type": "string"}},
    }

    async def execute(args: dict[str, Any], run: ToolRunContext) -> dict[str, Any]:
        return dict(args)

    definition = define_tool(
        name="t", description="", parameters=RawSchema(document), output=dict[str, Any], execute=execute
    )
    arguments = {"from": "a", "class": "b", "cik-A": "c"}
    assert (await call(definition, arguments)).value == arguments
    schema = compile_definition(definition).schema
    block = render_sdk_python([SdkTool(schema.name, schema.description, schema.parameters, {})])
    ast.parse(block.strip().removeprefix("```python").removeprefix("```py").removesuffix("```"))


@pytest.mark.field("field-048")
async def test_mutable_defaults_are_not_shared_between_calls():
    @tool
    async def t(items: list[int] = []) -> int:  # noqa: B006
        items.append(1)
        return len(items)

    async with app() as ctx:
        ctx.tools.register(t)
        assert [(await run(ctx, "t", {})).value for _ in range(2)] == [1, 1]


class City(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def known(cls, value: str) -> str:
        if value != "Rome":
            raise ValueError("bad city")
        return value


@pytest.mark.field("field-056")
async def test_a_validators_refusal_is_feedback_for_the_model():
    calls: list[Any] = []

    @tool
    async def visit(cities: list[City]) -> str:
        calls.append(cities)
        return cities[0].name

    result = await call(visit, '{"cities": [{"name": "Rome"}, {"name": "Nowhere"}]}')
    refused(result, '"cities[1].name" is not valid: bad city')
    assert calls == []
    assert json.dumps(result.error.message)
    assert (await call(visit, '{"cities": [{"name": "Rome"}]}')).value == "Rome"


@pytest.mark.field("field-061")
async def test_a_parameter_of_the_hosts_is_not_the_models():
    @tool
    async def t(x: int, ctx: ToolRunContext) -> str:
        return f"{x} {ctx.call_id}"

    assert t.parameters.json == {  # type: ignore[union-attr]
        "type": "object",
        "additionalProperties": False,
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
    }
    assert (await call(t, {"x": 1})).value == "1 call"
    refused(await call(t, {"x": 1, "ctx": {}}), '"ctx" is not a declared property (additionalProperties: false)')


@pytest.mark.field("field-073")
async def test_a_function_may_ask_for_the_loops_thread():
    @tool(run_in_thread=False)
    def here() -> int:
        return threading.get_ident()

    @tool
    def elsewhere() -> int:
        return threading.get_ident()

    assert (await call(here, {})).value == threading.get_ident()
    assert (await call(elsewhere, {})).value != threading.get_ident()
    for run_in_thread in (False, True):
        with pytest.raises(InvalidTimeoutError, match="make it async, or drop the time limit"):

            @tool(run_in_thread=run_in_thread, timeout_ms=100)
            def limited() -> int:
                return 1


@pytest.mark.field("field-091")
async def test_policy_sees_the_defaults():
    asked: list[Any] = []

    @tool
    async def push(force: bool = True) -> str:
        return "pushed"

    async with app() as ctx:
        ctx.tools.register(push)

        async def policy(execution: Any, next: Any) -> Any:
            asked.append(execution.arguments)
            return Ask("forced") if execution.arguments.get("force") else await next()

        ctx.on("tools/pre-execute", policy)
        asking = await run(ctx, "push", "{}")
        plain = await run(ctx, "push", {"force": False})
    assert asked == [{"force": True}, {"force": False}]
    assert isinstance(asking, ToolFailure)  # nobody is there to be asked
    assert plain.value == "pushed"


@pytest.mark.field("field-129")
async def test_a_return_value_must_keep_its_promise():
    @tool
    async def t() -> int:
        return "not-an-int"  # type: ignore[return-value]

    result = await call(t, {})
    assert isinstance(result, ToolFailure)
    assert result.error.info.code == "INVALID_TOOL_OUTPUT"
    assert result.error.message == 'tool "t" returned invalid output: "value" must be an integer'
