from __future__ import annotations

import pytest

from dsh_tools.code_runtime import CodeRunRequest, MontyRuntime, RuntimeConfig

_loaded: list[bool] = []


@pytest.fixture(autouse=True)
async def monty_loaded() -> None:
    """What Monty's library keeps for the process from its first use on, its own event loop, is no leak of a test."""
    if not _loaded:
        _loaded.append(True)
        runtime = MontyRuntime(RuntimeConfig(pool_size=0))
        await runtime.run(CodeRunRequest("return 1"))
        await runtime.dispose()
