"""Many calls of many agents in one process: one result each, and memory that stays where it was."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from pathlib import Path
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


@pytest.mark.limit(900)
async def test_memory_stays_flat_over_many_calls(tmp_path: Path, figure: Any) -> None:
    # Resident memory once the first five agents are gone is the base; the rest may add a tenth of it at most.
    # The sessions are kept in a file: a store in memory grows with what it keeps, as it should.
    agents, calls = figure(15, 50), figure(40, 200)
    settled: Counter[str] = Counter()
    told: Counter[str] = Counter()
    process = psutil.Process()
    base = 0
    async with standard(sessions={"path": str(tmp_path / "sessions.sqlite"), "synchronous": "normal"}) as ctx:
        ctx.tools.register(work)
        ctx.on("tools/result", lambda execution, _result: told.update([execution.call_id]))
        for first in range(0, agents, 5):
            names = [f"agent-{number}" for number in range(first, first + 5)]
            await asyncio.gather(*(agent_life(ctx, name, calls, settled) for name in names))
            gc.collect()
            base = base or process.memory_info().rss
        grown = process.memory_info().rss - base
        assert list(ctx.agents) == []
    print(f"{agents * calls} calls of {agents} agents: {base / 2**20:.1f} MiB, then {grown / 2**20:+.1f} MiB")
    assert len(settled) == len(told) == agents * calls
    assert set(settled.values()) == set(told.values()) == {1}
    assert grown < base * 0.1, f"grew by {grown / 2**20:.1f} MiB over {base / 2**20:.1f} MiB"
