"""Calls that wait for a person: suspended on their way, without a result, and nothing of them left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from tests.support.agents import LoneAgent
from tests.support.calls import Body, app, make_tool, text_of

from dsh_tools import EXECUTE, PRE_EXECUTE, Ask, Deny
from dsh_tools.errors import CallSuspended, SessionError
from dsh_tools.kernel.abort import NEVER, AbortController
from dsh_tools.pipeline import CallLane, Slot
from dsh_tools.services import ApprovalAnswer
from dsh_tools.tools import TOOL_RESULT, TOOL_SUSPENDED, ToolCall, ToolExecution, ToolResult


class Kept:
    """Who keeps a call's state, and notes when its body begins."""

    def __init__(self, failure: Exception | None = None, *, is_resumed: bool = False) -> None:
        self.call_key = 0
        self.is_resumed = is_resumed
        self.begun: list[str] = []
        self.has_begun = False
        self._failure = failure

    def begin(self, execution: ToolExecution) -> Awaitable[None] | None:
        if self._failure is not None:
            raise self._failure
        self.begun.append(execution.call_id)
        self.has_begun = True
        return asyncio.sleep(0)


class Nobody:
    """An approval service where nobody answers."""

    async def request(self, **_fields: Any) -> Any:
        raise CallSuspended("q1")


async def asking(execution: ToolExecution, proceed: Any) -> Any:
    return Ask() if execution.name == "pay" else await proceed()


async def test_a_durable_call_is_suspended_in_its_policy():
    # D34: no result, no observer of results, and a token that authorises nothing any more.
    body = Body()
    seen: list[tuple[str, ToolExecution]] = []
    async with app() as ctx:
        ctx.tools.register(make_tool("pay", body))
        ctx.provide("approval", Nobody())
        ctx.on(PRE_EXECUTE, asking)
        ctx.on(TOOL_SUSPENDED, lambda execution: seen.append(("suspended", execution)))
        ctx.on(TOOL_RESULT, lambda execution, _result: seen.append(("result", execution)))
        with pytest.raises(CallSuspended) as caught:
            await ctx.tools.execute(ToolCall("pay", {}, agent=LoneAgent(), durable=Kept()))
        assert caught.value.question_id == "q1"
        ((what, execution),) = seen
        assert what == "suspended"
        assert not execution.token.is_live_in(ctx.tools.service)
    assert body.calls == []


class Remembering:
    """An approval service that knows what was answered in an earlier turn, and notes when it is looked up."""

    def __init__(self, answer: ApprovalAnswer | Exception | None) -> None:
        self.looked: list[str] = []
        self._answer = answer

    async def request(self, **_fields: Any) -> Any:
        raise AssertionError("nobody is asked")

    def look_back(self, *, execution: ToolExecution, agent: object) -> ApprovalAnswer | None:
        self.looked.append(execution.call_id)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ApprovalAnswer("rejected", "never"), 'Error: the user rejected tool "pay"\nnever'),
        (SessionError("the log is full"), "Error: the log is full"),
        (None, None),
    ],
)
async def test_what_was_answered_about_a_resumed_call_is_looked_up(answer: Any, said: str | None, guarded: bool):
    # D34: also where no listener and no guard looks at the call any more.
    body = Body()
    async with app() as ctx:
        ctx.tools.register(make_tool("pay", body))
        approver = Remembering(answer)
        ctx.provide("approval", approver)
        if guarded:
            ctx.tools.guard(lambda _execution: None)
        result = await ctx.tools.execute(
            ToolCall("pay", {}, call_id="c7", agent=LoneAgent(), durable=Kept(is_resumed=True))
        )
    assert approver.looked == ["c7"]
    assert (text_of(result) if result.is_error else None) == said
    assert bool(body.calls) is (said is None)


async def test_nothing_is_looked_up_for_calls_that_are_new():
    async with app() as ctx:
        ctx.tools.register(make_tool("t"))
        approver = Remembering(ApprovalAnswer("rejected"))
        ctx.provide("approval", approver)
        ctx.tools.guard(lambda _execution: None)
        for durable in (None, Kept()):
            assert not (await ctx.tools.execute(ToolCall("t", {}, agent=LoneAgent(), durable=durable))).is_error
        # Nobody can look where there is no agent to look for.
        assert not (await ctx.tools.execute(ToolCall("t", {}, durable=Kept(is_resumed=True)))).is_error
    assert approver.looked == []


async def test_without_an_approval_service_a_resumed_call_goes_by_the_rules():
    async with app() as ctx:
        ctx.tools.register(make_tool("t"))
        call = ToolCall("t", {}, agent=LoneAgent(), durable=Kept(is_resumed=True))
        assert not (await ctx.tools.execute(call)).is_error


async def test_a_denial_by_the_rules_comes_before_an_earlier_refusal():
    async with app() as ctx:
        ctx.tools.register(make_tool("pay"))
        approver = Remembering(ApprovalAnswer("rejected"))
        ctx.provide("approval", approver)
        ctx.on(PRE_EXECUTE, lambda _execution, _proceed: Deny("closed"))
        call = ToolCall("pay", {}, call_id="c7", agent=LoneAgent(), durable=Kept(is_resumed=True))
        assert text_of(await ctx.tools.execute(call)) == "Error: closed"
    assert approver.looked == ["c7"]


