"""Stopping: the cancellation matrix, native cancellation, threads. PIPE section T, D30."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest
from tests.support.calls import (
    ABORTED_AFTER,
    ABORTED_BEFORE,
    Body,
    Recorder,
    app,
    error,
    make_tool,
    run,
    text_of,
)

from dsh_tools.content import text
from dsh_tools.kernel import AbortController
from dsh_tools.pipeline.cancellation import await_under
from dsh_tools.tools import Accept, Block, ToolCall, ToolSuccess

pytestmark = pytest.mark.usefixtures("no_leaks")


class Case:
    """One call with a signal, some listeners, and what was seen."""

    def __init__(self, ctx: Any, body: Any = None) -> None:
        self.ctx = ctx
        self.controller = AbortController()
        self.recorder = Recorder(ctx)
        self.body = Body() if body is None else Body(lambda args, execution: body(self, execution))
        ctx.tools.register(make_tool(execute=self.body))

    async def run(self) -> Any:
        return await run(self.ctx, signal=self.controller.signal)

    @property
    def reviewed(self) -> bool:
        return "post" in self.recorder.seen


def deferring(value: Any, abort: bool = True) -> Any:
    def body(case: Case, execution: Any) -> Any:
        execution.defer_context("kept")
        if abort:
            case.controller.abort("caller")
        if isinstance(value, Exception):
            raise value
        return value

    return body


def contexts(result: Any) -> list[str]:
    return [message.content[0].text for message in result.additional_contexts or ()]


def bare(result: Any) -> Any:
    """The result without its contexts."""
    import msgspec

    return msgspec.structs.replace(result, additional_contexts=msgspec.UNSET)


async def test_in_a_wrapper_before_next() -> None:
    # PIPE-189
    async with app() as ctx:
        case = Case(ctx)

        async def wrapper(_execution: Any, next: Any) -> Any:
            case.controller.abort()
            return await next()

        ctx.on("tools/execute", wrapper)
        assert await case.run() == ABORTED_BEFORE
        assert (case.body.calls, case.reviewed) == ([], True)


async def test_in_a_wrapper_that_answers_itself() -> None:
    # PIPE-190, 191
    async with app() as ctx:
        case = Case(ctx)

        async def wrapper(execution: Any, next: Any) -> Any:
            execution.defer_context("kept")
            case.controller.abort()
            return ToolSuccess("x", ())

        remove = ctx.on("tools/execute", wrapper)
        result = await case.run()
        assert bare(result) == ABORTED_BEFORE
        assert contexts(result) == ["kept"]
        assert case.reviewed
        remove()

        async def failing(_execution: Any, next: Any) -> Any:
            case.controller.abort()
            return error("mine")

        case.controller = AbortController()
        remove = ctx.on("tools/execute", failing)
        assert await case.run() == error("mine")
        remove()

        async def raising(_execution: Any, next: Any) -> Any:
            case.controller.abort()
            raise ValueError("raised")

        case.controller = AbortController()
        case.recorder.seen.clear()
        ctx.on("tools/execute", raising)
        assert await case.run() == error("raised")
        assert not case.reviewed


async def test_in_the_body() -> None:
    # PIPE-192, 193, 225
    async with app() as ctx:
        case = Case(ctx, deferring("late"))
        result = await case.run()
        assert bare(result) == ABORTED_AFTER
        assert contexts(result) == ["kept"]
        assert case.reviewed
    async with app() as ctx:
        case = Case(ctx, deferring(ValueError("own")))
        result = await case.run()
        assert bare(result) == error("own")
        assert contexts(result) == ["kept"]


async def test_after_the_body_in_a_wrapper() -> None:
    # PIPE-194
    async with app() as ctx:
        case = Case(ctx, deferring("done", abort=False))

        async def wrapper(_execution: Any, next: Any) -> Any:
            result = await next()
            case.controller.abort()
            return result

        ctx.on("tools/execute", wrapper)
        result = await case.run()
        assert bare(result) == ABORTED_AFTER
        assert contexts(result) == ["kept"]


@pytest.mark.parametrize("decision", [Accept(), Accept(content=text("x")), Block(text("no")), ValueError("post")])
async def test_in_post(decision: Any) -> None:
    # PIPE-195, 196
    async with app() as ctx:
        case = Case(ctx, deferring("done", abort=False))

        async def post(_review: Any, next: Any) -> Any:
            case.controller.abort()
            if isinstance(decision, Exception):
                raise decision
            return decision

        ctx.on("tools/post-execute", post)
        result = await case.run()
        if isinstance(decision, Accept):
            assert bare(result) == ABORTED_AFTER
            assert contexts(result) == ["kept"]
        else:
            assert text_of(result) in ("no", "Error: post")


async def test_in_post_of_a_wrappers_success_the_body_never_ran() -> None:
    # PIPE-195, 199
    async with app() as ctx:
        case = Case(ctx)

        async def wrapper(_execution: Any, next: Any) -> Any:
            return ToolSuccess("x", ())

        async def post(_review: Any, next: Any) -> Any:
            case.controller.abort()
            return Accept()

        ctx.on("tools/execute", wrapper)
        ctx.on("tools/post-execute", post)
        assert await case.run() == ABORTED_BEFORE


async def test_after_post_nothing_changes() -> None:
    # PIPE-197
    async with app() as ctx:
        case = Case(ctx)
        ctx.on("tools/result", lambda *_: case.controller.abort())
        assert text_of(await case.run()) == "ok"


async def test_a_started_body_is_waited_for() -> None:
    # PIPE-198
    async with app() as ctx:
        controller = AbortController()
        ended = False

        async def stubborn(args: Any, execution: Any) -> str:
            nonlocal ended
            controller.abort()
            until = time.monotonic() + 0.1
            while time.monotonic() < until:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.02)
            ended = True
            return "late"

        ctx.tools.register(make_tool(execute=stubborn))
        assert await run(ctx, signal=controller.signal) == ABORTED_AFTER
        assert ended


async def test_an_async_body_is_cancelled_by_its_signal() -> None:
    # design 6, field-071: CancelledError reaches the body, its finally runs, the task goes on
    async with app() as ctx:
        controller = AbortController()
        cleaned: list[str] = []

        async def body(args: Any, execution: Any) -> str:
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0)
                cleaned.append("finally")
            return "never"

        ctx.tools.register(make_tool(execute=body))
        asyncio.get_running_loop().call_later(0.02, controller.abort)
        assert await run(ctx, signal=controller.signal) == ABORTED_AFTER
        assert cleaned == ["finally"]
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        assert controller.signal.callback_count == 0


async def test_a_body_that_waits_on_the_signal_answers_first() -> None:
    # PIPE-193: its own error is kept
    async with app() as ctx:
        controller = AbortController()

        async def body(args: Any, execution: Any) -> str:
            await execution.signal.wait()
            raise ValueError("stopped at 40%")

        ctx.tools.register(make_tool(execute=body))
        asyncio.get_running_loop().call_later(0.02, controller.abort)
        assert await run(ctx, signal=controller.signal) == error("stopped at 40%")


# ── Native cancellation ────────────────────────────────────────────────────────


async def cancelled(ctx: Any, *, after: float = 0.03, times: int = 1, **fields: Any) -> None:
    task = asyncio.create_task(run(ctx, **fields))
    await asyncio.sleep(after)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelling_the_awaiting_task_is_a_caller_abort() -> None:
    # D30, field-053 (b)
    async with app() as ctx:
        cleaned: list[str] = []

        async def body(args: Any, execution: Any) -> str:
            execution.defer_context("kept")
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.02)
                cleaned.append("finally")
            return "never"

        ctx.tools.register(make_tool(execute=body))
        recorder = Recorder(ctx)
        await cancelled(ctx)
        assert cleaned == ["finally"]
        assert recorder.seen == ["pre", "around", "post", "result"]
        assert bare(recorder.results[0]) == ABORTED_AFTER
        assert contexts(recorder.results[0]) == ["kept"]


async def test_a_second_cancel_does_not_shorten_the_settling() -> None:
    # D30
    async with app() as ctx:

        async def body(args: Any, execution: Any) -> str:
            await asyncio.sleep(60)
            return "never"

        async def slow_post(review: Any, next: Any) -> Any:
            await asyncio.sleep(0.05)
            order.append("post")
            return await next()

        order: list[str] = []
        ctx.tools.register(make_tool(execute=body, finalize_content=lambda *_: order.append("finalize")))
        ctx.on("tools/post-execute", slow_post)
        ctx.on("tools/result", lambda *_: order.append("result"))
        await cancelled(ctx, times=5)
        assert order == ["post", "finalize", "result"]


@pytest.mark.parametrize("stage", ["tools/pre-execute", "tools/execute", "tools/post-execute"])
async def test_cancelled_while_a_listener_waits(stage: str) -> None:
    # D30: one result, whatever the task was waiting for
    async with app() as ctx:
        body = Body()
        ctx.tools.register(make_tool(execute=body))

        async def waiting(_subject: Any, next: Any) -> Any:
            await asyncio.sleep(60)
            return await next()

        ctx.on(stage, waiting)
        results: list[Any] = []
        ctx.on("tools/result", lambda _execution, result: results.append(result))
        await cancelled(ctx)
        assert results == [ABORTED_AFTER if stage == "tools/post-execute" else ABORTED_BEFORE]
        assert len(body.calls) == (1 if stage == "tools/post-execute" else 0)


@pytest.mark.parametrize("stage", [None, "tools/pre-execute", "tools/execute", "tools/post-execute"])
async def test_a_cancellation_from_just_before_the_call_is_an_abort(stage: str | None) -> None:
    # D30: the request is older than the call and is delivered inside it
    async with app() as ctx:

        async def body(args: Any, execution: Any) -> str:
            await asyncio.sleep(0.01)
            return "done"

        async def waiting(_subject: Any, next: Any) -> Any:
            await asyncio.sleep(0.01)
            return await next()

        ctx.tools.register(make_tool(execute=body if stage is None else Body()))
        if stage is not None:
            ctx.on(stage, waiting)
        recorder = Recorder(ctx)

        async def caller() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await run(ctx)

        task = asyncio.create_task(caller())
        with pytest.raises(asyncio.CancelledError):
            await task
        before = stage in ("tools/pre-execute", "tools/execute")
        assert recorder.results == [ABORTED_BEFORE if before else ABORTED_AFTER]


async def test_calls_made_while_a_cancelled_task_cleans_up_run_as_usual() -> None:
    # D30: the old request has been delivered, so it says nothing about these
    async with app() as ctx:
        ctx.tools.register(make_tool())
        seen: list[str] = []

        async def caller() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                seen.append(text_of(await run(ctx)))

        task = asyncio.create_task(caller())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["ok"]


async def test_a_timeout_around_execute_works_as_usual() -> None:
    # D30: asyncio.timeout sees its own cancellation come back
    async with app() as ctx:

        async def body(args: Any, execution: Any) -> str:
            await asyncio.sleep(60)
            return "never"

        ctx.tools.register(make_tool(execute=body))
        recorder = Recorder(ctx)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.03):
                await run(ctx)
        assert recorder.results == [ABORTED_AFTER]


@pytest.mark.parametrize("failure", [asyncio.CancelledError(), SystemExit(3)])
async def test_a_body_that_cancels_itself_has_failed(failure: BaseException) -> None:
    # D30, field-053 (a)
    async with app() as ctx:
        ctx.tools.register(make_tool(execute=Body(failure)))
        result = await run(ctx)
        assert result.is_error
        assert result.error.message
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


@pytest.mark.parametrize("stage", ["tools/pre-execute", "tools/execute", "tools/post-execute"])
async def test_a_listener_that_raises_a_stray_cancelled_error_has_failed(stage: str) -> None:
    # D30
    async with app() as ctx:
        ctx.tools.register(make_tool())

        async def stray(_subject: Any, next: Any) -> Any:
            raise asyncio.CancelledError

        ctx.on(stage, stray)
        recorder = Recorder(ctx)
        assert text_of(await run(ctx)) == "Error: CancelledError"
        assert recorder.seen[-1] == "result"


async def test_a_body_that_swallows_a_native_cancellation_is_waited_for() -> None:
    # D30: the call settles, then the cancellation goes out
    async with app() as ctx:

        async def stubborn(args: Any, execution: Any) -> str:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            await asyncio.sleep(0.05)
            return "late"

        ctx.tools.register(make_tool(execute=stubborn))
        recorder = Recorder(ctx)
        await cancelled(ctx)
        assert recorder.results == [ABORTED_AFTER]


async def test_a_body_that_answers_a_native_cancellation_with_an_error_keeps_it() -> None:
    # PIPE-193, D30
    async with app() as ctx:

        async def body(args: Any, execution: Any) -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise ValueError("stopped halfway") from None
            return "never"

        ctx.tools.register(make_tool(execute=body))
        recorder = Recorder(ctx)
        await cancelled(ctx)
        assert recorder.results == [error("stopped halfway")]


# ── Threads ────────────────────────────────────────────────────────────────────


async def test_a_synchronous_body_runs_beside_the_loop() -> None:
    # field-072
    async with app() as ctx:
        threads: list[int] = []

        def body(args: Any, execution: Any) -> str:
            threads.append(threading.get_ident())
            time.sleep(0.2)
            return "ok"

        ctx.tools.register(make_tool(execute=body, isolation="thread"))
        ticks = 0

        async def heart() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        task = asyncio.create_task(heart())
        assert text_of(await run(ctx)) == "ok"
        task.cancel()
        assert ticks > 8
        assert threads != [threading.get_ident()]


async def test_a_body_in_a_thread_polls_its_signal_and_is_waited_for() -> None:
    # design 6, D30
    async with app() as ctx:
        ended = threading.Event()

        def body(args: Any, execution: Any) -> str:
            while not execution.signal.aborted:
                time.sleep(0.005)
            time.sleep(0.05)
            ended.set()
            return "late"

        ctx.tools.register(make_tool(execute=body, isolation="thread"))
        controller = AbortController()
        asyncio.get_running_loop().call_later(0.02, controller.abort)
        assert await run(ctx, signal=controller.signal) == ABORTED_AFTER
        assert ended.is_set()
        ended.clear()
        recorder = Recorder(ctx)
        await cancelled(ctx, times=3)
        assert ended.is_set()
        assert recorder.results == [ABORTED_AFTER]


async def test_threads_are_bounded_and_end_with_the_service() -> None:
    # field-069
    before = threading.active_count()
    async with app(max_threads=4) as ctx:
        ctx.tools.register(make_tool(execute=lambda *_: time.sleep(0.01) or "ok", isolation="thread"))
        results = await asyncio.gather(*(run(ctx) for _ in range(40)))
        assert {text_of(result) for result in results} == {"ok"}
        assert threading.active_count() <= before + 4
    assert threading.active_count() == before


async def test_a_raising_thread_body_is_a_failure() -> None:
    async with app() as ctx:
        ctx.tools.register(make_tool(execute=lambda *_: 1 / 0, isolation="thread"))
        assert await run(ctx) == error("division by zero")


async def test_one_failing_call_leaves_its_siblings_alone() -> None:
    # field-065, field-068
    async with app() as ctx:

        async def sleeps(args: Any, execution: Any) -> str:
            await asyncio.sleep(0.05)
            return "ok"

        ctx.tools.register(make_tool("sleeps", sleeps))
        ctx.tools.register(make_tool("fails", Body(ValueError("x"))))
        controller = AbortController()
        asyncio.get_running_loop().call_later(0.01, controller.abort)
        first, second, third, fourth = await asyncio.gather(
            run(ctx, "sleeps"), run(ctx, "fails"), run(ctx, "sleeps", signal=controller.signal), run(ctx, "sleeps")
        )
        assert (text_of(first), text_of(second), text_of(fourth)) == ("ok", "Error: x", "ok")
        assert third == ABORTED_AFTER


async def test_modes_of_execution() -> None:
    # PIPE-202 to 204, CODE-27, HOST-147
    async with app() as ctx:
        mode = ctx.tools.execution_mode

        def boom(_args: Any) -> bool:
            raise ValueError

        classifiers: dict[str, Any] = {
            "yes": lambda _args: True,
            "no": lambda _args: False,
            "truthy": lambda _args: 1,
            "raises": boom,
            "promise": lambda _args: asyncio.sleep(0),
        }
        for name, classifier in classifiers.items():
            ctx.tools.register(make_tool(name, is_concurrency_safe=classifier))
        ctx.tools.register(make_tool("none"))
        assert mode(ToolCall("yes")) == "parallel"
        with pytest.warns(RuntimeWarning, match="never awaited"):
            assert mode(ToolCall("promise")) == "exclusive"
        for name in ("no", "truthy", "raises", "none", "nobody"):
            assert mode(ToolCall(name)) == "exclusive"
        seen: list[Any] = []
        ctx.tools.register(make_tool("given", is_concurrency_safe=lambda args: seen.append(args) or True))
        assert mode(ToolCall("given", '{"a": 1}')) == "parallel"
        assert mode(ToolCall("given", "{broken")) == "exclusive"
        assert seen == [{"a": 1}]
        scoped = ctx.create_scope("agent")
        agent: Any = type("Agent", (), {"scope": scoped.scope})()
        lift = scoped.tools.restrict(deny=["yes"])
        assert mode(ToolCall("yes", agent=agent)) == "exclusive"
        lift()
        scoped.tools.present_as("code")
        assert mode(ToolCall("yes", agent=agent)) == "exclusive"


async def test_a_body_that_never_waits_costs_no_watch():
    controller = AbortController()

    async def body() -> str:
        assert controller.signal.callback_count == 0
        return "ok"

    assert await await_under(controller.signal, body()) == "ok"


async def test_a_body_is_watched_from_its_first_wait_on():
    # PIPE-192, D30: what it catches, and what it waits for afterwards, is its own
    controller = AbortController()
    seen: list[object] = []

    async def body() -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        seen.append(controller.signal.callback_count)
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            seen.append("cancelled")
        await asyncio.sleep(0)
        return "its own end"

    asyncio.get_running_loop().call_later(0.01, controller.abort)
    assert await await_under(controller.signal, body()) == "its own end"
    assert seen == [1, "cancelled"]
    assert controller.signal.callback_count == 0


@pytest.mark.parametrize("waits_first", [False, True])
async def test_errors_of_a_body_come_through(waits_first: bool):
    async def body() -> None:
        if waits_first:
            await asyncio.sleep(0)
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        await await_under(AbortController().signal, body())


async def test_an_error_of_what_a_body_waits_for_reaches_it_first():
    async def body() -> str:
        failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(failing.set_exception, KeyError("lost"))
        try:
            await failing
        except KeyError as error:
            return repr(error)
        return "no error"

    assert await await_under(AbortController().signal, body()) == "KeyError('lost')"


async def test_a_body_that_is_given_up_unfinished_is_closed():
    closed: list[bool] = []

    async def body() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append(True)

    work = await_under(AbortController().signal, body())
    work.send(None)
    work.close()
    assert closed == [True]


async def test_bodies_in_threads_may_wait_for_each_other():
    # Each holds its thread while it waits; with two threads and four of them nobody would ever get another.
    loop = asyncio.get_running_loop()

    async with app(max_threads=2) as ctx:

        def outer(args: Any, execution: Any) -> Any:
            call = ToolCall("inner", {"n": args["n"]}, parent=execution.token)
            result = asyncio.run_coroutine_threadsafe(ctx.tools.execute(call), loop).result(30)
            assert isinstance(result, ToolSuccess)
            return result.value

        def inner(args: Any, _execution: Any) -> Any:
            return args["n"] if args["n"] % 2 else outer({"n": args["n"] + 1}, _execution)

        ctx.tools.register(make_tool("outer", outer, isolation="thread"))
        ctx.tools.register(make_tool("inner", inner, isolation="thread"))
        results = await asyncio.gather(*(run(ctx, "outer", {"n": n}) for n in range(4)))
    assert [result.value for result in results if isinstance(result, ToolSuccess)] == [1, 1, 3, 3]
