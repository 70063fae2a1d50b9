from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import time

import pytest

from dsh_tools.code_runtime import RuntimeConfig
from dsh_tools.code_runtime.budgets import compute_exhausted, wall_reached
from dsh_tools.code_runtime.cpu_meter import CpuMeter
from dsh_tools.errors import ConfigError


def test_the_defaults():
    # CODE-140
    config = RuntimeConfig()
    assert (config.compute_ms, config.max_wall_ms) == (60_000, 600_000)
    assert (config.max_output_bytes, config.max_old_generation_size_mb) == (67_108_864, 512)


@pytest.mark.parametrize(
    "key", ["compute_ms", "max_wall_ms", "max_output_bytes", "max_old_generation_size_mb", "max_idle_seconds"]
)
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, -math.inf, "5", None, True])
def test_every_number_is_finite_and_positive(key: str, value: object):
    # CODE-140
    with pytest.raises(ConfigError, match=key):
        RuntimeConfig(**{key: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values",
    [{"max_output_bytes": 3}, {"max_output_bytes": 4.5}, {"max_output_bytes": 2**53}, {"max_wall_ms": 2147483648}]
    + [{"pool_size": -1}, {"pool_size": 1.5}, {"pool_size": 65}],
)
def test_ranges(values: dict[str, object]):
    # CODE-140: a timer beyond its range would fire at once
    with pytest.raises(ConfigError):
        RuntimeConfig(**values)  # type: ignore[arg-type]


def test_the_ends_of_the_ranges():
    # CODE-140
    RuntimeConfig(max_output_bytes=4, max_wall_ms=2147483647, pool_size=0, compute_ms=0.5)
    RuntimeConfig(max_output_bytes=2**53 - 1, pool_size=64)


def test_messages_name_the_budget():
    # CODE-141, 142
    config = RuntimeConfig(compute_ms=300, max_wall_ms=400.5)
    assert compute_exhausted(config).message == "compute budget exhausted (300ms busy)"
    assert wall_reached(config).message == "wall-clock ceiling reached (400.5ms)"
    assert compute_exhausted(config).kind == wall_reached(config).kind == "timeout"


def spinner(seconds: float) -> subprocess.Popen[bytes]:
    code = f"import time; end = time.process_time() + {seconds}\nwhile time.process_time() < end: pass\nprint('spun', flush=True); time.sleep(60)"
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE)


async def test_a_busy_process_uses_its_budget_up():
    # CODE-141
    child = spinner(30)
    exhausted = asyncio.Event()
    try:
        begun = time.monotonic()
        CpuMeter(child.pid, 200, exhausted.set)
        await asyncio.wait_for(exhausted.wait(), 20)
        assert time.monotonic() - begun >= 0.15
    finally:
        child.kill()
        child.communicate()


async def test_what_was_used_before_is_free_and_so_is_waiting():
    # CODE-141
    child = spinner(0.4)
    try:
        assert child.stdout is not None
        await asyncio.to_thread(child.stdout.readline)
        exhausted = asyncio.Event()
        meter = CpuMeter(child.pid, 100, exhausted.set)
        await asyncio.sleep(0.4)
        meter.stop()
        assert not exhausted.is_set()
    finally:
        child.kill()
        child.communicate()


async def test_a_process_that_is_gone_is_somebody_elses_news():
    # CODE-141
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    child.wait()
    CpuMeter(child.pid, 1, lambda: pytest.fail("no process, no budget"))
    watched = spinner(30)
    meter = CpuMeter(watched.pid, 10_000, lambda: pytest.fail("it was killed long before"))
    watched.kill()
    watched.communicate()
    await asyncio.sleep(0.4)
    meter.stop()
    assert os.getpid() > 0
