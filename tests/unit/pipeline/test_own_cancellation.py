"""A body that cancels the very task it runs in: its own failure, and nobody else's. PIPE section T, D30."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from tests.support.calls import ABORTED_AFTER, app, error, make_tool, run, text_of

from dsh_tools.kernel import NEVER, AbortController
from dsh_tools.pipeline import CallLane
from dsh_tools.tools import ToolCall

pytestmark = pytest.mark.usefixtures("no_leaks")

RAISED = 'tool "hurts" raised CancelledError although nobody cancelled it'
LEFT = 'tool "hurts" cancelled the task that it ran in'


def me() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def waits(args: Any, run: Any) -> str:
    me().cancel()
    await asyncio.sleep(30)
    return "late"


async def waits_later(args: Any, run: Any) -> str:
    await asyncio.sleep(0.001)
    me().cancel()
    await asyncio.sleep(30)
    return "late"


async def returns(args: Any, run: Any) -> str:
    me().cancel()
    return "value"


async def returns_later(args: Any, run: Any) -> str:
    await asyncio.sleep(0.001)
    me().cancel()
    return "value"


async def asks_twice(args: Any, run: Any) -> str:
    me().cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(30)
    me().cancel()
    return "value"


async def catches(args: Any, run: Any) -> str:
    me().cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(30)
    return "value"


async def raises(args: Any, run: Any) -> str:
    me().cancel()
    raise ValueError("its own error")


async def fine(args: Any, run: Any) -> str:
    await asyncio.sleep(0.001)
    return "fine"


BODIES = [
    (waits, f"Error: {RAISED}"),
    (waits_later, f"Error: {RAISED}"),
    (returns, f"Error: {LEFT}"),
    (returns_later, f"Error: {LEFT}"),
    (asks_twice, f"Error: {LEFT}"),
    (catches, "value"),
    (raises, "Error: its own error"),
]
each_body = pytest.mark.parametrize(("body", "text"), BODIES, ids=[body.__name__ for body, _ in BODIES])


class Owner:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.commits = 0

    def starting(self, slot: Any) -> None: ...

    async def committed(self, slot: Any, result: Any) -> None:
        # A cancellation that is still on its way would hit whoever waits next.
        await asyncio.sleep(0)
        self.texts.append(text_of(result))

    def abandoned(self, slot: Any) -> None:
        self.texts.append("abandoned")


@each_body
@pytest.mark.parametrize("how", ["plain", "signal", "wrapped", "observed"])
async def test_its_own_call_fails_and_its_task_goes_on(body: Any, text: str, how: str) -> None:
    # PIPE-96, D30: nobody has cancelled the task that makes the call
    async with app() as ctx:
        ctx.tools.register(make_tool("hurts", body))

        async def hand_on(_execution: Any, next: Any) -> Any:
            return await next()

        if how == "wrapped":
            ctx.on("tools/execute", hand_on)
        if how == "observed":
            ctx.on("tools/state", lambda *_: None)
        result = await run(ctx, "hurts", signal=AbortController().signal if how == "signal" else None)
        assert text_of(result) == text
        assert me().cancelling() == 0
        await asyncio.sleep(0)


@each_body
@pytest.mark.parametrize("signal", [NEVER, AbortController().signal], ids=["never", "signal"])
async def test_the_calls_after_it_in_an_idle_lane_run(body: Any, text: str, signal: Any) -> None:
    # CODE-98
    async with app() as ctx:
        ctx.tools.register(make_tool("hurts", body))
        ctx.tools.register(make_tool("fine", fine))
        owner = Owner()
        lane: CallLane[str] = CallLane(ctx.tools, owner, max_parallel=lambda: 4, signal=signal)
        work = asyncio.ensure_future(lane.run())
        async with asyncio.timeout(10):
            for number, name in enumerate(("fine", "hurts", "fine", "hurts", "fine"), 1):
                await asyncio.sleep(0.002)
                lane.submit(ToolCall(name, {}, signal=signal), name)
                while len(owner.texts) < number:
                    await asyncio.sleep(0.001)
            lane.close()
            await work
        assert owner.texts == ["fine", text, "fine", text, "fine"]


@each_body
@pytest.mark.parametrize("overlap", [True, False])
async def test_the_calls_beside_it_in_a_batch_run(body: Any, text: str, overlap: bool) -> None:
    # HOST-146 to 150
    async with app() as ctx:
        ctx.tools.register(make_tool("hurts", body, is_concurrency_safe=lambda _args: overlap))
        ctx.tools.register(make_tool("fine", fine, is_concurrency_safe=lambda _args: overlap))
        owner = Owner()
        lane: CallLane[str] = CallLane(ctx.tools, owner, max_parallel=lambda: 4, signal=NEVER)
        for name in ("fine", "hurts", "fine", "hurts", "fine"):
            lane.submit(ToolCall(name, {}), name)
        lane.close()
        async with asyncio.timeout(10):
            await lane.run()
        assert owner.texts == ["fine", text, "fine", text, "fine"]
        assert me().cancelling() == 0


@each_body
async def test_a_nested_call_fails_alone(body: Any, text: str) -> None:
    # PIPE-89: the outer body, on the same task, gets its result and goes on
    async with app() as ctx:
        ctx.tools.register(make_tool("hurts", body))

        async def outer(args: Any, execution: Any) -> str:
            inner = await ctx.tools.execute(ToolCall("hurts", {}, parent=execution.token))
            await asyncio.sleep(0.001)
            return f"inner: {text_of(inner)}"

        ctx.tools.register(make_tool("outer", outer))
        assert text_of(await run(ctx, "outer")) == f"inner: {text}"


async def test_a_library_that_forgets_to_take_its_request_back_spoils_nothing_in_a_lane() -> None:
    # D30: only the lane may cancel the tasks of its bodies
    async with app() as ctx:

        async def forgets(args: Any, run: Any) -> str:
            asyncio.get_running_loop().call_later(0.001, me().cancel)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(30)
            return "value"

        ctx.tools.register(make_tool("forgets", forgets))
        ctx.tools.register(make_tool("hurts", waits))
        owner = Owner()
        lane: CallLane[str] = CallLane(ctx.tools, owner, max_parallel=lambda: 4, signal=NEVER)
        work = asyncio.ensure_future(lane.run())
        async with asyncio.timeout(10):
            for number, name in enumerate(("forgets", "hurts", "forgets"), 1):
                await asyncio.sleep(0.002)
                lane.submit(ToolCall(name, {}), name)
                while len(owner.texts) < number:
                    await asyncio.sleep(0.001)
            lane.close()
            await work
        assert owner.texts == ["value", f"Error: {RAISED}", "value"]


@pytest.mark.parametrize("lone", [True, False])
async def test_a_real_cancellation_beside_its_own_is_honoured(lone: bool) -> None:
    # D30
    async with app() as ctx:
        begun = asyncio.Event()

        async def both(args: Any, run: Any) -> str:
            me().cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(30)
            begun.set()
            await asyncio.sleep(30)
            return "late"

        ctx.tools.register(make_tool("both", both))
        owner = Owner()
        lane: CallLane[str] = CallLane(ctx.tools, owner, max_parallel=lambda: 4, signal=NEVER)
        if not lone:
            lane.submit(ToolCall("both", {}), "both")
        work = asyncio.ensure_future(lane.run())
        async with asyncio.timeout(10):
            if lone:
                await asyncio.sleep(0.002)
                lane.submit(ToolCall("both", {}), "both")
            await begun.wait()
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
        assert owner.texts == [text_of(ABORTED_AFTER)]


async def test_a_real_cancellation_goes_out_once_whatever_the_body_had_asked_for() -> None:
    # D30
    async with app() as ctx:
        begun = asyncio.Event()
        counts: list[int] = []

        async def both(args: Any, run: Any) -> str:
            me().cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(30)
            begun.set()
            await asyncio.sleep(30)
            return "late"

        ctx.tools.register(make_tool("both", both))

        async def make_the_call() -> None:
            try:
                await run(ctx, "both")
            finally:
                counts.append(me().cancelling())

        task = asyncio.ensure_future(make_the_call())
        async with asyncio.timeout(10):
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert counts == [1]


async def test_limits_of_its_own_inside_a_body_are_its_own_business() -> None:
    async with app() as ctx:

        async def body(args: Any, run: Any) -> str:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.001):
                    await asyncio.sleep(30)
            with contextlib.suppress(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    group.create_task(fail())
                    await asyncio.sleep(30)
            return "value"

        async def fail() -> None:
            raise ValueError

        ctx.tools.register(make_tool("t", body))
        assert text_of(await run(ctx)) == "value"
        assert me().cancelling() == 0


@pytest.mark.parametrize("event", ["tools/pre-execute", "tools/execute", "tools/post-execute"])
async def test_a_listener_that_cancels_its_task_fails_the_call_alone(event: str) -> None:
    # PIPE-96
    async with app() as ctx:
        ctx.tools.register(make_tool())

        async def listener(_subject: Any, next: Any) -> Any:
            outcome = await next()
            me().cancel()
            return outcome

        stop = ctx.on(event, listener)
        assert await run(ctx) == error(f"a listener of {event} cancelled the task that it ran in")
        await asyncio.sleep(0)
        stop()
        assert text_of(await run(ctx)) == "ok"


@pytest.mark.parametrize("part", ["render", "finalize_content"])
async def test_a_part_of_a_definition_that_cancels_its_task_spoils_no_other_call_of_a_lane(part: str) -> None:
    async with app() as ctx:

        def cancels(*_args: Any) -> Any:
            me().cancel()
            return () if part == "render" else None

        ctx.tools.register(make_tool("hurts", **{part: cancels}))
        ctx.tools.register(make_tool("fine", fine))
        owner = Owner()
        lane: CallLane[str] = CallLane(ctx.tools, owner, max_parallel=lambda: 4, signal=NEVER)
        work = asyncio.ensure_future(lane.run())
        async with asyncio.timeout(10):
            for number, name in enumerate(("hurts", "fine", "hurts", "fine"), 1):
                await asyncio.sleep(0.002)
                lane.submit(ToolCall(name, {}), name)
                while len(owner.texts) < number:
                    await asyncio.sleep(0.001)
            lane.close()
            await work
        assert owner.texts[1::2] == ["fine", "fine"]


# ── what passes through, and what does not ────────────────────────────────────


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("isolation", ["task", "thread"])
async def test_a_generator_exit_of_a_body_is_a_failed_call(isolation: Any, wait: bool) -> None:
    # PIPE-96
    async def later(args: Any, run: Any) -> Any:
        if wait:
            await asyncio.sleep(0)
        raise GeneratorExit

    def at_once(args: Any, run: Any) -> Any:
        raise GeneratorExit

    async with app() as ctx:
        ctx.tools.register(make_tool(execute=later if isolation == "task" else at_once, isolation=isolation))
        assert text_of(await run(ctx)) == "Error: GeneratorExit"
        assert text_of(await run(ctx, signal=AbortController().signal)) == "Error: GeneratorExit"


@pytest.mark.parametrize("place", ["tools/pre-execute", "tools/execute", "tools/post-execute", "render", "finalize"])
async def test_a_generator_exit_of_anybody_else_is_a_failed_call(place: str) -> None:
    # PIPE-96
    def raises(*_args: Any) -> Any:
        raise GeneratorExit

    async with app() as ctx:
        parts = {"render": {"render": raises}, "finalize": {"finalize_content": raises}}.get(place, {})
        ctx.tools.register(make_tool(**parts))
        if not parts:
            ctx.on(place, raises)
        assert "GeneratorExit" in text_of(await run(ctx))


async def test_a_call_that_is_closed_is_closed() -> None:
    ended: list[str] = []

    async def body(args: Any, run: Any) -> str:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("body")
        return "late"

    async with app() as ctx:
        ctx.tools.register(make_tool(execute=body))
        ctx.on("tools/execute", lambda _execution, next: next())
        call = ctx.tools.execute(ToolCall("t", {}))
        call.send(None)
        call.close()
        assert ended == ["body"]


@pytest.mark.parametrize("lone", [True, False])
async def test_what_passes_through_a_lane_leaves_it_as_itself_when_all_have_ended(lone: bool) -> None:
    # HOST-160
    ended: list[str] = []

    async def interrupts(args: Any, run: Any) -> str:
        await asyncio.sleep(0.005)
        raise KeyboardInterrupt("now")

    async def slow(args: Any, run: Any) -> str:
        await asyncio.sleep(0.03)
        ended.append("slow")
        return "slow"

    async with app() as ctx:
        ctx.tools.register(make_tool("interrupts", interrupts, is_concurrency_safe=lambda _args: True))
        ctx.tools.register(make_tool("slow", slow, is_concurrency_safe=lambda _args: True))
        lane: CallLane[str] = CallLane(ctx.tools, Owner(), max_parallel=lambda: 4, signal=NEVER)
        caught: list[BaseException] = []

        async def run_lane() -> None:
            try:
                await lane.run()
            except KeyboardInterrupt as interruption:
                caught.append(interruption)

        if not lone:
            lane.submit(ToolCall("interrupts", {}), "")
            lane.submit(ToolCall("slow", {}), "")
        work = asyncio.ensure_future(run_lane())
        async with asyncio.timeout(10):
            if lone:
                await asyncio.sleep(0.002)
                lane.submit(ToolCall("interrupts", {}), "")
                lane.submit(ToolCall("slow", {}), "")
            await work
        assert [str(error) for error in caught] == ["now"]
        assert ended == ["slow"]


@pytest.mark.parametrize("failure", [SystemExit(3), GeneratorExit(), asyncio.CancelledError()])
async def test_a_classifier_that_raises_makes_its_call_exclusive(failure: BaseException) -> None:
    # PIPE-204
    def classify(_args: Any) -> bool:
        raise failure

    async with app() as ctx:
        ctx.tools.register(make_tool(is_concurrency_safe=classify))
        assert ctx.tools.execution_mode(ToolCall("t", {})) == "exclusive"
