"""Any interleaving of parallel calls with aborts: one result each, and nothing left behind."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import psutil
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.calls import app, make_tool

from dsh_tools.kernel import AbortController
from dsh_tools.pipeline.cancellation import finish_shielded
from dsh_tools.tools import ToolCall

calls = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["async", "stubborn", "thread", "fails", "process"]),
        "ms": st.integers(0, 12),
        "abort": st.one_of(st.none(), st.integers(0, 12)),
        "cancel": st.one_of(st.none(), st.integers(0, 12)),
        "policy_ms": st.integers(0, 3),
    }
)


async def body(args: Any, run: Any) -> str:
    if args["kind"] == "fails":
        await asyncio.sleep(args["ms"] / 1000)
        raise ValueError("x")
    if args["kind"] == "process":
        return await process_body(args["ms"] / 1000)
    until = time.monotonic() + args["ms"] / 1000
    while time.monotonic() < until:
        try:
            await asyncio.sleep(until - time.monotonic())
        except asyncio.CancelledError:
            if args["kind"] != "stubborn":
                raise
    return "ok"


async def process_body(seconds: float) -> str:
    """Wait for a child, and end it however often the wait is cancelled: asyncio's own start takes one cancel only."""
    child = await finish_shielded(asyncio.create_subprocess_exec("sleep", str(seconds)))
    try:
        if current_task_is_cancelled():
            raise asyncio.CancelledError
        await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
        await finish_shielded(child.wait())
    return "ok"


def current_task_is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def thread_body(args: Any, run: Any) -> str:
    until = time.monotonic() + args["ms"] / 1000
    while time.monotonic() < until and not run.signal.aborted:
        time.sleep(0.001)
    return "ok"


async def storm(batch: list[dict[str, Any]]) -> None:
    open_files = psutil.Process().num_fds()
    loop = asyncio.get_running_loop()
    async with app(max_threads=4) as ctx:
        results: dict[str, list[Any]] = {}
        ctx.tools.register(make_tool("async", body))
        ctx.tools.register(make_tool("thread", thread_body, isolation="thread"))
        ctx.on("tools/result", lambda execution, result: results.setdefault(execution.call_id, []).append(result))

        async def policy(execution: Any, next: Any) -> Any:
            await asyncio.sleep(execution.arguments["policy_ms"] / 1000)
            return await next()

        ctx.on("tools/pre-execute", policy)
        ctx.on("tools/post-execute", policy_after)
        tasks: list[asyncio.Task[Any]] = []
        for number, call in enumerate(batch):
            controller = AbortController()
            name = "thread" if call["kind"] == "thread" else "async"
            arguments = {"kind": call["kind"], "ms": call["ms"], "policy_ms": call["policy_ms"]}
            request = ToolCall(name, arguments, call_id=f"c{number}", signal=controller.signal)
            task = asyncio.create_task(ctx.tools.execute(request))
            await asyncio.sleep(0)
            tasks.append(task)
            if call["abort"] is not None:
                loop.call_later(call["abort"] / 1000, controller.abort)
            if call["cancel"] is not None:
                loop.call_later(call["cancel"] / 1000, task.cancel)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for number, outcome in enumerate(outcomes):
            (result,) = results[f"c{number}"]
            assert outcome is result or isinstance(outcome, asyncio.CancelledError)
            assert not isinstance(outcome, Exception)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("dsh-tools")]
    assert psutil.Process().children() == []
    assert psutil.Process().num_fds() <= open_files + 1


async def policy_after(_review: Any, next: Any) -> Any:
    await asyncio.sleep(0)
    return await next()


@settings(max_examples=60)
@given(st.lists(calls, min_size=1, max_size=8))
def test_no_interleaving_leaves_anything_behind(batch: list[dict[str, Any]]) -> None:
    # PIPE-96, 180, 198; D30
    asyncio.run(storm(batch))
