"""Our tools as LangChain's, and one of its tools here. It needs: pip install langchain-core"""

from __future__ import annotations

import asyncio

try:
    from langchain_core.tools import tool as langchain_tool
except ImportError as missing:
    raise SystemExit(f"{missing}; it needs: pip install langchain-core") from None

from dsh_tools import ToolCall, standard, tool
from dsh_tools.toolkits.adapters.langchain import from_langchain, langchain_tools


@tool
async def stock(item: str) -> dict[str, int]:
    """How many there are of an item."""
    return {item: {"apples": 3}.get(item, 0)}


@langchain_tool
def reverse(text: str) -> str:
    """Turn a text around."""
    return text[::-1]


async def main() -> None:
    async with standard() as ctx:
        ctx.tools.register(stock)
        (theirs,) = langchain_tools(ctx)
        for arguments in ({"item": "apples"}, {"item": 7}):
            call = {"type": "tool_call", "id": "1", "name": theirs.name, "args": arguments}
            message = await theirs.ainvoke(call)
            print(message.status, "|", " ".join(str(message.content).split()), "|", message.artifact)

        ctx.tools.register(from_langchain(reverse))
        result = await ctx.tools.execute(ToolCall("reverse", {"text": "apples"}))
        print(result.content[0].text)


asyncio.run(main())
