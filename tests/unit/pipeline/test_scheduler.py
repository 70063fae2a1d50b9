"""The lane: ordered starts, overlapping bodies, ordered commits. PIPE section Y, HOST section 8, CODE section I."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.calls import Body, app, make_tool, text_of

from dsh_tools.kernel import NEVER, AbortController
from dsh_tools.pipeline import CallLane
from dsh_tools.tools import ToolCall

pytestmark = pytest.mark.usefixtures("no_leaks")


class Owner:
    """Notes what the lane says, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.results: dict[str, str] = {}
        self.fail_on: str | None = None

    def starting(self, slot: Any) -> None:
        self.events.append(f"start {slot.tag}")

    async def committed(self, slot: Any, result: Any) -> None:
        if self.fail_on == slot.tag:
            raise RuntimeError("the store is full")
        self.events.append(f"commit {slot.tag}")
        self.results[slot.tag] = text_of(result)

    def abandoned(self, slot: Any) -> None:
        self.events.append(f"abandon {slot.tag}")


class Bench:
    """Tools whose bodies say when they begin and end, and take as many ticks as they are told."""

    def __init__(self, ctx: Any, events: list[str]) -> None:
        self.ctx = ctx
        self.running = 0
        self.most = 0
        self.events = events
        for name, parallel in (("par", True), ("exc", False)):
            ctx.tools.register(make_tool(name, self.body, is_concurrency_safe=lambda _a, parallel=parallel: parallel))

    async def body(self, args: Any, execution: Any) -> str:
        name = execution.call_id
        self.events.append(f"begin {name}")
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(args.get("ms", 1) / 1000)
        finally:
            self.running -= 1
            self.events.append(f"end {name}")
        return name


def lane_of(ctx: Any, owner: Owner, *, most: int = 10, signal: Any = NEVER) -> CallLane[str]:
    return CallLane(ctx.tools, owner, max_parallel=lambda: most, signal=signal)


def submit(lane: CallLane[str], *calls: tuple[str, str, int], signal: Any = None) -> None:
    for tag, tool, ms in calls:
        lane.submit(ToolCall(tool, {"ms": ms}, call_id=tag, signal=signal), tag)


async def run_lane(*calls: tuple[str, str, int], most: int = 10) -> tuple[list[str], Bench]:
    async with app() as ctx:
        owner = Owner()
        bench = Bench(ctx, owner.events)
        lane = lane_of(ctx, owner, most=most)
        submit(lane, *calls)
        lane.close()
        await lane.run()
        return owner.events, bench


def commits(events: list[str]) -> list[str]:
    return [event.split()[1] for event in events if event.startswith("commit")]


async def test_parallel_bodies_overlap_and_commit_in_order() -> None:
    # PIPE-235, HOST-146, 151, CODE-101, 103
    events, bench = await run_lane(("a", "par", 60), ("b", "par", 10), ("c", "par", 30))
    assert bench.most == 3
    assert [event for event in events if event.startswith("end")] == ["end b", "end c", "end a"]
    assert commits(events) == ["a", "b", "c"]
    assert events.index("end b") < events.index("commit a") < events.index("commit b")


async def test_an_exclusive_call_runs_alone_and_until_its_commit() -> None:
    # HOST-146, CODE-102
    events, _ = await run_lane(("a", "par", 20), ("x", "exc", 5), ("b", "par", 5))
    assert events.index("commit a") < events.index("start x")
    assert events.index("commit x") < events.index("start b")


async def test_one_at_a_time_with_a_pool_of_one() -> None:
    # HOST-144, CODE-101
    events, bench = await run_lane(("a", "par", 5), ("b", "par", 5), ("c", "par", 5), most=1)
    assert bench.most == 1
    assert commits(events) == ["a", "b", "c"]


async def test_a_finished_body_frees_its_place_before_its_commit() -> None:
    # CODE-104
    events, bench = await run_lane(("a", "par", 60), ("b", "par", 10), ("c", "par", 10), most=2)
    assert bench.most == 2
    assert events.index("end b") < events.index("begin c") < events.index("commit a")


