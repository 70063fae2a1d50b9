"""What is over is let go: an agent that has ended is not kept until its application ends."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from tests.support.calls import make_tool

from dsh_tools.kernel import Context
from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.standard import standard

EVERYTHING: dict[str, Any] = {
    name: {}
    for name in ("job_tools", "spill", "spill_policy", "limits", "retry", "repeat_reminder", "tracing", "metrics")
}


async def one_life(ctx: Context) -> list[weakref.ref[Any]]:
    agent = await ctx.agents.create("short", ScriptedModel([say("", call("work")), "done"]))
    assert (await agent.run("go")).text == "done"
    kept = [weakref.ref(agent), weakref.ref(agent.session), weakref.ref(agent.scope), weakref.ref(agent.ctx)]
    await agent.dispose()
    return kept


@pytest.mark.parametrize("services", [{}, EVERYTHING], ids=["few services", "all services"])
async def test_an_agent_that_has_ended_is_let_go(services: dict[str, Any]) -> None:
    # HOST-59
    async with standard(sessions={"store": "memory"}, **services) as ctx:

        async def body(_args: Any, _run: Any) -> str:
            return "ok"

        ctx.tools.register(make_tool("work", body))
        kept = await one_life(ctx)
        await one_life(ctx)  # closed sessions are let go when the next one opens
        gc.collect()
        assert [each() for each in kept] == [None] * 4
