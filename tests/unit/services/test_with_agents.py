"""Services and the agent loop together: notices wake agents, prompts are kept, reminders arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dsh_tools.agent import Agent
from dsh_tools.content import TextBlock
from dsh_tools.kernel import Context
from dsh_tools.messages import ToolResultBlock, UserMessage
from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.services import (
    JobRun,
    kept_fingerprints,
    task_work,
)
from dsh_tools.standard import standard
from dsh_tools.tools import define_tool

pytestmark = pytest.mark.usefixtures("no_leaks")


@asynccontextmanager
async def world(*script: Any) -> AsyncGenerator[tuple[Context, Agent, asyncio.Event]]:
    """An agent with a tool ``build`` that starts a job, which ends when the event is set."""
    finish = asyncio.Event()
    async with standard(job_tools={}, repeat_reminder={}) as ctx:
        agent = await ctx.agents.create("main", ScriptedModel(script))

        async def work(run: JobRun) -> str:
            run.write("compiling\n")
            await finish.wait()
            return "linked\n"

        async def build(args: Any, run: Any) -> Any:
            handle = ctx.jobs.start(kind="build", label="the build", owner=run.agent, run=task_work(work))
            return {"kind": "background", "jobId": handle.job_id}

        ctx.tools.register(
            define_tool(
                name="build",
                description="Build in the background.",
                parameters={},
                output={"type": "object", "additionalProperties": True, "properties": {}},
                execute=build,
            )
        )
        yield ctx, agent, finish


def texts(agent: Agent) -> list[str]:
    """What the user's role has said in the history, results included."""
    found: list[str] = []
    for message in agent.session.derive_messages():
        if isinstance(message, UserMessage):
            for block in message.content:
                blocks = block.content if isinstance(block, ToolResultBlock) else (block,)
                found += [inner.text for inner in blocks if isinstance(inner, TextBlock)]
    return found


async def test_the_end_of_a_job_wakes_its_idle_owner():
    # HOST-185, 180
    script = (say("", call("build")), "started", say("", call("job_output", job_id="build-1")), "all done")
    async with world(*script) as (ctx, agent, finish):
        assert (await agent.run("build it")).text == "started"
        assert ctx.jobs.get("build-1", agent).status == "running"
        finish.set()
        async with asyncio.timeout(10):
            while agent.last_outcome is None or agent.last_outcome.text != "all done":
                await asyncio.sleep(0.005)
        said = texts(agent)
        assert any(text.startswith("[Background job build-1 (the build) has ended: completed]") for text in said)
        assert said[-1] == "compiling\nlinked\n[status: completed]"


async def test_the_end_of_an_agent_is_the_end_of_its_jobs():
    # HOST-181
    async with world(say("", call("build")), "started") as (ctx, agent, _):
        await agent.run("build it")
        await agent.dispose()
        assert ctx.jobs.list(agent) == []


async def test_the_session_knows_when_the_prompt_changed():
    async with world("one", "two", "three") as (ctx, agent, _):
        await agent.run("a")
        await agent.run("b")
        ctx.system_prompt.section("late", 120, "something new")
        await agent.run("c")
        assert len(list(kept_fingerprints(agent.session.events))) == 2


async def test_a_reminder_comes_behind_the_results():
    # HOST-141, 153
    same = say("", call("job_list"))
    async with world(same, same, same, "stopped") as (_, agent, _):
        await agent.run("look")
        assert texts(agent)[-1].startswith('You have called "job_list" 3 times in a row')
