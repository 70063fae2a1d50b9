"""Tools across the border to pydantic-ai."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import Tool
from tests.support.calls import app

from dsh_tools.errors import DefinitionError
from dsh_tools.kernel import Context
from dsh_tools.toolkits.adapters.pydantic_ai import RegistryToolset, from_pydantic_ai
from dsh_tools.tools import PRE_EXECUTE, Allow, Deny, ToolCall, ToolFailure, ToolSuccess, tool


@tool(is_concurrency_safe=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def broken() -> str:
    """Fail."""
    raise ValueError("out of paper")


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with app() as context:
        context.tools.register(add)
        context.tools.register(broken)
        yield context


def calls_once(name: str, arguments: Any, seen: list[AgentInfo]) -> FunctionModel:
    """A model that makes one call and then repeats what came back."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse([TextPart(f"{last.outcome}: {last.model_response_str(wrap_if_error=False)}")])
        return ModelResponse([ToolCallPart(name, arguments)])

    return FunctionModel(answer)


async def run(ctx: Context, name: str, arguments: Any) -> str:
    seen: list[AgentInfo] = []
    agent = Agent(calls_once(name, arguments, seen), toolsets=[RegistryToolset(ctx)])
    return (await agent.run("go")).output


async def test_an_agent_there_calls_our_tools(ctx: Context):
    seen: list[AgentInfo] = []
    agent = Agent(calls_once("add", {"a": 2, "b": 3}, seen), toolsets=[RegistryToolset(ctx)])
    result = await agent.run("go")
    assert result.output == "success: 5"
    (offered, other) = seen[0].function_tools
    assert (offered.name, offered.description, offered.sequential) == ("add", "Add two numbers.", False)
    assert offered.parameters_json_schema["required"] == ["a", "b"]
    assert other.sequential is True
    returned = [part for message in result.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]
    assert returned[0].metadata == 5


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [("add", {"a": "2", "b": 3}, "invalid arguments"), ("broken", {}, "out of paper")],
)
async def test_failures_are_told_to_the_model_there(ctx: Context, name: str, arguments: Any, said: str):
    output = await run(ctx, name, arguments)
    assert output.startswith("failed: ")
    assert said in output


async def test_policies_here_hold_there(ctx: Context):
    ctx.on(PRE_EXECUTE, lambda execution, next: Deny("not you") if execution.name == "add" else Allow())
    assert await run(ctx, "add", {"a": 1, "b": 1}) == "failed: not you"


async def test_names_choose_what_goes_out(ctx: Context):
    seen: list[AgentInfo] = []
    agent = Agent(calls_once("add", {"a": 1, "b": 1}, seen), toolsets=[RegistryToolset(ctx, names=["add"])])
    await agent.run("go")
    assert [offered.name for offered in seen[0].function_tools] == ["add"]


async def test_their_tools_run_here(ctx: Context):
    def greet(context: RunContext[str], name: str, times: int = 1) -> list[str]:
        """Greet somebody."""
        if times > 3:
            raise ModelRetry("less enthusiasm")
        return [f"{context.deps} {name}"] * times

    ctx.tools.register(from_pydantic_ai(Tool(greet, name="greet"), deps="hello"))
    result = await ctx.tools.execute(ToolCall("greet", {"name": "Ann", "times": 2}))
    assert isinstance(result, ToolSuccess), result
    assert result.value == ["hello Ann", "hello Ann"]
    for arguments, said in (({"times": 1}, "name"), ({"name": "Ann", "times": 4}, "less enthusiasm")):
        failed = await ctx.tools.execute(ToolCall("greet", arguments))
        assert isinstance(failed, ToolFailure)
        assert said in failed.error.message


async def test_their_approval_is_not_lost(ctx: Context):
    risky = Tool(lambda: "boom", name="risky", requires_approval=True)
    with pytest.raises(DefinitionError, match="needs approval"):
        from_pydantic_ai(risky)
    assert from_pydantic_ai(risky, approval_handled=True).name == "risky"
