"""What an answer is bound to: a grant for other rules, arguments, calls or sessions is no grant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.agents import LoggedAgent, LoneAgent
from tests.support.calls import Body, make_tool, text_of

from dsh_tools.errors import ApprovalError
from dsh_tools.json_value import digest
from dsh_tools.kernel import Context, create_context
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.services import ApprovalAnswer, ApprovalPlugin, ApprovalRequest, PolicyPlugin, always, open_questions
from dsh_tools.services.approval import Binding
from dsh_tools.tools import ToolCall

ASK: dict[str, Any] = {"default": "ask"}
STRICTER: dict[str, Any] = {"default": "ask", "rules": [{"tool": "w", "arguments": {"n": 1}, "action": "deny"}]}


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with create_context() as context:
        await context.plugin(ToolsPlugin())
        await context.plugin(ApprovalPlugin())
        yield context


class Policy:
    """The policy plugin, and another one in its place when the rules change."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._fiber: Any = None

    async def put(self, config: dict[str, Any]) -> None:
        if self._fiber is not None:
            await self._fiber.dispose()
        self._fiber = self._ctx.plugin(PolicyPlugin(), config)
        await self._fiber


async def pending(ctx: Context, count: int = 1) -> ApprovalRequest:
    while len(ctx.approval.pending) < count:
        await asyncio.sleep(0)
    return ctx.approval.pending[-1]


def questions(agent: LoggedAgent) -> list[tuple[str, Any]]:
    """Each question's digest of rules, and how it ended."""
    asked = {data["id"]: data.get("policyDigest") for _, data in agent.events("approval/asked")}  # type: ignore[index, union-attr, attr-defined]
    decided = {data["id"]: data["outcome"] for _, data in agent.events("approval/decided")}  # type: ignore[index]
    return [(policy, decided.get(id)) for id, policy in asked.items()]


# ── the rules ──────────────────────────────────────────────────────────────────


async def test_a_question_carries_the_digest_of_the_rules(ctx: Context):
    await Policy(ctx).put(ASK)
    ctx.approval.answer_with(always("allowed-once"))
    ctx.tools.register(make_tool("w"))
    agent = LoggedAgent()
    await ctx.tools.execute(ToolCall("w", {}, agent=agent))
    assert questions(agent) == [(ctx.tools.policy_digest(), "allowed-once")]


async def test_a_grant_under_older_rules_is_refused_and_the_question_put_again(ctx: Context):
    body = Body()
    policy = Policy(ctx)
    await policy.put(ASK)
    ctx.approval.open_desk()
    ctx.tools.register(make_tool("w", body))
    agent = LoggedAgent()
    task = asyncio.create_task(ctx.tools.execute(ToolCall("w", {"n": 2}, agent=agent)))
    first = await pending(ctx)
    before = ctx.tools.policy_digest()
    await policy.put(STRICTER)
    with pytest.raises(ApprovalError, match="rules changed before the answer came") as refused:
        ctx.approval.answer(first.id, "allowed-once")
    assert refused.value.code == "STALE_ANSWER"
    while not ctx.approval.pending or ctx.approval.pending[-1].id == first.id:
        await asyncio.sleep(0)
    second = await pending(ctx)
    assert (second.arguments, second.policy_digest) == ({"n": 2}, ctx.tools.policy_digest())
    assert body.calls == []
    assert ctx.approval.answer(second.id, "allowed-once")
    assert not (await task).is_error
    assert questions(agent) == [(before, "cancelled"), (ctx.tools.policy_digest(), "allowed-once")]
    reasons = [data.get("reason") for _, data in agent.events("approval/decided")]  # type: ignore[attr-defined]
    assert reasons == ["the rules changed before the answer came; it does not count", None]


async def test_what_the_new_rules_deny_stays_denied_whatever_the_second_answer(ctx: Context):
    body = Body()
    policy = Policy(ctx)
    await policy.put(ASK)
    ctx.tools.register(make_tool("w", body))
    asked: list[str] = []

    async def answer(request: ApprovalRequest) -> str:
        asked.append(request.id)
        if len(asked) == 1:
            await policy.put(STRICTER)
        return "allowed-once"

    ctx.approval.answer_with(answer)  # type: ignore[arg-type]
    result = await ctx.tools.execute(ToolCall("w", {"n": 1}, agent=LoggedAgent()))
    assert len(asked) == 2
    assert "denied by policy" in text_of(result)
    assert body.calls == []


