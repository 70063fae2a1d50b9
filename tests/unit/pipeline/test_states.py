"""Where a call stands: the state machine, who hears of it, and how a stop is reported."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support import process_bodies as bodies
from tests.support.calls import ABORTED_AFTER, app, error, make_tool, run, text_of

from dsh_tools import Context, ToolSuccess
from dsh_tools.kernel import AbortController
from dsh_tools.services import TimeoutPlugin
from dsh_tools.tools import TOOL_STATE, Deny

FULL = ["queued", "running", "stopped"]
STOPPED = ["queued", "running", "stopping", "stopped"]


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with app(process_grace_ms=200, spare_processes=0) as context:
        yield context


class States:
    """Notes the states of all calls, and the executions."""

    def __init__(self, ctx: Context) -> None:
        self.seen: list[str] = []
        self.agree: list[bool] = []
        self.executions: list[Any] = []
        self.running = asyncio.Event()
        self.stop = ctx.on(TOOL_STATE, self._note)
        ctx.on("tools/result", lambda execution, _result: self.executions.append(execution))

    def _note(self, execution: Any, status: str) -> None:
        self.seen.append(status)
        self.agree.append(execution.status == status)
        if status == "running":
            self.running.set()


async def wait_long(args: Any, run: Any) -> str:
    run.progress("begun")
    await asyncio.sleep(300)
    return "late"


async def shrug(args: Any, run: Any) -> str:
    """Swallow the first cancellation."""
    run.progress("begun")
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(300)
    await asyncio.sleep(0.02)
    return "late"


async def at_once(args: Any, run: Any) -> str:
    return "ok"


def in_thread(args: Any, run: Any) -> str:
    return "ok"


def poll(args: Any, run: Any) -> str:
    run.progress("begun")
    while not run.signal.aborted:
        threading.Event().wait(0.005)
    return "late"


@pytest.mark.parametrize(
    ("body", "isolation"), [(at_once, "task"), (in_thread, "thread"), (bodies.echo, "process"), (at_once, "signal")]
)
async def test_a_call_is_queued_runs_and_has_stopped(ctx: Context, body: Any, isolation: Any) -> None:
    states = States(ctx)
    fields = {"signal": AbortController().signal} if isolation == "signal" else {}
    where = "task" if isolation == "signal" else isolation
    ctx.tools.register(make_tool(execute=body, isolation=where))
    assert isinstance(await run(ctx, **fields), ToolSuccess)
    assert states.seen == FULL
    assert all(states.agree)
    assert states.executions[0].stop is None


@pytest.mark.parametrize("observed", [True, False])
@pytest.mark.parametrize(
    ("body", "isolation", "ending"),
    [
        (wait_long, "task", "cancelled"),
        (shrug, "task", "returned"),
        (poll, "thread", "returned"),
        (bodies.sleep_long, "process", "cancelled"),
        (bodies.answer_when_stopped, "process", "returned"),
        (bodies.deaf, "process", "killed"),
    ],
)
async def test_a_call_that_is_told_to_stop_is_stopping_first(
    no_leaks: None, tmp_path: Any, body: Any, isolation: Any, ending: str, observed: bool
) -> None:
    grace = 200 if ending == "killed" else 90_000
    async with app(process_grace_ms=grace, spare_processes=0) as ctx:
        controller = AbortController()
        states = States(ctx)
        if not observed:
            states.stop()
        seen: list[str] = []
        running = asyncio.Event()

        loop = asyncio.get_running_loop()

        def progressed(execution: Any, _value: object) -> None:
            seen.append(execution.status)
            loop.call_soon_threadsafe(running.set)

        ctx.on("tools/progress", progressed)
        ctx.tools.register(make_tool(execute=body, isolation=isolation))
        call = asyncio.create_task(run(ctx, arguments={"folder": str(tmp_path)}, signal=controller.signal))
        await running.wait()
        assert seen == ["running"]
        controller.abort()
        assert await call == ABORTED_AFTER
        stop = states.executions[0].stop
        assert (stop.cause, stop.ending) == ("caller", ending)
        assert stop.seconds >= 0
        assert states.executions[0].status == "stopped"
        if observed:
            assert states.seen == STOPPED
            assert all(states.agree)


async def test_a_native_cancellation_is_seen_by_observers(ctx: Context) -> None:
    # D30
    states = States(ctx)
    ctx.tools.register(make_tool(execute=shrug))
    call = asyncio.create_task(run(ctx))
    await states.running.wait()
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert states.seen == STOPPED
    stop = states.executions[0].stop
    assert (stop.cause, stop.ending) == ("cancelled", "returned")
    assert stop.seconds is not None


async def test_nobody_knows_when_a_cancellation_came_that_nobody_observed(ctx: Context) -> None:
    executions: list[Any] = []
    ctx.on("tools/result", lambda execution, _result: executions.append(execution))
    ctx.tools.register(make_tool(execute=wait_long))
    call = asyncio.create_task(run(ctx))
    await asyncio.sleep(0.02)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (executions[0].stop.cause, executions[0].stop.seconds) == ("cancelled", None)


async def test_a_call_that_never_runs_has_stopped_all_the_same(ctx: Context) -> None:
    states = States(ctx)
    ctx.tools.register(make_tool(execute=at_once))
    ctx.on("tools/pre-execute", lambda _execution, _next: Deny("no"))
    assert text_of(await run(ctx)) == "Error: no"
    assert await run(ctx, "other") == error("no")
    assert states.seen == ["queued", "stopped"] * 2


async def test_a_call_waits_in_the_queue_for_a_free_thread(no_leaks: None) -> None:
    async with app(max_threads=1) as ctx:
        states = States(ctx)
        release, begun = threading.Event(), threading.Event()

        def hold(args: Any, run: Any) -> str:
            begun.set()
            release.wait()
            return "ok"

        ctx.tools.register(make_tool("hold", hold, isolation="thread"))
        first = asyncio.create_task(run(ctx, "hold"))
        while not begun.is_set():
            await asyncio.sleep(0.005)
        second = asyncio.create_task(run(ctx, "hold"))
        await asyncio.sleep(0.03)
        assert states.seen == ["queued", "running", "queued"]
        release.set()
        await asyncio.gather(first, second)
        assert sorted(states.seen) == sorted(FULL * 2)


async def test_a_retry_goes_round_again(ctx: Context) -> None:
    async def twice(_execution: Any, next: Any) -> Any:
        await next()
        return await next()

    ctx.on("tools/execute", twice)
    states = States(ctx)
    attempts: list[int] = []

    async def flaky(args: Any, run: Any) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError("gone")
        return "ok"

    ctx.tools.register(make_tool(execute=flaky))
    assert text_of(await run(ctx)) == "ok"
    assert states.seen == ["queued", "running", "stopped", "running", "stopped"]


async def test_observers_that_go_and_come_leave_calls_alone(ctx: Context) -> None:
    service = ctx.tools.service
    assert not service.states_watched
    states = States(ctx)
    assert service.states_watched
    ctx.tools.register(make_tool(execute=at_once))
    await run(ctx)
    states.stop()
    assert not service.states_watched
    await run(ctx)
    assert states.seen == FULL


async def test_what_a_body_gives_its_observers_is_what_it_gets(ctx: Context) -> None:
    """A body under observation sees the same values, errors and cancellations."""
    States(ctx)
    seen: list[object] = []

    async def body(args: Any, run: Any) -> str:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, 7)
        seen.append(await future)
        failing: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(failing.set_exception, OSError("disk"))
        try:
            await failing
        except OSError as caught:
            seen.append(str(caught))
        async with asyncio.timeout(0.01):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(300)
        return "ok"

    ctx.tools.register(make_tool(execute=body))
    result = await run(ctx)
    assert text_of(result) == "ok"
    assert seen == [7, "disk"]


# ── what the model reads ──────────────────────────────────────────────────────


async def told(args: Any, run: Any) -> str:
    run.progress("step one")
    run.progress({"percent": 50})
    run.progress("step two")
    try:
        await asyncio.sleep(300)
    finally:
        run.progress("too late")
    return ""


async def test_an_aborted_call_keeps_its_output_and_says_that_it_has_stopped(ctx: Context) -> None:
    # PIPE-225, D38
    await ctx.plugin(TimeoutPlugin())
    for name, limit in (("t", None), ("limited", 60_000)):
        controller = AbortController()
        ctx.tools.register(make_tool(name, told, timeout_ms=limit))
        asyncio.get_running_loop().call_later(0.02, controller.abort)
        result = await run(ctx, name, signal=controller.signal)
        assert result.error == ABORTED_AFTER.error  # type: ignore[union-attr]
        assert text_of(result).splitlines() == [
            "Error: tool call aborted",
            "[output before the call was aborted]",
            "step one",
            "step two",
            "[the tool has stopped]",
        ]


async def test_an_aborted_call_says_how_its_body_ended(ctx: Context, tmp_path: Any) -> None:
    await ctx.plugin(TimeoutPlugin())
    ctx.tools.register(make_tool(execute=shrug))
    controller = AbortController()
    asyncio.get_running_loop().call_later(0.02, controller.abort)
    assert text_of(await run(ctx, signal=controller.signal)).splitlines() == [
        "Error: tool call aborted",
        "[output before the call was aborted]",
        "begun",
        "[the tool has stopped: it ran to its end, and its late value was dropped]",
    ]
    killed = AbortController()
    ctx.on("tools/progress", lambda *_: killed.abort())
    ctx.tools.register(make_tool("deaf", bodies.deaf, isolation="process"))
    result = await run(ctx, "deaf", {"folder": str(tmp_path)}, signal=killed.signal)
    *lines, last = text_of(result).splitlines()
    assert lines == ["Error: tool call aborted", "[output before the call was aborted]", "deaf"]
    how = "it did not end by itself, and its process was killed"
    assert re.fullmatch(rf"\[the tool has stopped(, \d+\.\d s after it was told to)?: {how}\]", last)


async def test_a_cancelled_call_whose_body_goes_on_says_so(ctx: Context) -> None:
    # D30: the result is observed, although the cancellation goes on
    await ctx.plugin(TimeoutPlugin())
    results: list[Any] = []
    ctx.on("tools/result", lambda _execution, result: results.append(result))
    ctx.tools.register(make_tool(execute=shrug))
    call = asyncio.create_task(run(ctx))
    await asyncio.sleep(0.02)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert text_of(results[0]).splitlines() == [
        "Error: tool call aborted",
        "[output before the call was aborted]",
        "begun",
        "[the tool has stopped: it ran to its end, and its late value was dropped]",
    ]


async def test_a_body_that_only_waits_for_its_own_cancelled_task_has_failed(
    ctx: Context, caplog: pytest.LogCaptureFixture
) -> None:
    # D30: nobody has cancelled the call
    async def body(args: Any, run: Any) -> str:
        task = asyncio.create_task(asyncio.sleep(300))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task
        return ""

    ctx.tools.register(make_tool(execute=body))
    assert await run(ctx, call_id="c1") == error('tool "t" raised CancelledError although nobody cancelled it')
    assert 'tool "t", call c1 raised CancelledError although nobody cancelled it' in caplog.text


async def own_limit(args: Any, run: Any) -> str:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.001):
            await asyncio.sleep(300)
    await asyncio.sleep(0.001)
    return "ok"


async def awaits_a_cancelled_task(args: Any, run: Any) -> str:
    helper = asyncio.create_task(asyncio.sleep(300))
    await asyncio.sleep(0)
    helper.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await helper
    await asyncio.sleep(0.001)
    return "ok"


async def group_fails(args: Any, run: Any) -> str:
    async def fail() -> None:
        raise ValueError

    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await asyncio.sleep(300)
    await asyncio.sleep(0.001)
    return "ok"


async def cancels_itself(args: Any, run: Any) -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(300)
    await asyncio.sleep(0.001)
    return "ok"


@pytest.mark.parametrize("body", [own_limit, awaits_a_cancelled_task, group_fails, cancels_itself])
@pytest.mark.parametrize("under_signal", [True, False])
async def test_a_call_that_nobody_tells_to_stop_is_never_stopping(ctx: Context, body: Any, under_signal: bool) -> None:
    states = States(ctx)
    ctx.tools.register(make_tool(execute=body))
    result = await run(ctx, signal=AbortController().signal if under_signal else None)
    assert text_of(result) == "ok"
    assert states.seen == FULL
    assert all(states.agree)
    assert [execution.stop for execution in states.executions] == [None]
