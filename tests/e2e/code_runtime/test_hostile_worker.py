"""A worker that knows its nonce and writes whatever it likes: the host stays up, and keeps its own count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dsh_tools.code_runtime import (
    CodeRunError,
    CodeRunRequest,
    CodeRunResult,
    DenoRuntime,
    Determinism,
    HostAnswer,
    RuntimeConfig,
)
from dsh_tools.testing.runtime_conformance import Host

from .conftest import RunProgram

WORKER = Path(__file__).with_name("hostile_worker.ts")
INVALID = CodeRunError("invalid-output", "program completion must be lossless JSON")
MIB = 1 << 20


@pytest.fixture
async def hostile(host: Host) -> AsyncIterator[RunProgram]:
    """Let a hostile worker do one of its acts."""
    runtimes: list[DenoRuntime] = []

    async def run(act: str, determinism: Determinism | None = None, **config: Any) -> CodeRunResult:
        runtimes.append(DenoRuntime(RuntimeConfig(**{"pool_size": 0, "max_wall_ms": 60_000, **config}), worker=WORKER))
        return await runtimes[-1].run(CodeRunRequest(act, [host.namespace()], determinism=determinism))

    yield run
    for runtime in runtimes:
        await runtime.dispose()


class PeakMemory:
    """Samples this process's resident memory while a block runs, and the event loop's longest pause."""

    async def __aenter__(self) -> PeakMemory:
        self.start = self.peak = psutil.Process().memory_info().rss
        self.longest_pause = 0.0
        self._task = asyncio.ensure_future(self._sample())
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _sample(self) -> None:
        loop, process = asyncio.get_running_loop(), psutil.Process()
        while True:
            begun = loop.time()
            await asyncio.sleep(0.01)
            self.longest_pause = max(self.longest_pause, loop.time() - begun - 0.01)
            self.peak = max(self.peak, process.memory_info().rss)


@pytest.mark.parametrize("act", ["gigabyte", "gigabyteOfLines"])
async def test_a_gigabyte_of_output_costs_no_memory(hostile: RunProgram, act: str):
    # CODE-155, 179
    async with PeakMemory() as memory:
        result = await hostile(act)
    assert (result.value, result.error) == ("survived", None)
    assert memory.peak - memory.start < 24 * MIB
    assert memory.longest_pause < 2.0


async def test_a_frame_of_a_gigabyte_is_dropped(hostile: RunProgram):
    # CODE-155, 181: a line is held up to the limit, and no further
    async with PeakMemory() as memory:
        result = await hostile("gigabyteInFrame")
    assert (result.value, result.error, result.logs) == ("survived", None, [])
    assert memory.peak - memory.start < 300 * MIB


async def test_junk_is_dropped_without_a_word(hostile: RunProgram, host: Host):
    # CODE-181, 184
    result = await hostile("junk")
    assert (result.value, result.error) == ("last", None)
    assert result.logs == ["\ud800\ud800"]
    assert host.calls == []


async def test_a_truncated_frame_is_no_frame(hostile: RunProgram):
    # CODE-145, 181
    assert (await hostile("truncated")).error == CodeRunError(
        "worker-exit", "worker exited with code 3 before completing"
    )


async def test_frames_may_arrive_in_pieces(hostile: RunProgram):
    assert await hostile("interleaved") == CodeRunResult(["in pieces"], "whole")


async def test_each_call_is_answered_once(hostile: RunProgram, host: Host):
    # CODE-181
    result = await hostile("duplicates")
    assert result.value == [{"id": 1, "ok": True, "value": {"n": 1}}, {"id": 2, "ok": True, "value": {"n": 7}}]
    assert [args["n"] for _, args in host.calls] == [1, 7]


async def test_names_are_resolved_as_own_members(hostile: RunProgram):
    # CODE-181
    result = await hostile("names")
    assert result.value == [
        [False, 'unknown binding "tools.missing"'],
        [False, 'unknown binding "tools.__class__"'],
        [False, 'unknown binding "nowhere.echo"'],
        [False, 'unknown binding "__proto__.echo"'],
        [False, 'unknown binding "tools.get"'],
    ]


async def test_forged_values_are_checked_again(hostile: RunProgram, host: Host):
    # CODE-90, 181, 186
    result = await hostile("forgedArguments")
    assert result.value == ["binding arguments must be lossless JSON"] * 9
    assert host.calls == []
    assert (await hostile("forgedValue")).error == INVALID
    assert (await hostile("forgedDeepValue")).error == INVALID


async def test_forged_outcomes_are_metered_again(hostile: RunProgram):
    # CODE-151, 153, 155, 181
    limit = CodeRunError("output-limit", "outer output exceeded 1000 bytes")
    for act in ("largeValue", "largeError", "ownLimit"):
        assert (await hostile(act, max_output_bytes=1000)).error == limit
    spam = await hostile("spam", max_output_bytes=300)
    assert spam.logs == [*(f"spam line {i}" for i in range(18)), "spa"]
    assert spam.error == CodeRunError("output-limit", "outer output exceeded 300 bytes")


async def test_an_error_wins_over_a_value_and_the_first_outcome_over_the_rest(hostile: RunProgram, host: Host):
    # CODE-127, 147, 184
    assert (await hostile("both")).error == CodeRunError("exception", "both")
    assert await hostile("twice") == CodeRunResult([], "first")
    assert host.calls == []


async def test_frames_too_deep_to_read_are_dropped(hostile: RunProgram, host: Host):
    # CODE-179, 182
    result = await hostile("deepFrame")
    assert (result.value, result.error, host.calls) == ("bounded", None, [])


@pytest.mark.parametrize("act", ["callsWithoutEnd", "largeCallsWithoutEnd"])
async def test_open_calls_are_bounded(hostile: RunProgram, host: Host, act: str):
    # CODE-181: a worker that ignores its window waits at its own full pipe, after what one read brings
    async with PeakMemory() as memory:
        result = await hostile(act, max_wall_ms=3000)
    assert result.error == CodeRunError("timeout", "wall-clock ceiling reached (3000ms)")
    assert 0 < len(host.calls) <= 6000
    assert host.running == 0
    assert memory.peak - memory.start < 600 * MIB


@pytest.mark.parametrize("act", ["closesItsOutput", "ignoresItsInput"])
async def test_a_worker_that_says_nothing_ends_at_the_wall(hostile: RunProgram, act: str):
    # CODE-142, 143
    assert (await hostile(act, max_wall_ms=700)).error == CodeRunError("timeout", "wall-clock ceiling reached (700ms)")


async def test_a_worker_that_does_not_read_its_replies(hostile: RunProgram, host: Host):
    # CODE-143, 181
    result = await hostile("refusesToRead", compute_ms=500)
    assert result.error == CodeRunError("timeout", "compute budget exhausted (500ms busy)")
    assert len(host.calls) == 400


async def test_other_runs_are_unaffected(hostile: RunProgram, typescript: RunProgram):
    # CODE-156, 179
    bad, *good = await asyncio.gather(
        hostile("spam", max_output_bytes=1000), *(typescript("return await tools.echo({ a: 1 })") for _ in range(4))
    )
    assert bad.error is not None
    assert [result.value for result in good] == [{"a": 1}] * 4


async def test_an_ordinary_program_has_no_timers_of_the_hosts(hostile: RunProgram, host: Host):
    # Forged ones use up no number
    result = await hostile("timers")
    assert result.value == [2]
    assert host.calls == [("echo", "late"), ("echo", {})]


async def test_forged_timers_are_numbered_like_calls(hostile: RunProgram, host: Host):
    # CODE-181: a number that is not new is no call; what is forgotten gets no answer, and twice is once
    slept: list[HostAnswer] = []

    def sleep(_: float) -> HostAnswer:
        slept.append(HostAnswer(loop=asyncio.get_running_loop()))
        return slept[-1]

    result = await hostile("timers", Determinism("00", 0, sleep))
    assert result.value == [4]
    assert host.calls == [("echo", {})]
    assert [answer.cancelled() for answer in slept] == [True] * 3


async def test_a_flood_of_timers_ends_the_run(hostile: RunProgram):
    # CODE-184
    result = await hostile("floodOfTimers", Determinism("00", 0, lambda _: HostAnswer(loop=asyncio.get_running_loop())))
    assert result.error == CodeRunError("worker-exit", "worker error: too many timers")
