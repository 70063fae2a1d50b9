"""The other parties, each through its own public way of executing one tool call. No model, no network."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from subject import Subject, json_object, json_text

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
os.environ["LANGCHAIN_TRACING_V2"] = "false"
os.environ["FASTMCP_LOG_LEVEL"] = "ERROR"


async def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: the first
        b: the second
    """
    return a + b


async def openai_agents() -> Subject:
    """A function tool of the OpenAI Agents SDK, invoked with its tool context."""
    from agents import function_tool, set_tracing_disabled
    from agents.tool_context import ToolContext

    set_tracing_disabled(True)
    tool = function_tool(add)

    def run(text: str) -> Awaitable[Any]:
        context = ToolContext(context=None, tool_name="add", tool_call_id="c1", tool_arguments=text)
        return tool.on_invoke_tool(context, text)

    return Subject(run, json_text)


async def pydantic_ai() -> Subject:
    """A tool set of Pydantic AI behind its tool manager."""
    from pydantic_ai import FunctionToolset, RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.usage import RunUsage

    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    manager = await ToolManager(FunctionToolset([add])).for_run_step(context)

    def run(text: str) -> Awaitable[Any]:
        return manager.handle_call(ToolCallPart(tool_name="add", args=text, tool_call_id="c1"))

    return Subject(run, json_text)


async def mcp_server() -> Subject:
    """The server side of the MCP SDK, without a transport."""
    from mcp.server import MCPServer

    server = MCPServer("bench")
    server.tool()(add)
    return Subject(lambda arguments: server.call_tool("add", arguments), json_object)


async def fastmcp_server() -> Subject:
    """The server side of FastMCP, without a transport."""
    from fastmcp import FastMCP

    server = FastMCP("bench")
    server.tool(add)
    return Subject(lambda arguments: server.call_tool("add", arguments), json_object)


async def smolagents() -> Subject:
    """A tool of smolagents; its tools are synchronous."""
    from smolagents import tool

    def add_sync(a: int, b: int) -> int:
        """Add two integers.

        Args:
            a: the first
            b: the second
        """
        return a + b

    made = tool(add_sync)

    async def run(arguments: dict[str, int]) -> Any:
        return made(**arguments, sanitize_inputs_outputs=True)

    return Subject(run, json_object)


async def langchain_core() -> Subject:
    """A LangChain tool invoked with its arguments, which is its faster way; it returns the bare value."""
    from langchain_core.tools import tool

    made = tool(add)
    return Subject(lambda arguments: made.ainvoke(arguments), json_object)


SUBJECTS: dict[str, Callable[[], Awaitable[Subject]]] = {
    "openai-agents": openai_agents,
    "pydantic-ai ToolManager": pydantic_ai,
    "mcp server side": mcp_server,
    "smolagents": smolagents,
    "fastmcp server side": fastmcp_server,
    "langchain-core": langchain_core,
}
