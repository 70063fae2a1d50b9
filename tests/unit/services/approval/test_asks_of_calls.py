"""What becomes of a call that has to be approved: the pipeline and the service together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.agents import LoggedAgent, LoneAgent

from dsh_tools.content import content_text
from dsh_tools.kernel.abort import AbortController
from dsh_tools.kernel.context import Context
from dsh_tools.services import ApprovalAnswer, ApprovalPlugin, ApprovalRequest
from dsh_tools.tools.events import EXECUTE, POST_EXECUTE, PRE_EXECUTE, Ask
from dsh_tools.tools.execution import ToolCall
from dsh_tools.tools.result import ErrorInfo, ToolSuccess


async def answer(args: Any, run: Any) -> str:
    return "ran"


@pytest.fixture
def ctx(app: Context, register: Callable[..., None]) -> Context:
    register(answer)
    app.on(PRE_EXECUTE, lambda execution, next: Ask("because"))
    return app


async def test_without_the_service_an_ask_is_a_denial(ctx: Context):
    # HOST-91
    result = await ctx.tools.execute(ToolCall("work", agent=LoneAgent()))
    assert content_text(result.content) == "Error: because"


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ("rejected", 'Error: the user rejected tool "work"\nnot today'),
        ("cancelled", 'Error: approval for tool "work" was cancelled\nnot today'),
        ("unavailable", 'Error: tool "work" requires approval, but no approval channel is available\nnot today'),
    ],
)
async def test_each_refusal_has_its_own_words_and_no_code(ctx: Context, outcome: Any, text: str):
    # HOST-91, D43
    await ctx.plugin(ApprovalPlugin())
    ctx.approval.answer_with(lambda request: ApprovalAnswer(outcome, "not today"))
    reviewed: list[str] = []

    async def review(review: Any, next: Any) -> Any:
        reviewed.append(review.execution.name)
        return await next()

    ctx.on(POST_EXECUTE, review)
    result: Any = await ctx.tools.execute(ToolCall("work", agent=LoneAgent()))
    assert content_text(result.content) == text
    assert not result.error.info
    # HOST-92: a denial is reviewed
    assert reviewed == ["work"]


async def test_a_call_without_agent_asks_nobody(ctx: Context):
    # HOST-91
    await ctx.plugin(ApprovalPlugin())
    asked: list[ApprovalRequest] = []
    ctx.approval.answer_with(lambda request: asked.append(request))
    result = await ctx.tools.execute(ToolCall("work"))
    assert "has no agent to route it through" in content_text(result.content)
    assert asked == []


async def test_a_grant_still_meets_the_guards(ctx: Context):
    # HOST-92
    await ctx.plugin(ApprovalPlugin())
    ctx.approval.answer_with(lambda request: "allowed-once")
    assert isinstance(await ctx.tools.execute(ToolCall("work", agent=LoneAgent())), ToolSuccess)
    ctx.tools.guard(lambda execution: "guarded")
    result = await ctx.tools.execute(ToolCall("work", agent=LoneAgent()))
    assert content_text(result.content) == "Error: guarded"


async def test_an_approval_that_raises_is_final(ctx: Context):
    # HOST-92, 83
    await ctx.plugin(ApprovalPlugin())
    reviewed: list[Any] = []
    ctx.on(POST_EXECUTE, lambda review, next: reviewed.append(review) or next())
    result = await ctx.tools.execute(ToolCall("work", agent=LoggedAgent(in_turn=False)))
    assert "outside an open turn" in content_text(result.content)
    assert reviewed == []


async def test_a_caller_that_gives_up_while_asked_is_aborted_and_not_denied(ctx: Context):
    # HOST-93
    await ctx.plugin(ApprovalPlugin())
    caller, asked = AbortController(), asyncio.Event()

    async def think(request: ApprovalRequest) -> str:
        assert request.signal is caller.signal
        asked.set()
        await asyncio.sleep(30)
        return "allowed-once"

    ctx.approval.answer_with(think)  # type: ignore[arg-type]
    agent = LoggedAgent()
    call = asyncio.create_task(ctx.tools.execute(ToolCall("work", agent=agent, signal=caller.signal)))
    await asked.wait()
    caller.abort()
    result: Any = await call
    assert result.error.info == ErrorInfo("AbortError", "ABORTED_BEFORE_DISPATCH")
    assert agent.events("approval/decided")[0][1]["outcome"] == "cancelled"  # type: ignore[index]


async def test_a_task_cancelled_while_asked_settles_first(ctx: Context):
    # D30, HOST-93
    await ctx.plugin(ApprovalPlugin())
    ctx.approval.open_desk()
    results: list[Any] = []
    ctx.on("tools/result", lambda execution, result: results.append(result))
    agent = LoggedAgent()
    call = asyncio.create_task(ctx.tools.execute(ToolCall("work", agent=agent)))
    while not ctx.approval.pending:
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [result.error.info.code for result in results] == ["ABORTED_BEFORE_DISPATCH"]
    assert [kind for kind, _ in agent.events("approval/")] == ["approval/asked", "approval/decided"]


async def test_what_a_wrapper_made_up_is_checked_and_what_it_raises_is_final(
    app: Context, register: Callable[..., None]
):
    # HOST-143
    register(answer, output={"schema": {"type": "string"}})
    reviewed: list[str] = []

    async def review(review: Any, next: Any) -> Any:
        reviewed.append(content_text(review.result.content))
        return await next()

    app.on(POST_EXECUTE, review)
    wrapper = app.on(EXECUTE, lambda execution, next: ToolSuccess("made up", ()))
    result = await app.tools.execute(ToolCall("work"))
    assert content_text(result.content) == "made up"
    wrapper()
    wrapper = app.on(EXECUTE, lambda execution, next: ToolSuccess(5, ()))
    assert "returned invalid output" in content_text((await app.tools.execute(ToolCall("work"))).content)
    wrapper()

    def fail(execution: Any, next: Any) -> Any:
        raise RuntimeError("wrapper")

    app.on(EXECUTE, fail)
    assert content_text((await app.tools.execute(ToolCall("work"))).content) == "Error: wrapper"
    assert reviewed == ["made up"]
