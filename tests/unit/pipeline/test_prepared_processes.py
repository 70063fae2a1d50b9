"""Processes of bodies that wait for a call import meanwhile what earlier bodies have needed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.support.calls import app, make_tool, run
from tests.support.light_bodies import loaded
from tests.support.prepared_bodies import ready

from dsh_tools import Context
from dsh_tools.pipeline.process.frames import Job, pack
from dsh_tools.pipeline.process.worker import WorkerProcess, search_path
from dsh_tools.tools.imported import place_of

# Of the package, and of what it needs; never anybody else's module, which may look at what comes with the job.
OURS = ["dsh_tools.agent", "dsh_tools.standard", "griffe", "pydantic.fields"]


async def values(ctx: Context, body: Any, arguments: Any = None) -> Any:
    if ctx.tools.get("t") is None:
        ctx.tools.register(make_tool(execute=body, isolation="process"))
    return (await run(ctx, arguments=arguments or {})).value  # type: ignore[union-attr]


async def test_what_a_body_has_needed_stands_ready_for_the_next(no_leaks: None) -> None:
    async with app(spare_processes=1) as ctx:
        assert await values(ctx, ready) == []
        # The second process has been started before anybody knew; it is told while it waits. The third knows at once.
        while await values(ctx, ready) != OURS:
            await asyncio.sleep(0.5)


async def test_without_spares_a_process_imports_only_what_its_body_needs(no_leaks: None) -> None:
    async with app(spare_processes=0) as ctx:
        assert await values(ctx, ready) == []
        assert await values(ctx, ready) == []


async def test_a_call_does_not_wait_for_what_another_body_has_needed(no_leaks: None) -> None:
    async with app(spare_processes=1) as ctx:
        ctx.tools.register(make_tool(execute=loaded, isolation="process", name="light"))
        assert await values(ctx, ready) == []
        while await values(ctx, ready) != OURS:
            await asyncio.sleep(0.5)
        # The spare is used up, so this one begins with its job at hand.
        first, second = await asyncio.gather(*(run(ctx, "light", arguments={"names": OURS}) for _ in range(2)))
        assert [] in (first.value, second.value)  # type: ignore[union-attr]


async def answer(worker: WorkerProcess, job: bytes) -> bytes:
    frames: dict[str, bytes] = {}
    worker.begin(job, lambda letter, payload: frames.update({letter: payload}))
    end = await worker.gone
    assert (end.code, end.leftovers) == (0, 0)
    return frames["v"]


def job_of(names: list[str]) -> bytes:
    arguments = '{"names": ["' + '", "'.join(names) + '"]}'
    return pack(Job(place_of("t", loaded), "t", "c", "c", arguments, str(Path.cwd()), search_path(), {}))


async def test_modules_that_cannot_be_imported_are_passed_over(no_leaks: None) -> None:
    names = ["dsh_tools.nonsense", "dsh_tools.model", "dsh_tools.session"]
    found, patience = b"", 0.5
    while found != b'["dsh_tools.model","dsh_tools.session"]':
        worker = WorkerProcess()
        worker.prepare(names[:2])
        worker.prepare(names[2:])
        await asyncio.sleep(patience)
        found = await answer(worker, job_of(names))
        patience *= 2


async def test_a_job_that_is_there_comes_first(no_leaks: None) -> None:
    worker = WorkerProcess()
    worker.prepare(["dsh_tools.model"])
    assert await answer(worker, job_of(["dsh_tools.model"])) == b"[]"


async def test_a_process_that_never_gets_a_job_ends(no_leaks: None) -> None:
    worker = WorkerProcess()
    worker.prepare(["dsh_tools.model"])
    worker.kill()
    await worker.gone
