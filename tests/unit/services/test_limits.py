"""Limits on calls: waiting, denying, and never standing in one's own way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pydantic
import pytest
from tests.support.agents import LoneAgent

from dsh_tools.content import content_text
from dsh_tools.kernel.abort import AbortController
from dsh_tools.kernel.context import Context
from dsh_tools.services import LimitsPlugin, TimeoutPlugin
from dsh_tools.tools.events import PRE_EXECUTE
from dsh_tools.tools.execution import ToolCall
from dsh_tools.tools.result import ErrorInfo, ToolFailure, ToolSuccess

LIMITED = ErrorInfo("RateLimitError", "RATE_LIMITED")


class Busy:
    """A body that counts how many of it run."""

    def __init__(self, seconds: float = 0.01) -> None:
        self.seconds = seconds
        self.running = 0
        self.most = 0
        self.runs = 0

    async def __call__(self, args: Any, run: Any) -> str:
        self.runs += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.running -= 1
        return "done"


async def limit(ctx: Context, **fields: Any) -> None:
    await ctx.plugin(LimitsPlugin(), {"limits": [fields]})


async def calls(ctx: Context, count: int, name: str = "work", agent: Any = None) -> list[Any]:
    return await asyncio.gather(*(ctx.tools.execute(ToolCall(name, agent=agent)) for _ in range(count)))


async def test_calls_wait_for_their_turn(app: Context, register: Callable[..., None]):
    await limit(app, tool="work", max_concurrent=2)
    body, free = Busy(), Busy()
    register(body)
    register(free, "free")
    results = await calls(app, 7)
    assert [type(result) for result in results] == [ToolSuccess] * 7
    assert (body.runs, body.most) == (7, 2)
    await calls(app, 5, "free")
    assert free.most == 5


async def test_a_limit_counts_all_the_tools_that_it_matches(app: Context, register: Callable[..., None]):
    await limit(app, tool="web_*", max_concurrent=1)
    body = Busy()
    for name in ("web_search", "web_fetch"):
        register(body, name)
    await asyncio.gather(calls(app, 2, "web_search"), calls(app, 2, "web_fetch"))
    assert (body.runs, body.most) == (4, 1)


async def test_what_is_too_much_can_be_denied(app: Context, register: Callable[..., None]):
    await limit(app, tool="work", max_concurrent=1, when_exceeded="deny")
    body = Busy()
    register(body)
    first, second = await calls(app, 2)
    assert isinstance(first, ToolSuccess)
    assert isinstance(second, ToolFailure)
    assert second.error.info == LIMITED
    assert content_text(second.content) == (
        'Error: tool "work" may run 1 times at once; try again when a call has ended'
    )
    assert body.runs == 1
    assert isinstance((await calls(app, 1))[0], ToolSuccess)


async def test_a_rate_can_be_denied_with_the_time_to_wait(app: Context, register: Callable[..., None]):
    await limit(app, max_calls=2, per_ms=60_000, when_exceeded="deny")
    body = Busy(0)
    register(body)
    results = await calls(app, 3)
    assert [result.is_error for result in results] == [False, False, True]
    assert "may be called 2 times in 60000ms; try again in " in content_text(results[2].content)


async def test_a_rate_is_waited_for(app: Context, register: Callable[..., None]):
    await limit(app, max_calls=2, per_ms=50)
    body = Busy(0)
    register(body)
    began = asyncio.get_running_loop().time()
    results = await calls(app, 5)
    assert all(isinstance(result, ToolSuccess) for result in results)
    assert 0.095 <= asyncio.get_running_loop().time() - began < 1


async def test_waiting_has_an_end(app: Context, register: Callable[..., None]):
    await limit(app, max_concurrent=1, max_wait_ms=10)
    register(Busy(0.1))
    first, second = await calls(app, 2)
    assert isinstance(first, ToolSuccess)
    assert second.error.info == LIMITED


@pytest.mark.parametrize("how", ["signal", "task"])
async def test_whoever_waits_can_give_up(app: Context, register: Callable[..., None], how: str):
    await limit(app, max_concurrent=1)
    body = Busy(0.05)
    register(body)
    caller = AbortController()
    first = asyncio.create_task(app.tools.execute(ToolCall("work")))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(app.tools.execute(ToolCall("work", signal=caller.signal)))
    await asyncio.sleep(0.01)
    if how == "signal":
        caller.abort()
        result = await second
        assert isinstance(result, ToolFailure)
        assert result.error.info == ErrorInfo("AbortError", "ABORTED_BEFORE_DISPATCH")
    else:
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
    await first
    assert body.runs == 1
    assert isinstance((await calls(app, 1))[0], ToolSuccess)


async def test_each_agent_can_have_its_own_count(app: Context, register: Callable[..., None]):
    await limit(app, max_concurrent=1, per_agent=True)
    body = Busy()
    register(body)
    agents = [LoneAgent(), LoneAgent()]
    await asyncio.gather(*(calls(app, 3, agent=agent) for agent in agents), calls(app, 3))
    assert body.most == 3


async def test_a_call_on_behalf_of_a_limited_one_does_not_wait_for_it(app: Context, register: Callable[..., None]):
    await limit(app, tool="work", max_concurrent=1)

    async def nested(args: Any, run: Any) -> str:
        if run.parent is None:
            inner = await app.tools.execute(ToolCall("between", parent=run.token))
            return f"outer of {inner.value}"
        return "inner"

    async def between(args: Any, run: Any) -> str:
        return (await app.tools.execute(ToolCall("work", parent=run.token))).value

    register(nested)
    register(between, "between")
    async with asyncio.timeout(5):
        results = await calls(app, 2)
    assert [result.value for result in results] == ["outer of inner"] * 2


async def test_waiting_does_not_use_up_the_time_limit(app: Context, register: Callable[..., None]):
    await app.plugin(TimeoutPlugin())
    await limit(app, max_concurrent=1)
    register(Busy(0.06), timeout_ms=100)
    assert all(isinstance(result, ToolSuccess) for result in await calls(app, 4))


async def test_whoever_waits_for_approval_holds_no_place(app: Context, register: Callable[..., None]):
    await limit(app, max_concurrent=1)
    asking, answer = asyncio.Event(), asyncio.Event()

    async def ask(execution: Any, next: Any) -> Any:
        if execution.call_id == "slow":
            asking.set()
            await answer.wait()
        return await next()

    app.on(PRE_EXECUTE, ask)
    register(Busy(0))
    slow = asyncio.create_task(app.tools.execute(ToolCall("work", call_id="slow")))
    await asking.wait()
    assert isinstance((await calls(app, 1))[0], ToolSuccess)
    answer.set()
    assert isinstance(await slow, ToolSuccess)


async def test_a_failing_body_gives_its_place_back(app: Context, register: Callable[..., None]):
    await limit(app, max_concurrent=1)

    async def fail(args: Any, run: Any) -> str:
        raise RuntimeError("boom")

    register(fail)
    assert [content_text(result.content) for result in await calls(app, 3)] == ["Error: boom"] * 3


async def test_when_the_plugin_goes_everybody_goes_through(app: Context, register: Callable[..., None]):
    fiber = app.plugin(LimitsPlugin(), {"limits": [{"max_concurrent": 1}]})
    await fiber
    body = Busy(0.05)
    register(body)
    running = asyncio.create_task(calls(app, 4))
    await asyncio.sleep(0.01)
    await fiber.dispose()
    await running
    assert body.most == 4


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"max_concurrent": 0},
        {"max_concurrent": 1.5},
        {"max_calls": 1, "per_ms": 0},
        {"max_calls": 1, "max_wait_ms": -1},
        {"max_calls": 1, "when_exceeded": "explode"},
        {"max_calls": 1, "tool": "a\\"},
        {"max_calls": 1, "unknown": 1},
    ],
)
async def test_wrong_limits_are_load_errors(app: Context, fields: dict[str, Any]):
    with pytest.raises(pydantic.ValidationError):
        await limit(app, **fields)
