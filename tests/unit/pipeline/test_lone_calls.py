"""A call that comes to an idle lane has a task of its own, and the same order and the same end. CODE section I."""

from __future__ import annotations

import asyncio
import random
from contextvars import ContextVar
from typing import Any

import pytest
from tests.support.calls import Body, app, make_tool, text_of

from dsh_tools.kernel import NEVER, AbortController
from dsh_tools.pipeline import CallLane
from dsh_tools.tools import ToolCall

pytestmark = pytest.mark.usefixtures("no_leaks")

MARK: ContextVar[str] = ContextVar("mark", default="unset")


class Owner:
    def __init__(self) -> None:
        self.events: list[str] = []
        self.fail_on = ""
        self.slow_on = ""

    def starting(self, slot: Any) -> None:
        if self.fail_on == f"start {slot.tag}":
            raise RuntimeError("the log is full")
        self.events.append(f"start {slot.tag}")

    async def committed(self, slot: Any, result: Any) -> None:
        if self.fail_on == f"commit {slot.tag}":
            raise RuntimeError("the log is full")
        if self.slow_on == slot.tag:
            await asyncio.sleep(0.02)
        self.events.append(f"commit {slot.tag} {text_of(result)}")

    def abandoned(self, slot: Any) -> None:
        self.events.append(f"abandon {slot.tag}")


class Running:
    """A lane that runs while the test submits."""

    def __init__(self, ctx: Any, owner: Owner, signal: Any = NEVER, most: int = 10) -> None:
        self.lane: CallLane[str] = CallLane(ctx.tools, owner, max_parallel=lambda: most, signal=signal)
        self.signal = signal
        self.work = asyncio.ensure_future(self.lane.run())

    async def __aenter__(self) -> Running:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_error: Any) -> None:
        self.lane.close()
        await asyncio.wait([self.work])

    def submit(self, tag: str, tool: str, ms: float = 1) -> Any:
        call = ToolCall(tool, {"ms": ms}, call_id=tag, signal=None if self.signal is NEVER else self.signal)
        return self.lane.submit(call, tag)


def register(ctx: Any, events: list[str]) -> None:
    async def body(args: Any, run: Any) -> str:
        events.append(f"begin {run.call_id}")
        try:
            await asyncio.sleep(args["ms"] / 1000)
        finally:
            events.append(f"end {run.call_id}")
        return MARK.get()

    ctx.tools.register(make_tool("par", body, is_concurrency_safe=lambda _a: True))
    ctx.tools.register(make_tool("exc", body))
    ctx.tools.register(make_tool("quick", Body()))


async def test_a_lone_call_runs_where_the_lane_does() -> None:
    # CODE-100: in a copy of the context that the lane was started in, so that calls do not see each other's
    async with app() as ctx:
        owner = Owner()
        register(ctx, owner.events)
        MARK.set("lane")

        async def marks(args: Any, run: Any) -> str:
            seen = MARK.get()
            MARK.set("left behind")
            return seen

        ctx.tools.register(make_tool("marks", marks))
        running = Running(ctx, owner)
        MARK.set("submitter")
        async with running:
            for tag in ("a", "b"):
                slot = running.submit(tag, "marks")
                assert slot.task is not None
                await asyncio.wait([slot.task])
        assert owner.events == ["start a", "commit a lane", "start b", "commit b lane"]


async def test_a_later_call_may_overlap_a_lone_one_and_waits_for_its_commit() -> None:
    # CODE-101, 103
    async with app() as ctx:
        owner = Owner()
        register(ctx, owner.events)
        async with Running(ctx, owner) as running:
            running.submit("a", "par", 40)
            await asyncio.sleep(0.005)
            running.submit("b", "par", 1)
            running.submit("x", "exc", 1)
        events = owner.events
        assert events.index("end b") < events.index("end a") < events.index("commit a unset")
        assert events.index("commit a unset") < events.index("commit b unset") < events.index("start x")


async def test_an_exclusive_lone_call_holds_later_ones() -> None:
    # CODE-102
    async with app() as ctx:
        owner = Owner()
        owner.slow_on = "x"
        register(ctx, owner.events)
        async with Running(ctx, owner) as running:
            running.submit("x", "exc", 10)
            running.submit("b", "par", 1)
            await asyncio.sleep(0)
        assert owner.events[:4] == ["start x", "begin x", "end x", "commit x unset"]


