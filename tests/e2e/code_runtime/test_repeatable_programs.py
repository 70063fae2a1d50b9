"""Deterministic programs: the same answers in the same order give the same course, whatever the outside does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.repeatable import compare
from tests.support.repeatable_programs import programs

from dsh_tools.code_runtime import CodeRuntime, DenoRuntime, MontyRuntime, RuntimeConfig

Check = Callable[[str, int], None]
EXAMPLES = 1000 if os.environ.get("DSH_TOOLS_SOAK") == "1" else 40

seeds = st.integers(0, 2**32)


def _checks(kind: type[DenoRuntime] | type[MontyRuntime]) -> Iterator[Check]:
    with asyncio.Runner() as runner:

        async def make() -> CodeRuntime:
            return kind(RuntimeConfig(pool_size=3))

        runtime = runner.run(make())
        yield lambda program, seed: runner.run(_check(runtime, program, seed))
        runner.run(runtime.dispose())


async def _check(runtime: CodeRuntime, program: str, seed: int) -> None:
    result, _ = await compare(runtime, program, Random(seed))
    assert result.error is None, result.error


@pytest.fixture(scope="module")
def check_typescript() -> Iterator[Check]:
    yield from _checks(DenoRuntime)


@pytest.fixture(scope="module")
def check_python() -> Iterator[Check]:
    yield from _checks(MontyRuntime)


@given(programs("typescript"), seeds)
@settings(max_examples=EXAMPLES)
def test_any_typescript_program_repeats_its_course(check_typescript: Check, program: str, seed: int):
    # D34: with the answers of the first run, a second one makes the same calls, logs and result
    check_typescript(program, seed)


@given(programs("python"), seeds)
@settings(max_examples=EXAMPLES)
def test_any_python_program_repeats_its_course(check_python: Check, program: str, seed: int):
    # D34
    check_python(program, seed)
