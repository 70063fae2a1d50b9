"""Our tools for an agent of pydantic-ai, and one of its tools here. It needs: pip install pydantic-ai-slim"""

from __future__ import annotations

import asyncio

try:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai.tools import Tool
except ImportError as missing:
    raise SystemExit(f"{missing}; it needs: pip install pydantic-ai-slim") from None

from dsh_tools import ToolCall, standard, tool
from dsh_tools.toolkits.adapters.pydantic_ai import RegistryToolset, from_pydantic_ai


@tool
async def stock(item: str) -> int:
    """How many there are of an item."""
    return {"apples": 3}.get(item, 0)


def reverse(text: str) -> str:
    """Turn a text around."""
    return text[::-1]


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands in for a language model, so that the example runs anywhere."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse([TextPart(f"There are {last.content} apples.")])
    return ModelResponse([ToolCallPart("stock", {"item": "apples"})])


async def main() -> None:
    async with standard() as ctx:
        ctx.tools.register(stock)
        agent = Agent(FunctionModel(model), toolsets=[RegistryToolset(ctx)])
        print((await agent.run("How many apples are there?")).output)

        ctx.tools.register(from_pydantic_ai(Tool(reverse)))
        result = await ctx.tools.execute(ToolCall("reverse", {"text": "apples"}))
        print(result.content[0].text)


asyncio.run(main())
