"""kill -9 at random moments: each run ends with the right failure, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from dsh_tools.code_runtime import (
    BindingNamespace,
    CodeRunError,
    CodeRunRequest,
    DenoRuntime,
    MontyRuntime,
    RuntimeConfig,
)
from dsh_tools.testing.runtime_conformance import Host

KILLED = CodeRunError("worker-exit", "worker exited with code 137 before completing")

PROGRAMS: dict[type[Any], list[str]] = {
    DenoRuntime: [
        "for (let i = 0;; i++) { console.log(i); await tools.slow({ seconds: 0.001 }) }",
        "for (let i = 0;; i++) { console.log(i); await Promise.all([1, 2, 3].map((n) => tools.echo({ n }))) }",
        "console.log(0); for (;;);",
        "console.log(0); await tools.slow({ seconds: 60 })",
        "for (let i = 0; i < 1e9; i++) { console.log(i); await new Promise((r) => setTimeout(r, 1)) }",
    ],
    MontyRuntime: [
        "i = 0\nwhile True:\n    print(i)\n    i += 1\n    await tools.slow({'seconds': 0.001})",
        "import asyncio\ni = 0\nwhile True:\n    print(i)\n    i += 1\n    await asyncio.gather(tools.echo(1), tools.echo(2))",
        "print(0)\nwhile True:\n    pass",
        "print(0)\nawait tools.slow({'seconds': 60})",
        "import asyncio\ni = 0\nwhile True:\n    print(i)\n    i += 1\n    await asyncio.sleep(0.001)",
    ],
}


async def kill_soon(delay: float, run: asyncio.Task[Any]) -> None:
    """Kill the run's process a moment after it has appeared.

    A client may replace a process that dies before its first word, so this goes on until the run ends.
    """
    while not psutil.Process().children() and not run.done():
        await asyncio.sleep(0.001)
    await asyncio.sleep(delay)
    while not run.done():
        for child in psutil.Process().children():
            os.kill(child.pid, signal.SIGKILL)
        await asyncio.wait([run], timeout=0.5)


@pytest.mark.limit(600)
@pytest.mark.parametrize("kind", [DenoRuntime, MontyRuntime])
async def test_killed_at_random_moments(kind: type[Any], figure: Callable[[int, int], int]):
    # CODE-144, 146, 147, 174, 179
    chance = random.Random(20260)
    runtime = kind(RuntimeConfig(pool_size=0))
    host = Host()
    # What the client of the interpreter keeps for the whole process is there from now on.
    await runtime.run(CodeRunRequest("", [host.namespace()]))
    for round_number in range(figure(20, 200)):
        program = chance.choice(PROGRAMS[kind])
        run = asyncio.ensure_future(runtime.run(CodeRunRequest(program, [host.namespace()])))
        await asyncio.wait_for(kill_soon(chance.uniform(0, 0.12), run), 60)
        result = run.result()
        assert result.error == KILLED, (round_number, program, result.error)
        # No line that was printed is lost between others, or comes twice.
        assert result.logs == [str(i) for i in range(len(result.logs))]
        assert psutil.Process().children() == []
        assert host.running == 0
    assert (await runtime.run(CodeRunRequest("return 1"))).value == 1
    await runtime.dispose()
    assert psutil.Process().children() == []


@pytest.mark.parametrize("kind", [DenoRuntime, MontyRuntime])
async def test_a_worker_killed_while_it_stood_ready_is_replaced(kind: type[Any]):
    # CODE-156
    runtime = kind(RuntimeConfig(pool_size=2))
    await runtime.warm()
    victims = psutil.Process().children()
    assert len(victims) == 2
    for victim in victims:
        victim.kill()
    await asyncio.sleep(0.1)
    for _ in range(3):
        assert (await runtime.run(CodeRunRequest("return 1"))).value == 1
    await runtime.dispose()
    assert psutil.Process().children() == []


@pytest.mark.parametrize("kind", [DenoRuntime, MontyRuntime])
async def test_everything_at_once(kind: type[Any], figure: Callable[[int, int], int]):
    # CODE-156, 174: runs, kills, aborts and cancellations at the same time, then disposal in the middle
    chance = random.Random(7)
    runtime = kind(RuntimeConfig(pool_size=2, compute_ms=400))
    host = Host()

    async def one() -> None:
        program = chance.choice([*PROGRAMS[kind], "return 1"])
        task = asyncio.ensure_future(runtime.run(CodeRunRequest(program, [host.namespace()])))
        await asyncio.sleep(chance.uniform(0, 0.1))
        if chance.random() < 0.5:
            task.cancel()
        elif children := psutil.Process().children():
            try:
                chance.choice(children).kill()
            except psutil.NoSuchProcess:
                pass
        await asyncio.wait([task])

    crowd = [asyncio.ensure_future(one()) for _ in range(figure(16, 100))]
    await asyncio.sleep(0.6)
    await runtime.dispose()
    await asyncio.wait(crowd)
    for task in crowd:
        task.result()
    assert psutil.Process().children() == []
    assert host.running == 0


async def test_a_host_function_that_outlives_its_cancellation_is_waited_for():
    # CODE-117, 147: nothing is abandoned
    finished = asyncio.Event()
    begun = asyncio.Event()

    async def stubborn(_args: Any) -> Any:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.3)
            finished.set()
        return None

    runtime = DenoRuntime(RuntimeConfig(pool_size=0))
    space = BindingNamespace("tools", {"stubborn": stubborn})
    task = asyncio.ensure_future(runtime.run(CodeRunRequest("await tools.stubborn({})", [space])))
    await asyncio.wait_for(begun.wait(), 30)
    psutil.Process().children()[0].kill()
    assert (await task).error == KILLED
    assert finished.is_set()
    await runtime.dispose()