async def test_settled_calls_take_no_place_and_modes_are_asked_again() -> None:
    # HOST-148, 150, PIPE-204
    async with app() as ctx:
        owner = Owner()
        bench = Bench(ctx, owner.events)
        answers = iter([True] * 20)
        flip = {"parallel": True}
        ctx.tools.register(
            make_tool("flip", bench.body, is_concurrency_safe=lambda _a: flip["parallel"] and next(answers))
        )
        ctx.on("tools/result", lambda execution, _r: flip.update(parallel=False) if execution.call_id == "a" else None)
        lane = lane_of(ctx, owner, most=1)
        submit(lane, ("a", "par", 5), ("bad", "nobody", 0), ("b", "flip", 5), ("c", "flip", 5))
        lane.close()
        await lane.run()
        assert commits(owner.events) == ["a", "bad", "b", "c"]
        assert owner.events.index("commit b") < owner.events.index("start c")
        assert owner.results["bad"].startswith('Error: unknown tool "nobody"')


async def test_policy_runs_one_call_at_a_time() -> None:
    # PIPE-235, CODE-101, HOST-149
    async with app() as ctx:
        owner = Owner()
        Bench(ctx, owner.events)

        async def pre(execution: Any, next: Any) -> Any:
            owner.events.append(f"pre {execution.call_id}")
            await asyncio.sleep(0.01)
            owner.events.append(f"decided {execution.call_id}")
            return await next()

        ctx.on("tools/pre-execute", pre)
        lane = lane_of(ctx, owner)
        submit(lane, ("a", "par", 30), ("b", "par", 5))
        lane.close()
        await lane.run()
        policy = [event for event in owner.events if event.split()[0] in ("start", "pre", "decided")]
        assert policy == ["start a", "pre a", "decided a", "start b", "pre b", "decided b"]
        assert owner.events.index("begin a") < owner.events.index("decided b") < owner.events.index("end a")


async def test_an_abort_stops_starts_and_waits_for_bodies() -> None:
    # HOST-155, 156, PIPE-201, field-066
    async with app() as ctx:
        owner = Owner()
        Bench(ctx, owner.events)
        controller = AbortController()
        lane = lane_of(ctx, owner, most=2, signal=controller.signal)
        calls = (("a", "par", 5000), ("b", "par", 5000), ("c", "par", 5), ("x", "exc", 5))
        submit(lane, *calls, signal=controller.signal)
        lane.close()
        asyncio.get_running_loop().call_later(0.03, controller.abort)
        await lane.run()
        assert commits(owner.events) == ["a", "b"]
        assert owner.events[-2:] == ["commit a", "commit b"] or "abandon x" in owner.events
        assert [event for event in owner.events if event.startswith("abandon")] == ["abandon c", "abandon x"]
        assert set(owner.results.values()) == {"Error: tool call aborted"}
        assert "begin c" not in owner.events


async def test_an_abort_during_policy_starts_no_sibling() -> None:
    # HOST-157, field-066
    async with app() as ctx:
        owner = Owner()
        Bench(ctx, owner.events)
        controller = AbortController()

        async def pre(execution: Any, next: Any) -> Any:
            controller.abort()
            return await next()

        ctx.on("tools/pre-execute", pre)
        lane = lane_of(ctx, owner, signal=controller.signal)
        submit(lane, ("a", "par", 5), ("b", "par", 5), signal=controller.signal)
        lane.close()
        await lane.run()
        assert owner.events == ["start a", "commit a", "abandon b"] or set(owner.events) == {
            "start a",
            "commit a",
            "abandon b",
        }
        assert owner.results["a"] == "Error: tool call aborted before dispatch"


