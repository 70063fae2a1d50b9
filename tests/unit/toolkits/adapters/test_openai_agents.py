"""Tools across the border to the OpenAI Agents SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, RunContextWrapper, Runner, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from tests.support.calls import app

from dsh_tools.errors import DefinitionError
from dsh_tools.kernel import Context
from dsh_tools.toolkits.adapters.openai_agents import from_openai_agents, function_tools
from dsh_tools.tools import PRE_EXECUTE, Deny, ToolCall, ToolFailure, ToolSuccess, tool


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with app() as context:
        context.tools.register(add)
        yield context


class OneCall(Model):
    """A model that makes one call and then repeats what came back."""

    def __init__(self, name: str, arguments: str) -> None:
        self.call = ResponseFunctionToolCall(
            type="function_call", id="f1", call_id="c1", name=name, arguments=arguments
        )
        self.offered: list[Any] = []

    async def get_response(self, *, input: Any, tools: Any, **_: Any) -> Any:  # type: ignore[override]
        self.offered = tools
        outputs = [item["output"] for item in input if isinstance(item, dict) and "output" in item]
        if not outputs:
            return ModelResponse(output=[self.call], usage=Usage(), response_id=None)
        text = ResponseOutputText(type="output_text", text=str(outputs[0]), annotations=[])
        message = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("nobody streams here")


async def run(ctx: Context, arguments: str) -> tuple[str, OneCall]:
    model = OneCall("add", arguments)
    agent = Agent(name="a", model=model, tools=list(function_tools(ctx)))
    result = await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
    return result.final_output, model


async def test_an_agent_there_calls_our_tools(ctx: Context):
    output, model = await run(ctx, '{"a": 2, "b": 3}')
    assert output == "5"
    (offered,) = model.offered
    assert (offered.name, offered.description) == ("add", "Add two numbers.")
    assert offered.params_json_schema["required"] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "said"), [('{"a": "2", "b": 3}', "Error: invalid arguments"), ('{"a": ', "Error: ")]
)
async def test_failures_are_told_to_the_model_there(ctx: Context, arguments: str, said: str):
    output, _ = await run(ctx, arguments)
    assert output.startswith(said)


async def test_policies_here_hold_there(ctx: Context):
    ctx.on(PRE_EXECUTE, lambda execution, next: Deny("not you"))
    assert (await run(ctx, '{"a": 1, "b": 1}'))[0] == "Error: not you"


@dataclass
class Person:
    name: str


@function_tool(failure_error_function=None)
def greet(context: RunContextWrapper[Any], name: str, times: int = 1) -> list[Person]:
    """Greet somebody.

    Args:
        name: whom.
        times: how often.
    """
    if times > 3:
        raise ValueError("less enthusiasm")
    return [Person(f"{context.context} {name}")] * times


async def test_their_tools_run_here(ctx: Context):
    ctx.tools.register(from_openai_agents(greet, context="hello"))
    result = await ctx.tools.execute(ToolCall("greet", {"name": "Ann", "times": 2}))
    assert isinstance(result, ToolSuccess), result
    assert result.value == [{"name": "hello Ann"}] * 2
    for arguments, said in (({"times": 1}, "name"), ({"name": "Ann", "times": 4}, "less enthusiasm")):
        failed = await ctx.tools.execute(ToolCall("greet", arguments))
        assert isinstance(failed, ToolFailure)
        assert said in failed.error.message


async def test_their_approval_is_not_lost(ctx: Context):
    async def invoke(*_: Any) -> str:
        return "boom"

    risky = FunctionTool("risky", "", {"type": "object", "properties": {}}, invoke, needs_approval=True)
    with pytest.raises(DefinitionError, match="needs approval"):
        from_openai_agents(risky)
    assert from_openai_agents(risky, approval_handled=True).name == "risky"
