"""An agent at work, to be killed: each call leaves a line in a file. Run with STORE EFFECTS."""

from __future__ import annotations

import asyncio
import os
import sys

from dsh_tools import standard, tool
from dsh_tools.model import ScriptedModel, call, say

STORE, EFFECTS = sys.argv[1:3]


@tool(is_concurrency_safe=True)
async def note(number: int) -> str:
    """Write a number down."""
    with open(EFFECTS, "a") as file:
        file.write(f"{number}\n")
        file.flush()
        os.fsync(file.fileno())
    await asyncio.sleep(0.001)
    return f"noted {number}"


def script():
    for step in range(400):
        yield say(f"step {step}. ", *(call("note", number=step * 3 + each) for each in range(1 + step % 3)))


async def main() -> None:
    async with standard(sessions={"path": STORE, "synchronous": "normal"}) as ctx:
        ctx.tools.register(note)
        log = await ctx.sessions.create(id="victim")
        agent = await ctx.agents.create("victim", ScriptedModel(script()), session=log)
        print("ready", flush=True)
        await agent.run("go")


asyncio.run(main())
