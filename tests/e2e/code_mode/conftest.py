from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from dsh_tools.code_runtime import CodeRunRequest, MontyRuntime, RuntimeConfig
from dsh_tools.kernel import Context, create_context
from dsh_tools.standard import StandardConfig, mount_standard
from dsh_tools.tools import ToolCall, ToolResult

Run = Callable[..., Awaitable[ToolResult]]


async def _application(language: str) -> AsyncIterator[Context]:
    config = StandardConfig.model_validate(
        {"tools": {"mode": "code"}, "code": {"language": language, "prewarm": False, "pool_size": 0}}
    )
    async with create_context() as ctx:
        await mount_standard(ctx, config)
        yield ctx


@pytest.fixture
async def ts(no_leaks: None) -> AsyncIterator[Context]:
    """The default composition with Code Mode in TypeScript."""
    async for ctx in _application("typescript"):
        yield ctx


@pytest.fixture
async def monty_loaded() -> None:
    """What Monty's library keeps for the process from its first use on, its own event loop, is no leak of a test."""
    runtime = MontyRuntime(RuntimeConfig(pool_size=0))
    await runtime.run(CodeRunRequest("return 1"))
    await runtime.dispose()


@pytest.fixture
async def py(monty_loaded: None, no_leaks: None) -> AsyncIterator[Context]:
    """The default composition with Code Mode in Python."""
    async for ctx in _application("python"):
        yield ctx


@pytest.fixture
def run() -> Run:
    """Run a program in an application."""

    async def run_code(ctx: Context, code: str, **fields: Any) -> ToolResult:
        return await ctx.tools.execute(ToolCall("run_code", {"code": code}, **{"call_id": "outer", **fields}))

    return run_code