async def test_a_refusal_stands_whatever_the_rules(ctx: Context):
    policy = Policy(ctx)
    await policy.put(ASK)
    ctx.approval.open_desk()
    ctx.tools.register(make_tool("w"))
    agent = LoggedAgent()
    task = asyncio.create_task(ctx.tools.execute(ToolCall("w", {}, agent=agent)))
    first = await pending(ctx)
    await policy.put(STRICTER)
    assert ctx.approval.answer(first.id, "rejected", "no")
    assert text_of(await task) == 'Error: the user rejected tool "w"\nno'
    assert len(questions(agent)) == 1


async def test_rules_that_change_with_every_answer_end_in_no(ctx: Context):
    policy = Policy(ctx)
    await policy.put(ASK)
    ctx.tools.register(make_tool("w"))
    asked: list[str] = []

    async def answer(request: ApprovalRequest) -> str:
        asked.append(request.id)
        await policy.put({**ASK, "rules": [{"tool": f"x{len(asked)}", "action": "deny"}]})
        return "allowed-once"

    ctx.approval.answer_with(answer)  # type: ignore[arg-type]
    agent = LoggedAgent()
    result = await ctx.tools.execute(ToolCall("w", {}, agent=agent))
    assert result.is_error
    assert "no approval channel is available" in text_of(result)
    assert [outcome for _, outcome in questions(agent)] == ["cancelled"] * 3


async def test_the_same_rules_mounted_again_are_the_same_rules(ctx: Context):
    policy = Policy(ctx)
    await policy.put(ASK)
    ctx.approval.open_desk()
    ctx.tools.register(make_tool("w"))
    task = asyncio.create_task(ctx.tools.execute(ToolCall("w", {}, agent=LoggedAgent())))
    first = await pending(ctx)
    await policy.put(dict(ASK))
    assert ctx.approval.answer(first.id, "allowed-once")
    assert not (await task).is_error


async def test_other_plugins_declare_their_rules_as_well(ctx: Context):
    await Policy(ctx).put(ASK)
    ctx.approval.open_desk()
    ctx.tools.register(make_tool("w"))
    task = asyncio.create_task(ctx.tools.execute(ToolCall("w", {}, agent=LoggedAgent())))
    first = await pending(ctx)
    withdraw = ctx.tools.declare_policy("budget", {"most": 5})
    with pytest.raises(ApprovalError):
        ctx.approval.answer(first.id, "allowed-once")
    await asyncio.sleep(0)
    withdraw()
    second = await pending(ctx)
    assert second.id != first.id
    ctx.approval.answer(second.id, "rejected")
    await task


async def test_a_remembered_grant_is_forgotten_with_its_rules(ctx: Context):
    # D33
    policy = Policy(ctx)
    await policy.put(ASK)
    ctx.tools.register(make_tool("w"))
    asked: list[str] = []

    def answer(request: ApprovalRequest) -> ApprovalAnswer:
        asked.append(request.id)
        return ApprovalAnswer("allowed-once", remember="tool")

    ctx.approval.answer_with(answer)
    for agent in (LoggedAgent(), LoneAgent()):
        asked.clear()
        await policy.put(ASK)
        for _ in range(2):
            assert not (await ctx.tools.execute(ToolCall("w", {"n": 2}, agent=agent))).is_error
        assert len(asked) == 1
        await policy.put(STRICTER)
        assert not (await ctx.tools.execute(ToolCall("w", {"n": 2}, agent=agent))).is_error
        assert len(asked) == 2


async def test_a_remembered_refusal_outlives_its_rules(ctx: Context):
    policy = Policy(ctx)
    await policy.put(ASK)
    ctx.tools.register(make_tool("w"))
    asked: list[str] = []

    def answer(request: ApprovalRequest) -> ApprovalAnswer:
        asked.append(request.id)
        return ApprovalAnswer("rejected", remember="tool")

    ctx.approval.answer_with(answer)
    agent = LoggedAgent()
    await ctx.tools.execute(ToolCall("w", {}, agent=agent))
    await policy.put(STRICTER)
    assert (await ctx.tools.execute(ToolCall("w", {}, agent=agent))).is_error
    assert len(asked) == 1


