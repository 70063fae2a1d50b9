from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

pytest.register_assert_rewrite("dsh_tools.testing.runtime_conformance")

from dsh_tools.code_runtime import (  # noqa: E402
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
    DenoRuntime,
    MontyRuntime,
    RuntimeConfig,
)
from dsh_tools.testing.runtime_conformance import Host  # noqa: E402

RunProgram = Callable[..., Awaitable[CodeRunResult]]


@pytest.fixture
def host() -> Host:
    return Host()


async def _runner(kind: type[DenoRuntime] | type[MontyRuntime], host: Host) -> AsyncIterator[RunProgram]:
    runtimes: dict[str, Any] = {}

    async def run(program: str, **config: Any) -> CodeRunResult:
        key = repr(config)
        if key not in runtimes:
            runtimes[key] = kind(RuntimeConfig(**{"pool_size": 0, **config}))
        return await runtimes[key].run(CodeRunRequest(program, [host.namespace()]))

    yield run
    for runtime in runtimes.values():
        await runtime.dispose()


@pytest.fixture
async def typescript(host: Host) -> AsyncIterator[RunProgram]:
    """Run a TypeScript program with the host functions bound; keywords are fields of the configuration."""
    async for run in _runner(DenoRuntime, host):
        yield run


@pytest.fixture
async def python(host: Host) -> AsyncIterator[RunProgram]:
    """Run a Python program with the host functions bound; keywords are fields of the configuration."""
    async for run in _runner(MontyRuntime, host):
        yield run


@pytest.fixture
async def deno() -> AsyncIterator[DenoRuntime]:
    runtime = DenoRuntime(RuntimeConfig(pool_size=0))
    yield runtime
    await runtime.dispose()


@pytest.fixture
async def monty() -> AsyncIterator[MontyRuntime]:
    runtime = MontyRuntime(RuntimeConfig(pool_size=0))
    yield runtime
    await runtime.dispose()


@pytest.fixture(params=[DenoRuntime, MontyRuntime])
async def runtime(request: pytest.FixtureRequest) -> AsyncIterator[CodeRuntime]:
    """Each runtime."""
    made: CodeRuntime = request.param(RuntimeConfig(pool_size=0))
    yield made
    await made.dispose()
