"""Runtimes from their making to their end, and as a service of a context."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import Any

import psutil
import pydantic
import pytest

from dsh_tools.code_runtime import (
    BindingNamespace,
    CodeRunError,
    CodeRunRequest,
    CodeRuntime,
    CodeRuntimePlugin,
    DenoRuntime,
    MontyRuntime,
    RuntimeConfig,
)
from dsh_tools.errors import CodeRuntimeError, ConfigError, ServiceConflictError
from dsh_tools.kernel import AbortController
from dsh_tools.kernel.context import create_context
from dsh_tools.testing.runtime_conformance import Host

RETURN = CodeRunRequest("return 1")
KINDS = [DenoRuntime, MontyRuntime]


def children() -> list[psutil.Process]:
    return psutil.Process().children()


def test_labels():
    # CODE-129 (D4)
    assert (DenoRuntime.language, DenoRuntime.isolation) == ("typescript", "process")
    assert (MontyRuntime.language, MontyRuntime.isolation) == ("python", "interpreter")
    assert isinstance(DenoRuntime(), CodeRuntime) and isinstance(MontyRuntime(), CodeRuntime)


async def test_a_deno_runtime_leaves_nothing(no_leaks: None, host: Host):
    # CODE-174, 179
    runtime = DenoRuntime(RuntimeConfig(pool_size=2))
    await asyncio.gather(*(runtime.run(RETURN) for _ in range(4)))
    await runtime.run(CodeRunRequest("for (let i = 0; i < 100; i++) tools.slow({ seconds: 60 })", [host.namespace()]))
    await runtime.dispose()
    assert host.running == 0


async def test_disposal_right_after_the_start_leaves_nothing(no_leaks: None):
    # CODE-174
    for pause in (0, 0.001, 0.01, 0.03):
        runtime = DenoRuntime(RuntimeConfig(pool_size=3))
        runtime.prewarm()
        task = asyncio.ensure_future(runtime.run(RETURN))
        await asyncio.sleep(pause)
        await runtime.dispose()
        result = await task
        assert result.value == 1 or result.error == CodeRunError("abort", "runtime disposed")


async def test_cancelled_disposal_still_ends_everything(no_leaks: None):
    # CODE-174
    runtime = DenoRuntime(RuntimeConfig(pool_size=2))
    await runtime.warm()
    disposal = asyncio.ensure_future(runtime.dispose())
    await asyncio.sleep(0)
    disposal.cancel()
    with pytest.raises(asyncio.CancelledError):
        await disposal
    assert children() == []
    await runtime.dispose()


@pytest.mark.parametrize("kind", KINDS)
async def test_workers_stand_ready_and_are_replaced(kind: type[Any]):
    # CODE-156: used once, and the next one is under way
    runtime = kind(RuntimeConfig(pool_size=2))
    await runtime.warm()
    ready = {child.pid for child in children()}
    assert len(ready) == 2
    assert (await runtime.run(RETURN)).value == 1
    deadline = time.monotonic() + 10
    while len({child.pid for child in children()}) < 2 and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    now = {child.pid for child in children()}
    assert len(now) == 2 and len(now & ready) == 1
    await runtime.dispose()
    assert children() == []
    with pytest.raises(CodeRuntimeError):
        await runtime.warm()
    with pytest.raises(CodeRuntimeError):
        runtime.prewarm()


async def test_a_ready_worker_is_much_faster_than_a_cold_one():
    # CODE-156: the best of some, because other things run on this machine, too
    seen: list[float] = []

    async def mark(_args: Any) -> None:
        seen.append(time.perf_counter())

    async def first_statement(runtime: DenoRuntime) -> float:
        begun = time.perf_counter()
        await runtime.run(CodeRunRequest("await tools.mark({})", [BindingNamespace("tools", {"mark": mark})]))
        return seen[-1] - begun

    cold, warm = DenoRuntime(RuntimeConfig(pool_size=0)), DenoRuntime(RuntimeConfig(pool_size=1))
    without = [await first_statement(cold) for _ in range(5)]
    with_pool: list[float] = []
    for _ in range(5):
        await warm.warm()
        with_pool.append(await first_statement(warm))
    assert min(with_pool) < min(without) / 2
    await cold.dispose()
    await warm.dispose()


@pytest.mark.parametrize("kind", KINDS)
async def test_runs_at_the_same_time_have_no_limit(kind: type[Any], host: Host):
    # CODE-156
    runtime = kind(RuntimeConfig(pool_size=0))
    program = (
        "await tools.slow({ seconds: 2 }); return 1"
        if kind is DenoRuntime
        else "await tools.slow({'seconds': 2})\nreturn 1"
    )
    results = await asyncio.gather(*(runtime.run(CodeRunRequest(program, [host.namespace()])) for _ in range(12)))
    assert [result.value for result in results] == [1] * 12
    assert host.most_running > 2
    await runtime.dispose()


@pytest.mark.parametrize("kind", KINDS)
async def test_an_abort_while_the_worker_starts(kind: type[Any]):
    # CODE-136, 146
    runtime = kind(RuntimeConfig(pool_size=0))
    for pause in (0, 0.001, 0.005, 0.02):
        controller = AbortController()
        task = asyncio.ensure_future(runtime.run(CodeRunRequest("return 1", signal=controller.signal)))
        await asyncio.sleep(pause)
        controller.abort("changed my mind")
        result = await task
        assert result.value == 1 or result.error == CodeRunError("abort", "changed my mind")
        assert controller.signal.callback_count == 0
    await runtime.dispose()
    assert children() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_the_wall_clock_counts_the_start(kind: type[Any]):
    # CODE-142
    runtime = kind(RuntimeConfig(pool_size=0, max_wall_ms=1))
    assert (await runtime.run(RETURN)).error == CodeRunError("timeout", "wall-clock ceiling reached (1ms)")
    await runtime.dispose()
    assert children() == []


@pytest.mark.parametrize("reason", ["text", ValueError("text"), type("Reason", (), {"__str__": lambda self: "text"})()])
async def test_the_reason_of_an_abort_is_its_message(reason: object):
    # CODE-136, 146
    controller = AbortController()
    controller.abort(reason)
    runtime = DenoRuntime(RuntimeConfig(pool_size=0))
    result = await runtime.run(CodeRunRequest("", signal=controller.signal))
    assert result.error == CodeRunError("abort", "text")
    small = DenoRuntime(RuntimeConfig(pool_size=0, max_output_bytes=20))
    controller = AbortController()
    controller.abort("x" * 100)
    # CODE-153: a failure before any worker counts as well
    limited = await small.run(CodeRunRequest("", signal=controller.signal))
    assert limited.error == CodeRunError("output-limit", "outer output exc")
    assert children() == []


async def test_the_order_of_the_checks():
    # CODE-136: disposed, bindings, signal, program
    controller = AbortController()
    controller.abort("aborted")
    bad = [BindingNamespace("await", {})]
    runtime = DenoRuntime(RuntimeConfig(pool_size=0))
    with pytest.raises(CodeRuntimeError, match="usable identifier"):
        await runtime.run(CodeRunRequest("enum A {}", bad, controller.signal))
    assert (await runtime.run(CodeRunRequest("enum A {}", [], controller.signal))).error == CodeRunError(
        "abort", "aborted"
    )
    stripped = await runtime.run(CodeRunRequest("console.log('ran'); enum A {}"))
    assert stripped.error is not None and stripped.error.kind == "exception" and stripped.logs == []
    await runtime.dispose()
    with pytest.raises(CodeRuntimeError, match="after disposal"):
        await runtime.run(CodeRunRequest("", bad, controller.signal))


async def test_a_binary_that_is_not_there(tmp_path: Any):
    # CODE-118, 132: the run ends, and raises nothing
    runtime = DenoRuntime(RuntimeConfig(pool_size=1), deno=str(tmp_path / "no-deno"))
    result = await runtime.run(RETURN)
    assert result.error is not None and result.error.kind == "worker-exit"
    await runtime.dispose()
    assert children() == []


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_without_the_extras_a_runtime_says_what_to_install():
    # CODE-11
    done = run_python(
        """
