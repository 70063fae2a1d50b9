"""Whatever ends a run, nothing of it is kept: not by the runtime, and not by the interpreter's native client."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import ContextVar
from typing import Any

import pytest

from dsh_tools.code_runtime import (
    BindingNamespace,
    CodeRunRequest,
    DenoRuntime,
    Determinism,
    HostAnswer,
    MontyRuntime,
    RuntimeConfig,
)
from dsh_tools.kernel import AbortController

PROGRAMS = {
    "python": {
        "completed": 'print("a")\nreturn await tools.answer({})',
        "failed": 'await tools.answer({})\nraise ValueError("no")',
        "waiting": 'print("a")\nawait tools.answer({})\nawait tools.silent({})',
        "beginning": "await tools.silent({})",
        "computing": "await tools.silent({})",
        "printing": 'import asyncio\nx = asyncio.gather(tools.silent({}))\nwhile True:\n    print("a" * 100_000)',
    },
    "typescript": {
        "completed": 'console.log("a"); return await tools.answer({});',
        "failed": 'await tools.answer({}); throw new Error("no");',
        "waiting": 'console.log("a"); await tools.answer({}); await tools.silent({});',
        "beginning": "await tools.silent({});",
        "computing": "await tools.silent({});",
        "printing": 'tools.silent({}); while (true) console.log("a".repeat(100_000));',
    },
}
# What comes after the call of ``silent``, which nobody answers.
ENDS = {"waiting": "abort", "beginning": "abort at once", "computing": "time", "printing": "output"}
_caller: ContextVar[Any] = ContextVar("caller")


class Host:
    """Functions that see a context, as those of an application do."""

    def __init__(self, controller: AbortController, end: str) -> None:
        self.controller = controller
        self.end = end

    def answer(self, _arguments: Any) -> HostAnswer:
        answer = HostAnswer(loop=asyncio.get_running_loop())
        answer.set_result("yes")
        return answer

    def silent(self, _arguments: Any) -> HostAnswer:
        if self.end == "abort at once":
            self.controller.abort("user")
        elif self.end == "abort":
            asyncio.get_running_loop().call_later(0.05, self.controller.abort, "user")
        return HostAnswer(loop=asyncio.get_running_loop())


async def one_run(runtime: Any, program: str, end: str, *, repeatable: bool) -> tuple[str | None, list[Any]]:
    controller = AbortController()
    host = Host(controller, end)
    _caller.set(host)
    functions = {"answer": host.answer, "silent": host.silent}
    determinism = Determinism("00", 0, lambda _ms: HostAnswer(loop=asyncio.get_running_loop())) if repeatable else None
    request = CodeRunRequest(program, [BindingNamespace("tools", functions)], controller.signal, determinism)
    result = await runtime.run(request)
    return result.error and result.error.kind, [weakref.ref(host), weakref.ref(controller.signal)]


@pytest.mark.parametrize("repeatable", [False, True], ids=["ordinary", "repeatable"])
@pytest.mark.parametrize("kind", [DenoRuntime, MontyRuntime])
@pytest.mark.parametrize("name", PROGRAMS["python"])
async def test_nothing_of_a_run_is_kept(name: str, kind: Any, repeatable: bool):
    # CODE-147, D34: what waits costs nothing
    end = ENDS.get(name, "")
    runtime = kind(RuntimeConfig(pool_size=0, max_wall_ms=500 if end == "time" else 60_000))
    kept: list[Any] = []
    kinds: list[str | None] = []
    for _ in range(4):
        # A task has a context of its own, and takes it along.
        run = one_run(runtime, PROGRAMS[kind.language][name], end, repeatable=repeatable)
        ended, references = await asyncio.create_task(run)
        kinds.append(ended)
        kept += references
    # The last one may still be in the hands of the event loop, and the client's threads let go when they get to it.
    for _ in range(100):
        gc.collect()
        left = [each for each in kept[:-2] if each() is not None]
        if not left:
            break
        await asyncio.sleep(0.02)
    assert left == []
    expected = {"completed": None, "failed": "exception", "computing": "timeout", "printing": "output-limit"}
    assert set(kinds) == {expected.get(name, "abort")}
    await runtime.dispose()
