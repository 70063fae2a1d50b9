"""The timeout wrapper: deadlines, who wins, and what is kept of a body's output."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from dsh_tools.content import content_text
from dsh_tools.errors import AbortError, InvalidTimeoutError
from dsh_tools.kernel.abort import NEVER, AbortController
from dsh_tools.kernel.context import Context, create_context
from dsh_tools.pipeline.service import ToolsPlugin
from dsh_tools.services.timeout import TimeoutPlugin
from dsh_tools.tools.decorator import tool
from dsh_tools.tools.define import define_tool
from dsh_tools.tools.definition import ToolDefinition
from dsh_tools.tools.events import EXECUTE, POST_EXECUTE, TOOL_RESULT
from dsh_tools.tools.execution import ToolCall
from dsh_tools.tools.result import ErrorInfo, ToolFailure, ToolSuccess

TIMED_OUT = ErrorInfo("ToolTimeoutError", "TOOL_TIMEOUT")


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    context = create_context()
    await context.plugin(ToolsPlugin())
    await context.plugin(TimeoutPlugin())
    yield context
    await context.dispose()


def make_tool(body: Callable[[Any, Any], Any], **more: Any) -> ToolDefinition:
    return ToolDefinition(
        name="work",
        description="",
        parameters={"type": "object", "properties": {}},
        output={"schema": {"type": "string"}},
        execute=body,
        **more,
    )


async def sleep_long(args: Any, run: Any) -> str:
    await asyncio.sleep(30)
    return "late"


async def test_a_call_past_its_limit_fails_with_the_code(ctx: Context):
    # HOST-131, 133; PIPE-200
    ctx.tools.register(make_tool(sleep_long, timeout_ms=20))
    result = await ctx.tools.execute(ToolCall("work"))
    assert isinstance(result, ToolFailure)
    assert result.error.message == "tool call timed out after 20ms"
    assert result.error.info == TIMED_OUT
    assert content_text(result.content).splitlines() == [
        "Error: tool call timed out after 20ms",
        "[the tool has stopped]",
    ]


async def test_a_limit_is_written_as_a_number_of_the_contract(ctx: Context):
    ctx.tools.register(make_tool(sleep_long, timeout_ms=12.5))
    result = await ctx.tools.execute(ToolCall("work"))
    assert content_text(result.content).startswith("Error: tool call timed out after 12.5ms\n")


async def test_without_a_limit_the_signal_is_left_alone(ctx: Context):
    # HOST-131
    seen: list[object] = []

    async def body(args: Any, run: Any) -> str:
        seen.append(run.signal)
        return "ok"

    ctx.tools.register(make_tool(body))
    controller = AbortController()
    await ctx.tools.execute(ToolCall("work", signal=controller.signal))
    await ctx.tools.execute(ToolCall("work"))
    assert seen == [controller.signal, NEVER]


async def test_a_call_within_its_limit_is_untouched_and_leaves_no_timer(ctx: Context):
    # HOST-137
    signals: list[Any] = []

    async def body(args: Any, run: Any) -> str:
        signals.append(run.signal)
        return "ok"

    ctx.tools.register(make_tool(body, timeout_ms=60_000))
    caller = AbortController()
    result = await ctx.tools.execute(ToolCall("work", signal=caller.signal))
    assert isinstance(result, ToolSuccess)
    assert result.value == "ok"
    assert caller.signal.callback_count == 0
    assert not signals[0].aborted
    loop = asyncio.get_running_loop()
    assert not [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]


async def test_a_scoped_shadow_brings_its_own_limit(ctx: Context):
    # HOST-131: the budget is read from the definition that the caller sees
    ctx.tools.register(make_tool(sleep_long, timeout_ms=60_000))
    scoped = ctx.create_scope("agent")
    scoped.tools.register(make_tool(sleep_long, timeout_ms=10))

    class Agent:
        scope = scoped.scope

    result = await ctx.tools.execute(ToolCall("work", agent=Agent()))
    assert content_text(result.content).startswith("Error: tool call timed out after 10ms\n")


async def test_post_execute_and_observers_see_the_callers_signal(ctx: Context):
    # HOST-132
    seen: list[object] = []

    async def post(review: Any, next: Any) -> Any:
        seen.append(review.execution.signal)
        return await next()

    ctx.on(POST_EXECUTE, post)
    ctx.on(TOOL_RESULT, lambda execution, result: seen.append(execution.signal))
    ctx.tools.register(make_tool(sleep_long, timeout_ms=10))
    caller = AbortController()
    await ctx.tools.execute(ToolCall("work", signal=caller.signal))
    assert seen == [caller.signal, caller.signal]


async def test_the_signal_is_restored_when_the_rest_raises(ctx: Context):
    # HOST-132
    seen: list[object] = []

    async def outer(execution: Any, next: Any) -> Any:
        try:
            return await next()
        finally:
            seen.append(execution.signal)

    async def inner(execution: Any, next: Any) -> Any:
        raise ValueError("inner wrapper")

    ctx.on(EXECUTE, outer, prepend=True)
    ctx.on(EXECUTE, inner)
    ctx.tools.register(make_tool(sleep_long, timeout_ms=1_000))
    caller = AbortController()
    result = await ctx.tools.execute(ToolCall("work", signal=caller.signal))
    assert content_text(result.content) == "Error: inner wrapper"
    assert seen == [caller.signal]
    assert caller.signal.callback_count == 0


async def test_an_inner_wrapper_that_raises_after_the_limit_is_a_timeout(ctx: Context):
    # HOST-133, PIPE-226: decided from the reason of the abort
    async def inner(execution: Any, next: Any) -> Any:
        await execution.signal.wait()
        execution.signal.throw_if_aborted()

    ctx.on(EXECUTE, inner)
    ctx.tools.register(make_tool(sleep_long, timeout_ms=10))
    result = await ctx.tools.execute(ToolCall("work"))
    assert isinstance(result, ToolFailure)
    assert result.error.info == TIMED_OUT


async def test_a_late_success_is_a_timeout_all_the_same(ctx: Context):
    # HOST-133, 134
    async def body(args: Any, run: Any) -> str:
        await run.signal.wait()
        return "late"

    ctx.tools.register(make_tool(body, timeout_ms=10))
    result = await ctx.tools.execute(ToolCall("work"))
    assert isinstance(result, ToolFailure)
    assert result.error.info == TIMED_OUT


async def test_the_reason_of_the_signal_says_that_the_limit_was_up(ctx: Context):
    # HOST-133
    reasons: list[object] = []

    async def body(args: Any, run: Any) -> str:
        try:
            await asyncio.sleep(30)
        finally:
            reasons.append(run.signal.reason)
            with pytest.raises(AbortError, match="timed out after 10ms"):
                run.signal.throw_if_aborted()
        return ""

    ctx.tools.register(make_tool(body, timeout_ms=10))
    await ctx.tools.execute(ToolCall("work"))
    assert [getattr(reason, "code", None) for reason in reasons] == ["TOOL_TIMEOUT"]


async def test_a_body_that_raises_its_own_error_after_the_limit_is_a_timeout(ctx: Context):
    # HOST-133
    async def body(args: Any, run: Any) -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise RuntimeError("connection reset") from None
        return ""

    ctx.tools.register(make_tool(body, timeout_ms=10))
    result = await ctx.tools.execute(ToolCall("work"))
    assert isinstance(result, ToolFailure)
    assert result.error.info == TIMED_OUT
    assert "connection reset" not in content_text(result.content)


async def test_the_call_waits_for_a_body_that_will_not_stop(ctx: Context, caplog: pytest.LogCaptureFixture):
    # HOST-134
    ended: list[str] = []

    async def body(args: Any, run: Any) -> str:
        deadline = asyncio.get_running_loop().time() + 1.25
        while asyncio.get_running_loop().time() < deadline:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue
        ended.append("body")
        return "late"

    ctx.tools.register(make_tool(body, timeout_ms=50))
    with caplog.at_level(logging.WARNING, "dsh_tools"):
        result = await ctx.tools.execute(ToolCall("work", call_id="c1"))
    assert ended == ["body"]
    first, last = content_text(result.content).splitlines()
    assert first == "Error: tool call timed out after 50ms"
    how = "it ran to its end, and its late value was dropped"
    assert re.fullmatch(rf"\[the tool has stopped, \d\.\d s after the limit: {how}\]", last)
    assert [record.getMessage().split(" stopped")[0] for record in caplog.records] == ['tool "work" (call c1)']


async def test_a_caller_that_gives_up_first_gets_aborted(ctx: Context):
    # HOST-135
    caller = AbortController()

    async def body(args: Any, run: Any) -> str:
        caller.abort("bored")
        await asyncio.shield(asyncio.sleep(0.1))
        return "late"

    ctx.tools.register(make_tool(body, timeout_ms=30))
    result = await ctx.tools.execute(ToolCall("work", signal=caller.signal))
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("AbortError", "ABORTED")


async def test_a_caller_that_gives_up_after_the_limit_gets_the_timeout(ctx: Context):
    # HOST-135
    caller = AbortController()

    async def body(args: Any, run: Any) -> str:
        await run.signal.wait()
        caller.abort("too late")
        return "late"

    ctx.tools.register(make_tool(body, timeout_ms=10))
    result = await ctx.tools.execute(ToolCall("work", signal=caller.signal))
    assert isinstance(result, ToolFailure)
    assert result.error.info == TIMED_OUT


async def test_a_task_cancelled_before_the_limit_is_a_caller_abort(ctx: Context):
    # HOST-135, with a native cancellation in the caller's place
    results: list[Any] = []
    started = asyncio.Event()

    async def body(args: Any, run: Any) -> str:
        started.set()
        try:
            await asyncio.sleep(30)
        finally:
            # Cleaning up outlasts the limit.
            await run.signal.wait()
        return ""

    ctx.on(TOOL_RESULT, lambda execution, result: results.append(result))
    ctx.tools.register(make_tool(body, timeout_ms=60))
    task = asyncio.create_task(ctx.tools.execute(ToolCall("work")))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [result.error.info for result in results] == [ErrorInfo("AbortError", "ABORTED")]


async def test_a_task_cancelled_after_the_limit_still_timed_out(ctx: Context):
    # HOST-135
    results: list[Any] = []
    tasks: list[asyncio.Task[Any]] = []

    async def body(args: Any, run: Any) -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            # Somebody else does it: a body's own cancellation of its task is only a failed call.
            asyncio.get_running_loop().call_soon(tasks[0].cancel)
            await asyncio.sleep(30)
        return ""

    ctx.on(TOOL_RESULT, lambda execution, result: results.append(result))
    ctx.tools.register(make_tool(body, timeout_ms=10))
    tasks.append(asyncio.create_task(ctx.tools.execute(ToolCall("work"))))
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert [result.error.info for result in results] == [TIMED_OUT]


async def test_an_aborted_caller_before_dispatch_runs_no_body(ctx: Context):
    # HOST-139
    ran: list[str] = []

    async def body(args: Any, run: Any) -> str:
        ran.append("body")
        return "ok"

    caller = AbortController()

    async def abort_it(execution: Any, next: Any) -> Any:
        caller.abort()
        return await next()

    ctx.on(EXECUTE, abort_it, prepend=True)
    ctx.tools.register(make_tool(body, timeout_ms=1_000))
    result = await ctx.tools.execute(ToolCall("work", signal=caller.signal))
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("AbortError", "ABORTED_BEFORE_DISPATCH")
    assert ran == []


async def test_a_wrapper_cannot_detach_a_call_from_its_caller(ctx: Context):
    # HOST-139
    caller = AbortController()

    async def detach(execution: Any, next: Any) -> Any:
        before, execution.signal = execution.signal, AbortController().signal
        try:
            return await next()
        finally:
            execution.signal = before

    async def body(args: Any, run: Any) -> str:
        caller.abort()
        await asyncio.sleep(30)
        return ""

    ctx.on(EXECUTE, detach)
    ctx.tools.register(make_tool(body, timeout_ms=10_000))
    result = await ctx.tools.execute(ToolCall("work", signal=caller.signal))
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("AbortError", "ABORTED")


async def test_an_outer_timer_is_an_ordinary_abort(ctx: Context):
    # HOST-136
    async def outer(execution: Any, next: Any) -> Any:
        before = execution.signal
        timer = AbortController()
        asyncio.get_running_loop().call_later(0.01, timer.abort, "outer timer")
        execution.signal = timer.signal
        try:
            return await next()
        finally:
            execution.signal = before

    ctx.on(EXECUTE, outer, prepend=True)
    ctx.tools.register(make_tool(sleep_long, timeout_ms=5_000))
    result = await ctx.tools.execute(ToolCall("work"))
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("AbortError", "ABORTED")


async def test_without_the_plugin_calls_have_no_limit(no_leaks: None):
    # HOST-138, D10
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin())
        fiber = ctx.plugin(TimeoutPlugin())
        await fiber

        async def body(args: Any, run: Any) -> str:
            await asyncio.sleep(0.05)
            return "in time"

        ctx.tools.register(make_tool(body, timeout_ms=10))
        assert (await ctx.tools.execute(ToolCall("work"))).is_error
        await fiber.dispose()
        result = await ctx.tools.execute(ToolCall("work"))
        assert isinstance(result, ToolSuccess)
        assert result.value == "in time"


@pytest.mark.parametrize("limit", [2_147_483_648, 1e13, 10**400])
async def test_a_limit_beyond_the_longest_timer_is_refused_at_registration(ctx: Context, limit: float):
    # HOST-137
    with pytest.raises(InvalidTimeoutError, match='^tool "work" timeoutMs must be at most 2147483647$'):
        ctx.tools.register(make_tool(sleep_long, timeout_ms=limit))
    with pytest.raises(InvalidTimeoutError, match=r"^tool\(f\): timeout_ms must be at most 2147483647$"):

        @tool(timeout_ms=limit)
        async def f() -> None: ...

    with pytest.raises(InvalidTimeoutError, match=r"^define_tool\(f\): timeout_ms must be at most 2147483647$"):
        define_tool(name="f", description="", parameters={}, output=str, execute=sleep_long, timeout_ms=limit)
    ctx.tools.register(make_tool(sleep_long, timeout_ms=2_147_483_647))


def busy_for(seconds: float) -> None:
    """Hold up the event loop, as a body does that computes without an await."""
    time.sleep(seconds)


@pytest.mark.parametrize("how", ["returned", "awaited", "raised"])
async def test_a_body_that_holds_up_the_loop_beyond_its_limit_is_no_success(ctx: Context, how: str):
    # HOST-133: the timer is held up as well
    executions: list[Any] = []

    async def body(args: Any, run: Any) -> str:
        executions.append(run)
        busy_for(0.05)
        if how == "awaited":
            await asyncio.sleep(0)
        if how == "raised":
            raise ValueError("late")
        return "late"

    ctx.tools.register(make_tool(body, timeout_ms=10))
    result = await ctx.tools.execute(ToolCall("work"))
    assert isinstance(result, ToolFailure)
    assert result.error.info == TIMED_OUT
    late = "[the tool has stopped: it ran to its end, and its late value was dropped]"
    assert content_text(result.content).splitlines() == [
        "Error: tool call timed out after 10ms",
        "[the tool has stopped]" if how == "raised" else late,
    ]
    stop = executions[0].stop
    assert (stop.cause, stop.ending) == ("limit", "raised" if how == "raised" else "returned")
    assert 0.03 < stop.seconds < 5


async def test_a_wrapper_that_raises_after_the_held_up_limit_is_a_timeout(ctx: Context):
    # HOST-133
    async def wrapper(execution: Any, next: Any) -> Any:
        await next()
        busy_for(0.05)
        raise ValueError("late")

    ctx.on(EXECUTE, wrapper)
    ctx.tools.register(make_tool(returns_at_once, timeout_ms=10))
    result = await ctx.tools.execute(ToolCall("work"))
    assert isinstance(result, ToolFailure)
    assert result.error.info == TIMED_OUT


async def returns_at_once(args: Any, run: Any) -> str:
    return "in time"


async def test_what_a_body_asks_of_its_own_task_does_not_count_as_its_callers_abort(ctx: Context):
    # HOST-135
    async def body(args: Any, run: Any) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(30)
        await asyncio.sleep(30)
        return "late"

    ctx.tools.register(make_tool(body, timeout_ms=10))
    result = await ctx.tools.execute(ToolCall("work"))
    assert isinstance(result, ToolFailure)
    assert result.error.info == TIMED_OUT


class Callable_:
    async def __call__(self, args: Any, run: Any) -> str:
        return "x"


class Plain:
    def __call__(self, args: Any, run: Any) -> str:
        return "x"


def plain(args: Any, run: Any) -> str:
    return "x"


@functools.wraps(returns_at_once)
def wraps_async(args: Any, run: Any) -> Any:
    return returns_at_once(args, run)


@pytest.mark.parametrize("body", [plain, Plain(), functools.partial(plain), lambda args, run: "x"])
async def test_a_limit_for_a_body_that_is_not_async_is_refused(ctx: Context, body: Any):
    # D44: nothing can stop it on the caller's task
    advice = 'cannot be kept: a body that is not async cannot be stopped; give it isolation="process"'
    with pytest.raises(InvalidTimeoutError, match=advice):
        ctx.tools.register(make_tool(body, timeout_ms=100))
    with pytest.raises(InvalidTimeoutError, match=advice):
        define_tool(name="f", description="", parameters={}, output={"type": "string"}, execute=body, timeout_ms=100)


@pytest.mark.parametrize("body", [returns_at_once, Callable_(), functools.partial(returns_at_once), wraps_async])
async def test_a_limit_for_a_body_that_can_be_interrupted_is_kept(ctx: Context, body: Any):
    ctx.tools.register(make_tool(body, timeout_ms=60_000))
    assert (await ctx.tools.execute(ToolCall("work"))).is_error is False


async def test_output_before_the_limit_is_kept(ctx: Context):
    async def body(args: Any, run: Any) -> str:
        run.progress("one")
        run.progress({"percent": 50})
        run.progress("two\n")
        try:
            await asyncio.sleep(30)
        finally:
            run.progress("after the limit")
        return ""

    ctx.tools.register(make_tool(body, timeout_ms=20))
    result = await ctx.tools.execute(ToolCall("work"))
    assert content_text(result.content).splitlines() == [
        "Error: tool call timed out after 20ms",
        "[output before the limit]",
        "one",
        "two",
        "[the tool has stopped]",
    ]


async def test_of_a_long_output_the_end_is_kept(ctx: Context):
    async def body(args: Any, run: Any) -> str:
        for number in range(20_000):
            run.progress(f"line {number}")
        await asyncio.sleep(30)
        return ""

    ctx.tools.register(make_tool(body, timeout_ms=200))
    shown = content_text((await ctx.tools.execute(ToolCall("work"))).content)
    assert "[output before the limit; its beginning was cut off]" in shown
    assert "line 19999\n" in shown
    assert len(shown) < 17_000


async def test_contexts_that_the_body_deferred_survive(ctx: Context):
    async def body(args: Any, run: Any) -> str:
        run.defer_context("half of it was written")
        await asyncio.sleep(30)
        return ""

    ctx.tools.register(make_tool(body, timeout_ms=10))
    result = await ctx.tools.execute(ToolCall("work"))
    contexts = result.additional_contexts
    assert contexts
    assert content_text(contexts[0].content) == "half of it was written"  # type: ignore[arg-type]


async def test_a_thread_body_with_a_limit_is_refused(ctx: Context):
    # D44, D10
    def body(args: Any, run: Any) -> str:
        return "ok"

    with pytest.raises(InvalidTimeoutError, match="cannot be stopped"):
        ctx.tools.register(make_tool(body, timeout_ms=10, isolation="thread"))


async def test_many_calls_time_out_at_once_and_leave_nothing(ctx: Context):
    ctx.tools.register(make_tool(sleep_long, timeout_ms=20))
    results = await asyncio.gather(*(ctx.tools.execute(ToolCall("work", call_id=str(n))) for n in range(200)))
    assert {result.error.info for result in results if isinstance(result, ToolFailure)} == {TIMED_OUT}
    assert len(results) == 200


async def test_a_function_that_says_it_gives_an_awaitable_may_have_a_limit(ctx: Context):
    @tool(timeout_ms=60_000)
    def announced(n: int) -> Awaitable[int]:
        """Return the number."""
        return asyncio.sleep(0, n)

    ctx.tools.register(announced)
    result = await ctx.tools.execute(ToolCall("announced", {"n": 3}))
    assert isinstance(result, ToolSuccess)
    assert result.value == 3