async def test_policy_of_a_lone_call_and_of_a_later_one_do_not_overlap() -> None:
    # PIPE-235, CODE-101
    async with app() as ctx:
        owner = Owner()
        register(ctx, owner.events)
        inside: list[str] = []

        async def policy(subject: Any, next: Any) -> Any:
            assert inside == []
            inside.append("x")
            await asyncio.sleep(0.005)
            inside.clear()
            return await next()

        ctx.on("tools/pre-execute", policy)
        ctx.on("tools/post-execute", policy)
        async with Running(ctx, owner) as running:
            running.submit("a", "par", 8)
            await asyncio.sleep(0.006)
            for tag in "bcd":
                running.submit(tag, "par", 3)
        assert [event.split()[1] for event in owner.events if event.startswith("commit")] == list("abcd")


@pytest.mark.parametrize("where", ["start a", "commit a"])
async def test_an_owner_that_fails_a_lone_call_ends_the_lane(where: str) -> None:
    # HOST-160
    async with app() as ctx:
        owner = Owner()
        owner.fail_on = where
        register(ctx, owner.events)
        running = Running(ctx, owner)
        async with running:
            running.submit("a", "par", 20)
            if where == "commit a":
                await asyncio.sleep(0.005)
                running.submit("b", "par", 40)
                await asyncio.sleep(0.005)
            running.submit("c", "exc", 1)
        with pytest.raises(RuntimeError, match="the log is full"):
            running.work.result()
        assert "abandon c" in owner.events
        assert "begin c" not in owner.events
        if where == "commit a":
            assert "end b" in owner.events


async def test_an_abort_ends_a_lone_call_in_order() -> None:
    # CODE-116, 117
    async with app() as ctx:
        owner = Owner()
        register(ctx, owner.events)
        controller = AbortController()
        async with Running(ctx, owner, controller.signal) as running:
            running.submit("a", "par", 60_000)
            await asyncio.sleep(0.005)
            running.submit("x", "exc", 1)
            controller.abort("stop")
            running.submit("late", "par", 1)
        assert owner.events == [
            "start a",
            "begin a",
            "abandon x",
            "abandon late",
            "end a",
            "commit a Error: tool call aborted",
        ]


@pytest.mark.parametrize("when", ["at once", "first step", "body", "policy"])
async def test_cancelling_the_lane_settles_a_lone_call(when: str) -> None:
    # D30
    async with app() as ctx:
        owner = Owner()
        register(ctx, owner.events)
        if when == "policy":

            async def pre(execution: Any, next: Any) -> Any:
                await asyncio.sleep(60)
                return await next()

            ctx.on("tools/pre-execute", pre)
        running = Running(ctx, owner)
        async with running:
            if when == "at once":
                running.work.cancel()
            running.submit("a", "par", 60_000)
            if when != "at once":
                await asyncio.sleep(0 if when == "first step" else 0.01)
                running.work.cancel()
        assert running.work.cancelled()
        if when == "at once":
            assert owner.events == ["abandon a"]
        else:
            assert [event for event in owner.events if event.startswith(("start", "commit"))][0] == "start a"
            assert owner.events[-1].startswith("commit a Error: tool call aborted")


async def test_a_lone_call_that_is_refused_commits_at_once() -> None:
    # CODE-96
    async with app() as ctx:
        owner = Owner()
        async with Running(ctx, owner) as running:
            running.submit("a", "nobody")
        assert owner.events[0] == "start a"
        assert owner.events[1].startswith('commit a Error: unknown tool "nobody"')


async def test_any_arrival_commits_in_order() -> None:
    # CODE-98, 100, 103: whatever comes when, starts and commits are in the order of submission
    random.seed(7)
    async with app() as ctx:
        for _ in range(30):
            owner = Owner()
            events: list[str] = []
            for name in ("par", "exc", "quick"):
                definition = ctx.tools.get(name)
                assert definition is None
            scope = ctx.create_scope("round")
            register(scope, events)
            tags = [str(number) for number in range(12)]
            lane: CallLane[str] = CallLane(ctx.tools, owner, max_parallel=lambda: 3, signal=NEVER)
            work = asyncio.ensure_future(lane.run())
            for tag in tags:
                tool = random.choice(["par", "exc", "quick", "par"])
                lane.submit(ToolCall(tool, {"ms": random.choice([0, 0, 1, 2])}, call_id=tag, agent=scope), tag)
                await asyncio.sleep(random.choice([0, 0, 0.001, 0.003]))
            lane.close()
            await work
            assert [event.split()[1] for event in owner.events if event.startswith("start")] == tags
            assert [event.split()[1] for event in owner.events if event.startswith("commit")] == tags
            await scope.dispose()
