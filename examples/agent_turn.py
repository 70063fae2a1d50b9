"""An agent turn with a scripted model: two reads at once, then an answer. Run: python examples/agent_turn.py"""

from __future__ import annotations

import asyncio

from dsh_tools import standard, tool
from dsh_tools.model import ScriptedModel, call, say

PAGES = {"intro": "Tools are typed.", "policy": "Denials stay denials."}


@tool(is_concurrency_safe=True)
async def page(name: str) -> str:
    """Read a page of the manual.

    Args:
        name: which page.
    """
    return PAGES[name]


async def main() -> None:
    model = ScriptedModel([say("Let me read. ", call("page", name="intro"), call("page", name="policy")), "Both read."])
    async with standard() as ctx:
        ctx.tools.register(page)
        agent = await ctx.agents.create("reader", model)
        outcome = await agent.run("What does the manual say?")
        print(outcome.text)
        for event in agent.session.events:
            if event.type == "tool/result":
                print(event.data["message"]["content"][0]["content"][0]["text"])


asyncio.run(main())
