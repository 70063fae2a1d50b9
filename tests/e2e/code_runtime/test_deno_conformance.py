"""The runtime suite against Deno."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dsh_tools.code_runtime import DenoRuntime, RuntimeConfig
from dsh_tools.testing.runtime_conformance import MakeRuntime, RuntimeConformance


class TestDeno(RuntimeConformance):
    # CODE-129 to 132, 136 to 138, 141 to 157, 168, 169, 173, 174, 179, 181, 182
    # CODE-84, 85, 87, 89, 90, 91, 92
    @pytest.fixture
    async def make_runtime(self) -> AsyncIterator[MakeRuntime]:
        runtimes: list[DenoRuntime] = []

        def make(**config: Any) -> DenoRuntime:
            runtimes.append(DenoRuntime(RuntimeConfig(**{"pool_size": 0, **config})))
            return runtimes[-1]

        yield make
        for runtime in runtimes:
            await runtime.dispose()
