"""Calls of a program that end in an unusual way: what the program, the record and the next call see of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dsh_tools import Context, standard, tool
from dsh_tools.model import ScriptedModel, call, say


@tool
async def cancels_itself() -> str:
    """Cancel the task that this runs in."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return "value"


@tool
async def exits() -> str:
    """Raise what only a closed coroutine should."""
    raise GeneratorExit


@tool
async def interrupts() -> str:
    """Raise what passes through a call."""
    raise KeyboardInterrupt("now")


@tool(timeout_ms=50)
async def slow() -> str:
    """Go on beyond the limit."""
    await asyncio.sleep(30)
    return "late"


@tool
async def fine(n: int) -> int:
    """Return the number."""
    await asyncio.sleep(0.001)
    return n


@pytest.fixture(params=[False, True], ids=["plain", "journal"])
async def ctx(no_leaks: None, request: pytest.FixtureRequest) -> AsyncIterator[Context]:
    code = {"prewarm": False, "pool_size": 0}
    async with standard(tools={"mode": "both"}, code=code, journal=request.param) as context:
        for each in (cancels_itself, exits, interrupts, slow, fine):
            context.tools.register(each)
        yield context


async def turn(ctx: Context, program: str) -> tuple[Any, list[Any]]:
    """Run a program in a turn; returns the text of its result, and its agent's events."""
    agent = await ctx.agents.create("a", ScriptedModel([say("", call("run_code", code=program)), "done"]))
    async with asyncio.timeout(30):
        await agent.run("go")
    events = list(agent.session.events)
    (result,) = (event for event in events if event.type == "tool/result")
    return result.data["message"]["content"][0]["content"][0]["text"], events


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cancels_itself", 'tool "cancels_itself" cancelled the task that it ran in'),
        ("exits", "GeneratorExit"),
    ],
)
async def test_the_program_catches_it_and_goes_on(ctx: Context, name: str, message: str) -> None:
    # CODE-96, 98
    program = """
        const out = [await tools.fine({n: 1})];
        try { await tools.NAME({}) } catch (error) { out.push(error.message) }
        out.push(await tools.fine({n: 2}), (await Promise.all([3, 4].map(n => tools.fine({n})))).join());
        return out.join(" | ");
    """
    text, _ = await turn(ctx, program.replace("NAME", name))
    assert text == f"1 | {message} | 2 | 3,4"


async def test_a_program_reads_the_message_and_the_record_says_how_the_call_stopped(ctx: Context) -> None:
    # CODE-96, 108; HOST-133
    text, events = await turn(ctx, "try { await tools.slow({}) } catch (error) { return error.message }")
    assert text == "tool call timed out after 50ms"
    (dispatch,) = (event for event in events if event.type == "tool/code-dispatch")
    assert [block["text"] for block in dispatch.data["content"]] == [
        "Error: tool call timed out after 50ms\n[the tool has stopped]"
    ]


def test_an_interruption_leaves_the_turn_as_itself_when_the_program_has_ended() -> None:
    # CODE-117: what passes through a call does so when all calls and the program have ended
    program = "await Promise.allSettled([tools.fine({n: 1}), tools.interrupts({}), tools.fine({n: 2})])"
    events: list[Any] = []
    names: list[str] = []

    async def main() -> None:
        code = {"prewarm": False, "pool_size": 0}
        async with standard(tools={"mode": "both"}, code=code) as ctx:
            ctx.tools.register(fine)
            ctx.tools.register(interrupts)
            agent = await ctx.agents.create("a", ScriptedModel([say("", call("run_code", code=program)), "done"]))

            try:
                await agent.run("go")
            finally:
                events.extend(agent.session.events)
                names.extend(getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks())

    with pytest.raises(KeyboardInterrupt, match="now"):
        asyncio.run(main())
    types = [event.type for event in events]
    assert (types.count("tool/result"), types[-1]) == (1, "turn/end")
    assert not [name for name in names if name.startswith(("CallLane", "Bridge", "DenoProcess"))]
