"""Waiting that loses nothing: what a task ends in, whatever happens to whoever waits for it."""

from __future__ import annotations

import asyncio
import gc

import pytest

from dsh_tools.kernel.tasks import see_out


async def ended_by(gate: asyncio.Event, error: BaseException | None) -> str:
    await gate.wait()
    if error is not None:
        raise error
    return "done"


async def test_the_result_and_the_failure_come_out():
    gate = asyncio.Event()
    gate.set()
    assert await see_out(asyncio.ensure_future(ended_by(gate, None))) == "done"
    with pytest.raises(ValueError, match="no"):
        await see_out(asyncio.ensure_future(ended_by(gate, ValueError("no"))))
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await see_out(task)


@pytest.mark.parametrize("error", [None, ValueError("no")])
async def test_a_cancellation_waits_for_the_end_however_often_it_comes(
    error: BaseException | None, no_leaks: None, loop_complaints: list[str]
):
    gate = asyncio.Event()
    task = asyncio.ensure_future(ended_by(gate, error))
    waiting = asyncio.ensure_future(see_out(task))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
        assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert task.done()
    del task, waiting
    gc.collect()
    assert loop_complaints == []


@pytest.fixture
async def loop_complaints() -> list[str]:
    """What the loop has complained of: failures that nobody has looked at."""
    found: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: found.append(str(context["message"])))
    return found