# ── arguments, calls, sessions ─────────────────────────────────────────────────


async def test_an_open_question_says_what_it_is_bound_to(ctx: Context):
    await Policy(ctx).put(ASK)
    ctx.approval.open_desk()
    ctx.tools.register(make_tool("w"))
    agent = LoggedAgent(session="s9")
    task = asyncio.create_task(ctx.tools.execute(ToolCall("w", {"n": 1}, "c7", agent=agent)))
    request = await pending(ctx)
    (asked,) = open_questions(agent.session.events)
    assert Binding.of_question("s9", asked) == Binding("s9", "w", "c7", digest({"n": 1}), ctx.tools.policy_digest())
    ctx.approval.answer(request.id, "rejected")
    await task
    asked = type(asked)(id="q", tool_name="w")
    assert Binding.of_question(None, asked) == Binding(None, "w", None, None, None)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("session", "s2", "in session s1, not in s2"),
        ("call_id", "c2", 'for call "c1", not for "c2"'),
        ("tool_name", "v", 'for tool "w", not for "v"'),
        ("arguments_digest", "b" * 64, f"other arguments: {'a' * 12} was shown, {'b' * 12} would run"),
        ("arguments_digest", None, f"other arguments: {'a' * 12} was shown, none would run"),
        ("policy_digest", "d" * 64, f"other rules: {'c' * 12} was in force, {'d' * 12} is now"),
        ("policy_digest", None, f"other rules: {'c' * 12} was in force, none is now"),
    ],
)
def test_an_answer_for_something_else_is_refused_with_the_reason(field: str, value: Any, said: str):
    fields = {
        "session": "s1",
        "tool_name": "w",
        "call_id": "c1",
        "arguments_digest": "a" * 64,
        "policy_digest": "c" * 64,
    }
    bound = Binding(**fields)
    assert bound.refusal(Binding(**fields)) is None
    refusal = bound.refusal(Binding(**{**fields, field: value}))
    assert refusal is not None
    assert said in refusal


async def test_an_answer_to_other_arguments_than_were_shown_is_refused_and_the_question_stays(ctx: Context):
    await Policy(ctx).put(ASK)
    ctx.approval.open_desk()
    ctx.tools.register(make_tool("w"))
    task = asyncio.create_task(ctx.tools.execute(ToolCall("w", {"n": 1}, agent=LoggedAgent())))
    request = await pending(ctx)
    with pytest.raises(ApprovalError, match="other arguments") as refused:
        ctx.approval.answer(request.id, "allowed-once", digest=digest({"n": 2}))
    assert refused.value.code == "OTHER_ARGUMENTS"
    assert ctx.approval.answer(request.id, "allowed-once", digest=digest({"n": 1}))
    assert not (await task).is_error


async def test_who_answered_is_in_the_log(ctx: Context):
    await Policy(ctx).put(ASK)
    ctx.tools.register(make_tool("w"))

    async def passes(request: Any, next: Any) -> Any:
        return await next()

    def clerk(request: ApprovalRequest) -> ApprovalAnswer | None:
        return ApprovalAnswer("allowed-once", by="clerk 7") if request.arguments["n"] == 1 else None

    ctx.on("approval/request", passes)
    ctx.approval.answer_with(clerk)
    agent = LoggedAgent()
    await ctx.tools.execute(ToolCall("w", {"n": 1}, agent=agent))
    remove = ctx.approval.answer_with(lambda request: "rejected")
    await ctx.tools.execute(ToolCall("w", {"n": 2}, agent=agent))
    remove()
    ctx.approval.open_desk()
    task = asyncio.create_task(ctx.tools.execute(ToolCall("w", {"n": 3}, agent=agent)))
    ctx.approval.answer((await pending(ctx)).id, "rejected")
    await task
    by = [data.get("by") for _, data in agent.events("approval/decided")]  # type: ignore[attr-defined]
    assert by[0] == "clerk 7"
    assert by[1].endswith("test_who_answered_is_in_the_log.<locals>.<lambda>")
    assert by[2] == "desk"
