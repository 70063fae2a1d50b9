"""Many calls of many agents in one process: one result each, and memory that stays where it was."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from typing import Any

import psutil
import pytest

from dsh_tools import standard, tool
from dsh_tools.model import ScriptedModel, call, say


@tool(is_concurrency_safe=True)
async def work(number: int) -> dict[str, list[int]]:
    """Do a little work."""
    await asyncio.sleep(0)
    if number % 17 == 0:
        raise ValueError("unlucky")
    return {"numbers": [number] * 20}


async def agent_life(ctx: Any, name: str, calls: int, settled: Counter[str]) -> None:
    steps = [
        say("", *(call("work", number=start + each, id=f"{name}-{start + each}") for each in range(5)))
        for start in range(0, calls, 5)
    ]
    agent = await ctx.agents.create(name, ScriptedModel([*steps, "done"]))
    outcome = await agent.run("go")
    assert outcome.text == "done"
    for event in agent.session.events:
        if event.type == "tool/result":
            settled[event.data["message"]["content"][0]["toolCallId"]] += 1
    await agent.dispose()


@pytest.mark.soak
@pytest.mark.limit(900)
async def test_memory_stays_flat_over_many_calls(figure: Any) -> None:
    # Resident memory after the first fifth of the agents is the base; the rest may add a fifth of it at most.
    agents, calls = figure(15, 50), figure(40, 200)
    settled: Counter[str] = Counter()
    told: Counter[str] = Counter()
    process = psutil.Process()
    base = 0
    async with standard() as ctx:
        ctx.tools.register(work)
        ctx.on("tools/result", lambda execution, _result: told.update([execution.call_id]))
        for number in range(agents):
            await agent_life(ctx, f"agent-{number}", calls, settled)
            if number == agents // 5:
                gc.collect()
                base = process.memory_info().rss
        gc.collect()
        grown = process.memory_info().rss - base
        assert list(ctx.agents) == []
    assert len(settled) == len(told) == agents * calls
    assert set(settled.values()) == set(told.values()) == {1}
    assert grown < base * 0.2, f"grew by {grown / 2**20:.1f} MiB over {base / 2**20:.1f} MiB"
