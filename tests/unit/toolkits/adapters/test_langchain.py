"""Tools across the border to LangChain."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_core.tools import tool as langchain_tool
from tests.support.calls import app

from dsh_tools.content import content_text
from dsh_tools.kernel import Context
from dsh_tools.toolkits.adapters.langchain import from_langchain, langchain_tools
from dsh_tools.tools import PRE_EXECUTE, Deny, ToolCall, ToolFailure, ToolSuccess, tool


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def label(name: str) -> dict[str, str]:
    """Make a label. Its parameter has the name of one of the adapter's own."""
    return {"label": name}


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with app() as context:
        context.tools.register(add)
        context.tools.register(label)
        yield context


async def call(tool: BaseTool, **arguments: Any) -> ToolMessage:
    return await tool.ainvoke({"type": "tool_call", "id": "c1", "name": tool.name, "args": arguments})


async def test_our_tools_are_called_from_there(ctx: Context):
    ours = {tool.name: tool for tool in langchain_tools(ctx)}
    message = await call(ours["add"], a=2, b=3)
    assert (message.content, message.artifact, message.status) == ("5", 5, "success")
    message = await call(ours["label"], name="x")
    assert message.artifact == {"label": "x"}
    schema: Any = ours["add"].tool_call_schema
    assert schema["required"] == ["a", "b"]
    assert ours["add"].description == "Add two numbers."


async def test_failures_are_told_to_the_model_there(ctx: Context):
    (adder,) = langchain_tools(ctx, names=["add"])
    message = await call(adder, a="2", b=3)
    assert message.status == "error"
    assert "invalid arguments" in str(message.content)
    ctx.on(PRE_EXECUTE, lambda execution, next: Deny("not you"))
    assert (await call(adder, a=1, b=1)).content == "Error: not you"


@langchain_tool
def shout(text: str, times: int = 1) -> str:
    """Shout."""
    return text.upper() * times + f" {threading.current_thread() is threading.main_thread()}"


@langchain_tool(response_format="content_and_artifact")
async def search(query: str) -> tuple[str, dict[str, int]]:
    """Search."""
    return f"found {query}", {"hits": 3}


async def test_their_tools_run_here(ctx: Context):
    ctx.tools.register(from_langchain(shout))
    ctx.tools.register(from_langchain(search))
    result = await ctx.tools.execute(ToolCall("shout", {"text": "a", "times": 2}))
    assert isinstance(result, ToolSuccess), result
    assert result.value == "AA False"
    result = await ctx.tools.execute(ToolCall("search", {"query": "x"}))
    assert isinstance(result, ToolSuccess), result
    assert result.value == {"content": "found x", "artifact": {"hits": 3}}
    assert content_text(result.content) == "found x"
    failed = await ctx.tools.execute(ToolCall("shout", {"times": 2}))
    assert isinstance(failed, ToolFailure)
    assert "text" in failed.error.message


@pytest.mark.field("field-052")
@pytest.mark.parametrize("handled", [False, True, "handled in its own way"])
@pytest.mark.parametrize("sync", [False, True])
async def test_their_exceptions_are_error_results(ctx: Context, handled: Any, sync: bool):
    def fail(kind: str) -> str:
        if kind == "tool":
            raise ToolException("no such ticket")
        raise ValueError("boom")

    async def fail_later(kind: str) -> str:
        return fail(kind)

    body: Any = {"func": fail} if sync else {"coroutine": fail_later}
    theirs = StructuredTool.from_function(**body, name="fail", description="Fail.", handle_tool_error=handled)
    ctx.tools.register(from_langchain(theirs))
    expected = {"tool": handled if isinstance(handled, str) else "no such ticket", "value": "boom"}
    for kind, said in expected.items():
        result = await ctx.tools.execute(ToolCall("fail", {"kind": kind}))
        assert isinstance(result, ToolFailure), result
        assert said in result.error.message
