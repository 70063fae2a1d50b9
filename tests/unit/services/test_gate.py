"""The gate: order, room, rate, and that nobody who leaves the line is missed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_tools.kernel.abort import NEVER, AbortController
from dsh_tools.services.gate import Gate


async def enter(gate: Gate, **more: Any) -> bool:
    return await gate.enter(more.pop("signal", NEVER), more.pop("max_wait", None), **more)


async def soon(awaitable: Awaitable[Any]) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(awaitable)
    await asyncio.sleep(0)
    return task  # type: ignore[return-value]


async def test_those_who_wait_enter_in_their_order(no_leaks: None):
    gate, order = Gate(1, None, 1), []
    assert await enter(gate)

    async def one(number: int) -> None:
        await enter(gate)
        order.append(number)
        gate.leave()

    tasks = [await soon(one(number)) for number in range(5)]
    assert (gate.inside, gate.waiting, order) == (1, 5, [])
    # Nobody overtakes those in line.
    assert not gate.try_enter()
    gate.leave()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]
    assert (gate.inside, gate.waiting) == (0, 0)


@pytest.mark.parametrize("how", ["signal", "task", "time"])
async def test_whoever_gives_up_leaves_the_line(no_leaks: None, how: str):
    gate, caller = Gate(1, None, 1), AbortController()
    await enter(gate)
    max_wait = 0.01 if how == "time" else None
    quitter = await soon(enter(gate, signal=caller.signal, max_wait=max_wait))
    patient = await soon(enter(gate))
    if how == "signal":
        caller.abort()
    elif how == "task":
        quitter.cancel()
    if how == "task":
        with pytest.raises(asyncio.CancelledError):
            await quitter
    else:
        assert await quitter is False
    assert (gate.waiting, caller.signal.callback_count) == (1, 0)
    gate.leave()
    assert await patient is True


async def test_a_place_given_to_somebody_cancelled_goes_on(no_leaks: None):
    gate = Gate(1, 10, 60)
    await enter(gate)
    quitter, patient = await soon(enter(gate)), await soon(enter(gate))
    gate.leave()
    # The place is the quitter's already, and it has not run since.
    quitter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await quitter
    assert await patient is True
    assert gate.inside == 1


async def test_the_rate_is_kept_over_any_window(no_leaks: None):
    gate, times = Gate(None, 3, 0.1), []
    loop = asyncio.get_running_loop()

    async def one() -> None:
        await enter(gate)
        times.append(loop.time())
        gate.leave()

    await asyncio.gather(*(one() for _ in range(10)))
    assert len(times) == 10
    for index in range(len(times) - 3):
        assert times[index + 3] - times[index] >= 0.099
    assert times[-1] - times[0] < 1


async def test_how_long_the_gate_stays_shut(no_leaks: None):
    gate = Gate(1, 2, 60)
    assert gate.seconds_until_entry() is None
    await enter(gate)
    gate.leave()
    await enter(gate)
    assert gate.seconds_until_entry() == pytest.approx(60, abs=1)
    gate.leave()
    assert not gate.try_enter()
    assert await enter(gate, max_wait=0.01) is False


async def test_an_aborted_caller_does_not_enter(no_leaks: None):
    gate, caller = Gate(1, None, 1), AbortController()
    await enter(gate)
    caller.abort()
    assert await enter(gate, signal=caller.signal) is False


async def test_whoever_is_inside_needs_no_second_place(no_leaks: None):
    gate = Gate(1, 3, 0.05)
    await enter(gate)
    waiting = await soon(enter(gate))
    assert await enter(gate, again=True)
    assert await enter(gate, again=True)
    # Three entries are what the rate allows: the fourth waits for the time, not for the line.
    started = asyncio.get_running_loop().time()
    assert await enter(gate, again=True)
    assert asyncio.get_running_loop().time() - started > 0.02
    assert not waiting.done()
    for _ in range(4):
        gate.leave()
    assert await waiting is True


@pytest.mark.parametrize("how", ["signal", "time"])
async def test_entering_again_can_be_given_up(no_leaks: None, how: str):
    gate, caller = Gate(1, 1, 60), AbortController()
    await enter(gate)
    task = await soon(enter(gate, again=True, signal=caller.signal, max_wait=0.02 if how == "time" else None))
    if how == "signal":
        caller.abort()
    assert await task is False
    assert gate.inside == 1


async def test_an_open_gate_stops_nobody(no_leaks: None):
    gate = Gate(1, 1, 60)
    await enter(gate)
    waiting = [await soon(enter(gate)) for _ in range(3)]
    gate.open()
    assert await asyncio.gather(*waiting) == [True] * 3
    assert await enter(gate)


@given(st.integers(1, 3), st.lists(st.sampled_from(["stay", "abort", "cancel", "time"]), max_size=12), st.integers())
@settings(max_examples=60)
def test_any_mixture_of_leaving_ends_empty(room: int, kinds: list[str], seed: int):
    rng = random.Random(seed)

    async def scenario() -> None:
        gate, inside, most = Gate(room, None, 1), 0, 0

        async def one(signal: Any, max_wait: float | None) -> None:
            nonlocal inside, most
            if not await gate.enter(signal, max_wait):
                return
            inside += 1
            most = max(most, inside)
            try:
                await asyncio.sleep(rng.random() / 500)
            finally:
                inside -= 1
                gate.leave()

        tasks = []
        for kind in kinds:
            caller = AbortController()
            task = asyncio.ensure_future(one(caller.signal, 0.001 if kind == "time" else None))
            tasks.append(task)
            if kind == "abort":
                asyncio.get_running_loop().call_later(rng.random() / 500, caller.abort)
            if kind == "cancel":
                asyncio.get_running_loop().call_later(rng.random() / 500, task.cancel)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert most <= room
        assert (gate.inside, gate.waiting) == (0, 0)

    asyncio.run(scenario())