import sys
sys.modules["deno"] = sys.modules["pydantic_monty"] = None
from dsh_tools.code_runtime import DenoRuntime, MontyRuntime, check_bindings
from dsh_tools.errors import ConfigError
for kind in (DenoRuntime, MontyRuntime):
    try:
        kind()
    except ConfigError as error:
        print(error)
"""
    )
    assert done.stdout.splitlines() == [
        'TypeScript programs run in Deno, which is not installed: pip install "dsh-tools[code]"',
        'Python programs run in Monty, which is not installed: pip install "dsh-tools[code-python]"',
    ], done.stderr


def test_importing_the_package_starts_nothing_heavy():
    done = run_python(
        "import sys, dsh_tools.code_runtime; print([m for m in ('deno', 'pydantic_monty') if m in sys.modules])"
    )
    assert done.stdout == "[]\n"


# ── the service ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("language", "kind"), [("typescript", DenoRuntime), ("python", MontyRuntime)])
async def test_a_plugin_provides_the_runtime(language: str, kind: type[Any]):
    # CODE-129
    context = create_context()
    fiber = context.plugin(CodeRuntimePlugin(), {"language": language, "pool_size": 1, "compute_ms": 5000})
    await fiber
    runtime: Any = context.get("code_runtime")
    assert isinstance(runtime, kind) and runtime.config.compute_ms == 5000
    assert (await runtime.run(RETURN)).value == 1
    second = context.plugin(CodeRuntimePlugin(), {"prewarm": False})
    with pytest.raises(ServiceConflictError):
        await second
    await fiber.dispose()
    assert context.get("code_runtime") is None
    assert children() == []
    with pytest.raises(CodeRuntimeError):
        await runtime.run(RETURN)
    await context.dispose()


async def test_unloading_the_plugin_ends_its_runs(host: Host):
    # CODE-174
    context = create_context()
    fiber = context.plugin(CodeRuntimePlugin(), {"pool_size": 0})
    await fiber
    runtime: Any = context.get("code_runtime")
    task = asyncio.ensure_future(runtime.run(CodeRunRequest("await tools.slow({ seconds: 60 })", [host.namespace()])))
    await asyncio.wait_for(host.started.wait(), 30)
    await context.dispose()
    assert task.done() and task.result().error == CodeRunError("abort", "runtime disposed")


@pytest.mark.parametrize("config", [{"language": "ruby"}, {"computeMs": 5}, {"compute_ms": "many"}])
async def test_a_config_that_does_not_fit(config: dict[str, object]):
    # CODE-140
    context = create_context()
    with pytest.raises(pydantic.ValidationError):
        await context.plugin(CodeRuntimePlugin(), config)
    with pytest.raises(ConfigError, match="max_wall_ms"):
        await context.plugin(CodeRuntimePlugin(), {"max_wall_ms": 2**31})
    await context.dispose()


ENDS_AT_ONCE = """
import asyncio
from dsh_tools.code_runtime import CodeRunRequest, MontyRuntime

async def main():
    runtime = MontyRuntime()
    print((await runtime.run(CodeRunRequest("return 1"))).value)
    await runtime.dispose()

asyncio.run(main())
"""


def test_an_interpreter_that_ends_right_after_its_last_program_ends_in_order():
    # Its client's threads may still be coming back; one in thirty such processes used to abort.
    for _ in range(200 if os.environ.get("DSH_TOOLS_SOAK") == "1" else 6):
        done = subprocess.run([sys.executable, "-c", ENDS_AT_ONCE], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
