"""Field cases on running untrusted programs."""

from __future__ import annotations

import asyncio
import os
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


def runtimes(**config: Any) -> list[DenoRuntime | MontyRuntime]:
    settings = RuntimeConfig(**{"pool_size": 0, **config})
    return [DenoRuntime(settings), MontyRuntime(settings)]


@pytest.mark.field("field-106")
async def test_programs_run_in_another_process_and_host_objects_never_cross():
    for runtime in runtimes():
        inside: list[int] = []

        async def look(_args: Any, inside: list[int] = inside) -> Any:
            inside.extend(child.pid for child in psutil.Process().children())
            return {"plain": [1, "two", None]}

        space = [BindingNamespace("tools", {"look": look})]
        carried = {"typescript": "const r = await tools.look({}); return [typeof r, typeof tools.look, r]"}
        carried["python"] = "r = await tools.look({})\nreturn [str(type(r)), str(type(r['plain'])), r]"
        result = await runtime.run(CodeRunRequest(carried[runtime.language], space))
        assert result.error is None and isinstance(result.value, list)
        assert result.value[2] == {"plain": [1, "two", None]}
        assert inside and os.getpid() not in inside
        await runtime.dispose()
    # No runtime here runs a program in the host's process, so none has to be labelled "not a boundary".
    assert {runtime.isolation for runtime in runtimes()} == {"process", "interpreter"}


@pytest.mark.field("field-106")
@pytest.mark.parametrize(
    "escape",
    [
        "().__class__.__base__.__subclasses__()",
        "'{0.__class__.__bases__}'.format('')",
        "import ctypes",
        "class X:\n    def __del__(self):\n        open('/tmp/escaped', 'w')\nX = None\nopen('/tmp/escaped', 'w')",
        "tools.look.__globals__['__builtins__']",
        "getattr(getattr(tools, '__cla' + 'ss__'), '__subcl' + 'asses__')()",
    ],
)
async def test_the_known_ways_out_of_python_are_closed(escape: str):
    runtime = MontyRuntime(RuntimeConfig(pool_size=0))

    async def look(args: Any) -> Any:
        return args

    result = await runtime.run(CodeRunRequest(escape, [BindingNamespace("tools", {"look": look})]))
    assert result.error is not None and result.error.kind == "exception"
    assert not os.path.exists("/tmp/escaped")
    await runtime.dispose()


@pytest.mark.field("field-108")
async def test_a_program_that_waits_for_nothing_is_told_so():
    typescript, python = runtimes(max_wall_ms=30_000)
    stuck = await typescript.run(CodeRunRequest("await new Promise(()=>{})"))
    assert stuck.error == CodeRunError("exception", "program is waiting for something that nothing pending can resolve")
    # There is no bare future in this Python, so the program hears that instead.
    future = await python.run(CodeRunRequest("import asyncio\nawait asyncio.Future()"))
    assert future.error is not None and "asyncio" in future.error.message and "Future" in future.error.message
    # What may still come is waited for, up to the clock.
    short, _ = runtimes(max_wall_ms=300)
    waiting = await short.run(CodeRunRequest("setInterval(() => {}, 1); await new Promise(() => {})"))
    assert waiting.error == CodeRunError("timeout", "wall-clock ceiling reached (300ms)")
    for runtime in (typescript, python, short):
        await runtime.dispose()


@pytest.mark.field("field-109")
async def test_a_timeout_poisons_no_later_run():
    endless = {"typescript": "while (true) {}", "python": "while True: pass"}
    for runtime in runtimes(compute_ms=200, pool_size=1):
        first = await runtime.run(CodeRunRequest(endless[runtime.language]))
        assert first.error == CodeRunError("timeout", "compute budget exhausted (200ms busy)")
        for _ in range(3):
            second = await runtime.run(CodeRunRequest("return 1"))
            assert (second.value, second.error) == (1, None)
        ended = await asyncio.gather(
            *(runtime.run(CodeRunRequest(program)) for program in (endless[runtime.language], "return 1"))
        )
        assert ended[0].error is not None and ended[1].value == 1
        await runtime.dispose()