async def test_wrappers_that_catch_exceptions_let_a_suspension_through():
    caught: list[str] = []

    async def wrapper(_execution: Any, proceed: Any) -> Any:
        try:
            return await proceed()
        except Exception as error:
            caught.append(type(error).__name__)
            raise
        finally:
            caught.append("unwound")

    async with app() as ctx:
        ctx.tools.register(make_tool("t", Body(CallSuspended("q"))))
        ctx.on(EXECUTE, wrapper)
        with pytest.raises(CallSuspended):
            await ctx.tools.execute(ToolCall("t", {}, durable=Kept()))
    assert caught == ["unwound"]


async def test_a_body_of_a_call_that_nobody_keeps_cannot_suspend_it():
    async with app() as ctx:
        ctx.tools.register(make_tool("t", Body(CallSuspended("q"))))
        result = await ctx.tools.execute(ToolCall("t", {}))
        assert result.is_error
        assert "waits for the answer to question q" in result.error.message


async def test_what_is_to_be_noted_is_noted_before_the_body():
    kept = Kept()
    async with app() as ctx:
        ctx.tools.register(make_tool("t", lambda _args, run: list(kept.begun)))
        result = await ctx.tools.execute(ToolCall("t", {}, call_id="c7", durable=kept))
        assert not result.is_error
        assert result.value == ["c7"]
        body = Body()
        ctx.tools.register(make_tool("u", body))
        refused = await ctx.tools.execute(ToolCall("u", {}, durable=Kept(SessionError("the disk is full"))))
        assert refused.is_error
        assert "the disk is full" in refused.error.message
        assert body.calls == []


class Owner:
    """Notes what a lane tells it."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def starting(self, slot: Slot[None]) -> None:
        self.told.append(f"start {slot.call.call_id}")

    async def committed(self, slot: Slot[None], result: ToolResult) -> None:
        self.told.append(f"commit {slot.call.call_id}")

    def abandoned(self, slot: Slot[None]) -> None:
        self.told.append(f"abandon {slot.call.call_id}")


@pytest.mark.parametrize("late", [False, True])
async def test_a_lane_finishes_what_runs_and_starts_nothing_more(late: bool):
    # Also where the call that waits comes to a lane that was idle, and the rest while it is in policy.
    owner = Owner()
    async with app() as ctx:

        async def slowly(_args: Any, _run: Any) -> str:
            await asyncio.sleep(0.02)
            return "done"

        ctx.tools.register(make_tool("look", slowly, is_concurrency_safe=lambda _args: True))
        ctx.tools.register(make_tool("pay", Body(), is_concurrency_safe=lambda _args: True))
        ctx.provide("approval", Nobody())
        ctx.on(PRE_EXECUTE, asking)
        lane: CallLane[None] = CallLane(ctx.tools, owner, max_parallel=lambda: 4, signal=NEVER)

        def submit(name: str, call_id: str) -> None:
            lane.submit(ToolCall(name, {}, call_id=call_id, agent=LoneAgent(), durable=Kept()), None)

        work = asyncio.create_task(lane.run())
        if late:
            await asyncio.sleep(0.001)
        for name, call_id in (("look", "a"), ("look", "b"), ("pay", "c"), ("look", "d")):
            submit(name, call_id)
        await asyncio.wait_for(work, 5)
        assert lane.suspended is not None
        assert lane.suspended.call.call_id == "c"
        submit("look", "e")
        await asyncio.sleep(0)
    assert owner.told == ["start a", "start b", "start c", "abandon d", "commit a", "commit b"]


async def test_a_lone_call_can_be_the_one_that_waits():
    owner = Owner()
    async with app() as ctx:
        ctx.tools.register(make_tool("pay", Body()))
        ctx.provide("approval", Nobody())
        ctx.on(PRE_EXECUTE, asking)
        lane: CallLane[None] = CallLane(ctx.tools, owner, max_parallel=lambda: 4, signal=NEVER)
        work = asyncio.create_task(lane.run())
        await asyncio.sleep(0.001)
        lane.submit(ToolCall("pay", {}, call_id="a", agent=LoneAgent(), durable=Kept()), None)
        await asyncio.wait_for(work, 5)
        assert lane.suspended is not None
    assert owner.told == ["start a"]


@pytest.mark.parametrize("stage", ["policy", "wrapper", "body"])
@pytest.mark.parametrize("durable", [True, False])
async def test_a_caller_that_leaves_a_call_waiting_suspends_what_has_not_begun(durable: bool, stage: str):
    # D34: instead of an aborted result; a body that has begun is aborted as always, and so is a call that nobody keeps.
    controller = AbortController()
    left = CallSuspended()
    suspended: list[ToolExecution] = []

    async def leave(execution: ToolExecution, proceed: Any = None) -> Any:
        controller.abort(left)
        return "" if proceed is None else await proceed()

    async def body(_args: Any, run: Any) -> str:
        return await leave(run) if stage == "body" else ""

    async with app() as ctx:
        ctx.tools.register(make_tool("pay", body))
        if stage != "body":
            ctx.on(PRE_EXECUTE if stage == "policy" else EXECUTE, leave)
        ctx.on(TOOL_SUSPENDED, suspended.append)
        kept = Kept() if durable else None
        call = ToolCall("pay", {}, agent=LoneAgent(), signal=controller.signal, durable=kept)
        if durable and stage != "body":
            with pytest.raises(CallSuspended) as caught:
                await ctx.tools.execute(call)
            assert caught.value is left
            assert len(suspended) == 1
        else:
            result = await ctx.tools.execute(call)
            assert result.is_error
            assert "aborted" in text_of(result)
            assert suspended == []