@pytest.mark.parametrize("during", ["body", "policy", "first-step"])
async def test_cancelling_the_lane_settles_every_started_call(during: str) -> None:
    # D30
    async with app() as ctx:
        owner = Owner()
        Bench(ctx, owner.events)
        if during == "policy":

            async def pre(execution: Any, next: Any) -> Any:
                await asyncio.sleep(60)
                return await next()

            ctx.on("tools/pre-execute", pre)
        lane = lane_of(ctx, owner, most=2)
        submit(lane, ("a", "par", 60_000), ("b", "par", 60_000), ("c", "par", 5))
        task = asyncio.create_task(lane.run())
        await asyncio.sleep(0.03 if during != "first-step" else 0)
        if during == "first-step":
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        started = [event.split()[1] for event in owner.events if event.startswith("start")]
        assert commits(owner.events) == started
        assert len(started) == (1 if during == "policy" else 2)
        assert all(text.startswith("Error: tool call aborted") for text in owner.results.values())


async def test_an_owner_that_fails_stops_the_lane_after_the_bodies() -> None:
    # HOST-160
    async with app() as ctx:
        owner = Owner()
        bench = Bench(ctx, owner.events)
        owner.fail_on = "a"
        lane = lane_of(ctx, owner, most=2)
        submit(lane, ("a", "par", 5), ("b", "par", 50), ("c", "par", 5))
        lane.close()
        with pytest.raises(RuntimeError, match="the store is full"):
            await lane.run()
        assert bench.running == 0
        assert "end b" in owner.events
        assert "abandon c" in owner.events
        assert commits(owner.events) == []


async def test_calls_may_come_while_the_lane_runs() -> None:
    # CODE-98, 100
    async with app() as ctx:
        owner = Owner()
        Bench(ctx, owner.events)
        lane = lane_of(ctx, owner)
        task = asyncio.create_task(lane.run())
        for tag in ("a", "b"):
            await asyncio.sleep(0.01)
            submit(lane, (tag, "par", 5))
        await asyncio.sleep(0.03)
        assert commits(owner.events) == ["a", "b"]
        lane.close()
        await task


async def test_a_concluding_call_and_contexts_reach_the_owner() -> None:
    # HOST-153, 164
    async with app() as ctx:
        seen: list[Any] = []

        class Collector(Owner):
            async def committed(self, slot: Any, result: Any) -> None:
                seen.append((result.concludes_turn, len(result.additional_contexts)))

        body = Body(lambda _a, execution: execution.conclude_turn() or execution.defer_context("x") or "ok")
        ctx.tools.register(make_tool("last", body))
        lane = lane_of(ctx, Collector())
        submit(lane, ("a", "last", 0))
        lane.close()
        await lane.run()
        assert seen == [(True, 1)]


async def test_duplicate_call_ids_are_separate_calls() -> None:
    # HOST-163, field-078
    async with app() as ctx:
        owner = Owner()
        ctx.tools.register(make_tool("echo", Body(lambda args, _e: str(args["x"]))))
        lane = lane_of(ctx, owner)
        for x in (1, 2):
            lane.submit(ToolCall("echo", {"x": x}, call_id="same"), f"call {x}")
        lane.close()
        await lane.run()
        assert owner.results == {"call 1": "1", "call 2": "2"}


async def test_execute_is_the_composition_of_its_stages() -> None:
    # PIPE-234, 236: where a run goes next is part of the run, so it cannot be finished the wrong way
    async with app() as ctx:
        seen: list[str] = []

        async def post(review: Any, next: Any) -> Any:
            seen.append(review.execution.call_id)
            return await next()

        ctx.tools.register(make_tool())
        ctx.on("tools/post-execute", post)
        for number, (name, arguments, goes) in enumerate(
            (("t", {}, "dispatch"), ("t", 5, "review"), ("t", {"x": {1}}, "finish"))
        ):
            call = ToolCall(name, arguments, call_id=f"staged {number}")
            prepared = await ctx.tools.prepare(call)
            assert prepared.next == goes
            await ctx.tools.dispatch(prepared)
            staged = await ctx.tools.finish(prepared)
            whole = await ctx.tools.execute(ToolCall(name, arguments, call_id=f"whole {number}"))
            assert staged == whole
        assert seen == ["staged 0", "whole 0", "staged 1", "whole 1"]
