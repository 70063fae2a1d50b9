"""The approval service: outcomes, order of checks, the record, and who may answer."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from typing import Any

import pydantic
import pytest
from tests.support.agents import LoggedAgent, LoneAgent

from dsh_tools.content import content_text
from dsh_tools.errors import ApprovalError, SessionError
from dsh_tools.json_value import FrozenDict, digest
from dsh_tools.kernel.abort import AbortController
from dsh_tools.kernel.context import Context, create_context
from dsh_tools.services import (
    APPROVAL_ASKED,
    APPROVAL_DECIDED,
    APPROVAL_REQUEST,
    ApprovalAnswer,
    ApprovalPlugin,
    ApprovalRequest,
    always,
    open_questions,
    scripted,
)
from dsh_tools.session.events import ApprovalPolicy


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    context = create_context()
    await context.plugin(ApprovalPlugin())
    context.approval.use_remembered()
    yield context
    await context.dispose()


def answers_of(agent: LoggedAgent) -> list[Any]:
    return [data["outcome"] for kind, data in agent.events("approval/decided")]  # type: ignore[index]


# ── the record ────────────────────────────────────────────────────────────────


async def test_a_question_and_its_answer_are_in_the_log(ctx: Context):
    # HOST-82, 84
    agent = LoggedAgent()
    ctx.approval.answer_with(always("allowed-once"))
    arguments = {"path": "a", "n": 1}
    answer = await ctx.approval.ask(
        agent=agent, tool_name="write", call_id="c1", reason="it writes", arguments=arguments
    )
    assert answer == ApprovalAnswer("allowed-once")
    (asked_type, asked), (decided_type, decided) = agent.events("approval/")
    assert (asked_type, decided_type) == ("approval/asked", "approval/decided")
    assert asked == {
        "id": decided["id"],  # type: ignore[index]
        "toolName": "write",
        "callId": "c1",
        "reason": "it writes",
        "arguments": arguments,
        "argumentsDigest": digest({"n": 1, "path": "a"}),
    }
    answerer = "dsh_tools.services.approval.answerers.always.<locals>.<lambda>"
    assert decided == {"id": asked["id"], "outcome": "allowed-once", "by": answerer}  # type: ignore[index]


async def test_optionals_that_are_absent_are_left_out(ctx: Context):
    # HOST-84
    agent = LoggedAgent()
    await ctx.approval.ask(agent=agent, tool_name="write")
    (_, asked), (_, decided) = agent.events("approval/")
    assert set(asked) == {"id", "toolName"}  # type: ignore[call-overload]
    assert set(decided) == {"id", "outcome"}  # type: ignore[call-overload]


async def test_questions_are_never_messages(ctx: Context):
    # HOST-84
    agent = LoggedAgent()
    await ctx.approval.ask(agent=agent, tool_name="write")
    assert agent.session.derive_messages() == []


async def test_every_question_has_an_id_of_its_own(ctx: Context):
    # HOST-84
    agent = LoggedAgent()
    for _ in range(3):
        await ctx.approval.ask(agent=agent, tool_name="write")
    ids = [data["id"] for kind, data in agent.events("approval/asked")]  # type: ignore[index]
    assert len(set(ids)) == 3


async def test_outside_a_turn_nobody_is_asked_and_nothing_logged(ctx: Context):
    # HOST-83
    agent = LoggedAgent(in_turn=False)
    asked: list[object] = []
    ctx.approval.answer_with(lambda request: asked.append(request))
    with pytest.raises(ApprovalError, match="outside an open turn"):
        await ctx.approval.ask(agent=agent, tool_name="write")
    agent.start_turn()
    agent.end_turn()
    with pytest.raises(ApprovalError):
        await ctx.approval.ask(agent=agent, tool_name="write")
    assert asked == []
    assert agent.events("approval/") == []


async def test_an_agent_without_a_log_can_be_asked_about(ctx: Context):
    # HOST-83 speaks of logs; without one there is no turn to require
    ctx.approval.answer_with(always("allowed-once"))
    assert (await ctx.approval.ask(agent=LoneAgent(), tool_name="write")).outcome == "allowed-once"


async def test_a_question_that_cannot_be_logged_is_not_asked(ctx: Context):
    # HOST-85
    agent = LoggedAgent()
    asked: list[object] = []
    ctx.approval.answer_with(lambda request: asked.append(request))
    await agent.session.close()
    with pytest.raises(SessionError):
        await ctx.approval.ask(agent=agent, tool_name="write")
    assert asked == []


async def test_an_answer_that_cannot_be_logged_grants_nothing(ctx: Context):
    # HOST-85
    agent = LoggedAgent()

    async def close_and_allow(request: ApprovalRequest) -> str:
        await agent.session.close()
        return "allowed-once"

    ctx.approval.answer_with(close_and_allow)  # type: ignore[arg-type]
    with pytest.raises(SessionError):
        await ctx.approval.ask(agent=agent, tool_name="write")


async def test_an_observer_of_the_log_that_fails_changes_nothing(ctx: Context, caplog: pytest.LogCaptureFixture):
    # HOST-85
    agent = LoggedAgent()

    def fail(event: object) -> None:
        raise RuntimeError("observer")

    agent.session.observe(fail)
    ctx.approval.answer_with(always("allowed-once"))
    assert (await ctx.approval.ask(agent=agent, tool_name="write")).outcome == "allowed-once"
    assert answers_of(agent) == ["allowed-once"]


async def test_the_reason_and_the_scope_of_an_answer_are_recorded(ctx: Context):
    # D43
    agent = LoggedAgent()
    ctx.approval.answer_with(always("rejected", "not on a Friday"))
    await ctx.approval.ask(agent=agent, tool_name="write", arguments={})
    ctx.approval.answer_with(lambda request: ApprovalAnswer("allowed-once", remember="tool"), prepend=True)
    await ctx.approval.ask(agent=agent, tool_name="write", arguments={})
    decided = [data for kind, data in agent.events("approval/decided")]
    assert decided[0]["reason"] == "not on a Friday"  # type: ignore[index]
    assert decided[1]["remember"] == "tool"  # type: ignore[index]


# ── the order of the checks ───────────────────────────────────────────────────


async def test_a_caller_that_has_given_up_is_cancelled_unasked(ctx: Context):
    # HOST-86; the abort comes before the policy
    agent = LoggedAgent()
    asked: list[object] = []
    ctx.approval.answer_with(lambda request: asked.append(request))
    ctx.approval.set_policy(agent, "never")
    caller = AbortController()
    caller.abort()
    answer = await ctx.approval.ask(agent=agent, tool_name="write", signal=caller.signal)
    assert answer.outcome == "cancelled"
    assert asked == []
    assert answers_of(agent) == ["cancelled"]


async def test_never_rejects_past_every_answerer(no_leaks: None):
    # HOST-86: the policy is in the service's path, so a prepended answerer can't get round it
    async with create_context() as ctx:
        await ctx.plugin(ApprovalPlugin(), {"policy": "never"})
        ctx.on(APPROVAL_REQUEST, lambda request, next: ApprovalAnswer("allowed-once"), prepend=True)
        agent = LoggedAgent()
        answer = await ctx.approval.ask(agent=agent, tool_name="write")
        assert answer.outcome == "rejected"
        assert answers_of(agent) == ["rejected"]


async def test_without_an_answerer_nobody_is_available(ctx: Context):
    # HOST-86
    agent = LoggedAgent()
    assert (await ctx.approval.ask(agent=agent, tool_name="write")).outcome == "unavailable"
    assert answers_of(agent) == ["unavailable"]


async def test_answerers_are_asked_in_order_until_one_answers(ctx: Context):
    asked: list[str] = []

    def note(name: str, answer: Any) -> Any:
        def answerer(request: ApprovalRequest) -> Any:
            asked.append(name)
            return answer

        return answerer

    ctx.approval.answer_with(note("first", None))
    ctx.approval.answer_with(note("second", "rejected"))
    ctx.approval.answer_with(note("third", "allowed-once"))
    assert (await ctx.approval.ask(agent=LoneAgent(), tool_name="write")).outcome == "rejected"
    assert asked == ["first", "second"]


# ── failing answerers ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["sync", "async", "cancelled"])
async def test_an_answerer_that_fails_makes_it_unavailable(ctx: Context, kind: str):
    # HOST-87, PIPE-128
    async def fail_later(request: ApprovalRequest) -> None:
        await asyncio.sleep(0)
        if kind == "cancelled":
            raise asyncio.CancelledError
        raise RuntimeError("answerer")

    def fail_now(request: ApprovalRequest) -> None:
        raise RuntimeError("answerer")

    ctx.approval.answer_with(fail_now if kind == "sync" else fail_later)
    assert (await ctx.approval.ask(agent=LoneAgent(), tool_name="write")).outcome == "unavailable"


@pytest.mark.parametrize(
    "given",
    [
        True,
        1,
        "yes",
        "allowed",
        "ALLOWED-ONCE",
        {"outcome": "allowed-once"},
        ["allowed-once"],
        ApprovalAnswer("allowed"),  # type: ignore[arg-type]
        ApprovalAnswer("allowed-once", reason=5),  # type: ignore[arg-type]
        ApprovalAnswer("allowed-once", remember="forever"),  # type: ignore[arg-type]
        ApprovalAnswer(["allowed-once"]),  # type: ignore[arg-type]
    ],
)
async def test_an_answer_outside_the_vocabulary_makes_it_unavailable(ctx: Context, given: object):
    # HOST-82, 87
    ctx.on(APPROVAL_REQUEST, lambda request, next: given)  # type: ignore[arg-type, return-value]
    agent = LoggedAgent()
    assert (await ctx.approval.ask(agent=agent, tool_name="write")).outcome == "unavailable"
    assert answers_of(agent) == ["unavailable"]


# ── giving up while somebody thinks ───────────────────────────────────────────


async def test_an_abort_cancels_the_question_at_once(ctx: Context):
    # HOST-88
    caller, asked, stopped = AbortController(), asyncio.Event(), asyncio.Event()

    async def slow(request: ApprovalRequest) -> str:
        asked.set()
        try:
            await asyncio.sleep(30)
        finally:
            stopped.set()
        return "allowed-once"

    ctx.approval.answer_with(slow)  # type: ignore[arg-type]
    agent = LoggedAgent()
    task = asyncio.create_task(ctx.approval.ask(agent=agent, tool_name="write", signal=caller.signal))
    await asked.wait()
    caller.abort()
    assert (await task).outcome == "cancelled"
    assert answers_of(agent) == ["cancelled"]
    await asyncio.wait_for(stopped.wait(), 5)
    assert caller.signal.callback_count == 0


@pytest.mark.parametrize("late", ["answer", "failure"])
async def test_what_comes_too_late_is_swallowed(ctx: Context, late: str, caplog: pytest.LogCaptureFixture):
    # HOST-88
    caller, asked, ended = AbortController(), asyncio.Event(), asyncio.Event()

    async def stubborn(request: ApprovalRequest) -> str:
        asked.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
        ended.set()
        if late == "failure":
            raise RuntimeError("too late")
        return "allowed-once"

    ctx.approval.answer_with(stubborn)  # type: ignore[arg-type]
    agent = LoggedAgent()
    task = asyncio.create_task(ctx.approval.ask(agent=agent, tool_name="write", signal=caller.signal))
    await asked.wait()
    caller.abort()
    assert (await task).outcome == "cancelled"
    assert not ended.is_set()
    await ended.wait()
    await asyncio.sleep(0)
    gc.collect()
    assert answers_of(agent) == ["cancelled"]
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_cancelled_task_leaves_a_decision_in_the_log(ctx: Context):
    # D30, HOST-84
    asked = asyncio.Event()

    async def slow(request: ApprovalRequest) -> None:
        asked.set()
        await asyncio.sleep(30)

    ctx.approval.answer_with(slow)
    agent = LoggedAgent()
    task = asyncio.create_task(ctx.approval.ask(agent=agent, tool_name="write"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert answers_of(agent) == ["cancelled"]
    assert ctx.approval.pending == ()


async def test_disposal_withdraws_questions_and_waits_for_answerers(no_leaks: None):
    asked, ended = asyncio.Event(), asyncio.Event()

    async def slow(request: ApprovalRequest) -> None:
        asked.set()
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.02)
            ended.set()

    ctx = create_context()
    await ctx.plugin(ApprovalPlugin())
    ctx.approval.answer_with(slow)
    task = asyncio.create_task(ctx.approval.ask(agent=LoneAgent(), tool_name="write"))
    await asked.wait()
    await ctx.dispose()
    assert ended.is_set()
    assert (await task).outcome == "unavailable"


# ── scopes ────────────────────────────────────────────────────────────────────


async def test_answerers_of_other_scopes_never_see_the_question(ctx: Context):
    # HOST-89
    mine, other = ctx.create_scope("mine"), ctx.create_scope("other")
    child = ctx.create_scope("child", mine.scope)
    seen: list[str] = []
    for name, context in (("mine", mine), ("other", other), ("child", child)):
        context.approval.answer_with(lambda request, name=name: seen.append(name))
    await ctx.approval.ask(agent=LoneAgent(mine.scope), tool_name="write")
    assert seen == ["mine"]
    seen.clear()
    await ctx.approval.ask(agent=LoneAgent(child.scope), tool_name="write")
    assert seen == ["mine", "child"]
    seen.clear()
    await ctx.approval.ask(agent=LoneAgent(), tool_name="write")
    assert seen == []


async def test_an_answerer_ends_with_its_context(ctx: Context):
    scoped = ctx.create_scope("agent")
    scoped.approval.answer_with(always("allowed-once"))
    agent = LoneAgent(scoped.scope)
    assert (await ctx.approval.ask(agent=agent, tool_name="write")).outcome == "allowed-once"
    await scoped.dispose()
    assert (await ctx.approval.ask(agent=agent, tool_name="write")).outcome == "unavailable"


# ── policy ────────────────────────────────────────────────────────────────────


async def test_the_logs_last_word_is_the_policy(ctx: Context):
    # HOST-90
    agent = LoggedAgent()
    assert ctx.approval.policy(agent) == "ask"
    ctx.approval.set_policy(agent, "never")
    assert ctx.approval.policy(agent) == "never"
    agent.session.append(ApprovalPolicy.event_type, ApprovalPolicy("ask"))
    assert ctx.approval.policy(agent) == "ask"
    ctx.approval.set_policy(agent, "never")
    assert [data["policy"] for kind, data in agent.events("approval/policy")] == ["never", "ask", "never"]  # type: ignore[index]


async def test_the_config_holds_where_the_log_is_silent(no_leaks: None):
    # HOST-90
    async with create_context() as ctx:
        await ctx.plugin(ApprovalPlugin(), {"policy": "never"})
        assert ctx.approval.policy(LoggedAgent()) == "never"
        with pytest.raises(pydantic.ValidationError):
            await ctx.plugin(ApprovalPlugin(), {"policy": "sometimes"})
        with pytest.raises(pydantic.ValidationError):
            await ctx.plugin(ApprovalPlugin(), {"unknown": 1})


async def test_an_invalid_policy_is_refused_before_logging(ctx: Context):
    # HOST-90
    agent = LoggedAgent()
    with pytest.raises(ApprovalError, match='must be "ask" or "never"'):
        ctx.approval.set_policy(agent, "always")  # type: ignore[arg-type]
    assert agent.events("approval/") == []


async def test_a_switch_tells_the_agent_and_no_change_tells_nobody(ctx: Context):
    # HOST-90
    agent = LoggedAgent()
    ctx.approval.set_policy(agent, "ask")
    assert agent.inbox.injected == []
    assert agent.events("approval/") == []
    ctx.approval.set_policy(agent, "never")
    ctx.approval.set_policy(agent, "never")
    assert [content_text(message.content) for message in agent.inbox.injected] == [  # type: ignore[arg-type]
        "Approvals were switched off: calls that need one are rejected without asking."
    ]
    assert len(agent.events("approval/policy")) == 1


async def test_an_agent_without_a_log_has_a_policy_too(ctx: Context):
    agent, other = LoneAgent(), LoneAgent()
    ctx.approval.set_policy(agent, "never")
    assert (ctx.approval.policy(agent), ctx.approval.policy(other)) == ("never", "ask")


# ── several front ends ────────────────────────────────────────────────────────


async def test_a_desk_answers_what_is_pending(ctx: Context):
    # D43
    ctx.approval.open_desk()
    caller = AbortController()
    agent = LoneAgent()
    task = asyncio.create_task(
        ctx.approval.ask(
            agent=agent, tool_name="write", call_id="c1", reason="why", arguments={"a": [1]}, signal=caller.signal
        )
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (request,) = ctx.approval.pending
    assert (request.agent, request.tool_name, request.call_id, request.reason) == (agent, "write", "c1", "why")
    assert request.signal is caller.signal
    assert request.arguments == {"a": [1]}
    assert type(request.arguments) is FrozenDict
    assert request.arguments_digest == digest({"a": [1]})
    assert ctx.approval.answer(request.id, "rejected", "no", remember="arguments") is True
    assert await task == ApprovalAnswer("rejected", "no", "arguments")
    assert ctx.approval.pending == ()
    assert ctx.approval.answer(request.id, "allowed-once") is False


async def test_the_first_of_two_front_ends_wins(ctx: Context):
    withdrawn = asyncio.Event()
    asked = asyncio.Event()

    async def terminal(request: ApprovalRequest) -> str:
        asked.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            withdrawn.set()
            raise
        return "allowed-once"

    ctx.approval.answer_with(terminal)  # type: ignore[arg-type]
    agent = LoggedAgent()
    task = asyncio.create_task(ctx.approval.ask(agent=agent, tool_name="write"))
    await asked.wait()
    (request,) = ctx.approval.pending
    assert ctx.approval.answer(request.id, "rejected") is True
    assert ctx.approval.answer(request.id, "allowed-once") is False
    assert (await task).outcome == "rejected"
    assert answers_of(agent) == ["rejected"]
    await asyncio.wait_for(withdrawn.wait(), 5)


async def test_a_desk_serves_the_agents_of_its_scope(ctx: Context):
    # HOST-89
    mine, other = ctx.create_scope("mine"), ctx.create_scope("other")
    other.approval.open_desk()
    assert (await ctx.approval.ask(agent=LoneAgent(mine.scope), tool_name="write")).outcome == "unavailable"
    task = asyncio.create_task(ctx.approval.ask(agent=LoneAgent(other.scope), tool_name="write"))
    await asyncio.sleep(0.01)
    assert len(ctx.approval.pending) == 1
    await other.dispose()
    assert (await task).outcome == "unavailable"


async def test_a_closing_desk_leaves_questions_that_others_serve(ctx: Context):
    first, second = ctx.approval.open_desk(), ctx.approval.open_desk()
    task = asyncio.create_task(ctx.approval.ask(agent=LoneAgent(), tool_name="write"))
    await asyncio.sleep(0.01)
    first()
    await asyncio.sleep(0.01)
    assert not task.done()
    second()
    assert (await task).outcome == "unavailable"


async def test_an_answer_from_elsewhere_is_checked(ctx: Context):
    ctx.approval.open_desk()
    task = asyncio.create_task(ctx.approval.ask(agent=LoneAgent(), tool_name="write"))
    await asyncio.sleep(0.01)
    (request,) = ctx.approval.pending
    with pytest.raises(ApprovalError, match="not an approval outcome"):
        ctx.approval.answer(request.id, "yes")  # type: ignore[arg-type]
    with pytest.raises(ApprovalError, match="remember must be"):
        ctx.approval.answer(request.id, "rejected", remember="always")  # type: ignore[arg-type]
    with pytest.raises(ApprovalError, match="cannot be remembered"):
        ctx.approval.answer(request.id, "allowed-once", remember="tool")
    assert not task.done()
    assert ctx.approval.answer("nothing", "rejected") is False
    ctx.approval.answer(request.id, "cancelled")
    assert (await task).outcome == "cancelled"


async def test_a_question_of_another_purpose_is_never_remembered(ctx: Context):
    agent = LoggedAgent()
    ctx.approval.answer_with(lambda request: ApprovalAnswer("allowed-once", remember="tool"))
    answer = await ctx.approval.ask(agent=agent, tool_name="bash", arguments={}, purpose="wider permissions")
    assert answer == ApprovalAnswer("allowed-once")
    assert "remember" not in agent.events("approval/decided")[0][1]  # type: ignore[operator]


async def test_where_nobody_uses_them_remembered_answers_are_not_offered(no_leaks: None):
    async with create_context() as ctx:
        await ctx.plugin(ApprovalPlugin())
        agent = LoggedAgent()
        offered: list[bool] = []

        def answerer(request: ApprovalRequest) -> ApprovalAnswer:
            offered.append(request.can_be_remembered)
            return ApprovalAnswer("allowed-once", remember="tool")

        ctx.approval.answer_with(answerer)
        await ctx.approval.ask(agent=agent, tool_name="write", arguments={})
        use = ctx.approval.use_remembered()
        await ctx.approval.ask(agent=agent, tool_name="write", arguments={})
        use()
        await ctx.approval.ask(agent=agent, tool_name="write", arguments={})
        assert offered == [False, True, False]
        remembered = ["remember" in data for kind, data in agent.events("approval/decided")]  # type: ignore[operator]
        assert remembered == [False, True, False]


async def test_observers_hear_of_questions_and_answers(ctx: Context):
    heard: list[Any] = []
    ctx.on(APPROVAL_ASKED, lambda request: heard.append(("asked", request.tool_name)))
    ctx.on(APPROVAL_DECIDED, lambda request, answer: heard.append((request.tool_name, answer.outcome)))
    ctx.approval.answer_with(always("rejected"))
    await ctx.approval.ask(agent=LoneAgent(), tool_name="write")
    assert heard == [("asked", "write"), ("write", "rejected")]


async def test_scripted_answers_are_played_in_turn(ctx: Context):
    ctx.approval.answer_with(scripted({"write": ["allowed-once", "rejected"], "read": "allowed-once"}))
    ctx.approval.answer_with(scripted([ApprovalAnswer("cancelled", "script is over")]))

    async def ask(tool: str) -> str:
        return (await ctx.approval.ask(agent=LoneAgent(), tool_name=tool)).outcome

    assert [await ask(tool) for tool in ("write", "read", "write", "read", "write", "write")] == [
        "allowed-once",
        "allowed-once",
        "rejected",
        "allowed-once",
        "cancelled",
        "unavailable",
    ]


async def test_open_questions_are_read_from_the_log(ctx: Context):
    agent = LoggedAgent()
    ctx.approval.open_desk()
    tasks = [
        asyncio.create_task(ctx.approval.ask(agent=agent, tool_name="write", call_id=f"c{n}", arguments={"n": n}))
        for n in range(2)
    ]
    await asyncio.sleep(0.01)
    ctx.approval.answer(ctx.approval.pending[0].id, "rejected")
    await tasks[0]
    (open_one,) = open_questions(agent.session.events)
    assert (open_one.id, open_one.call_id, open_one.arguments) == (ctx.approval.pending[0].id, "c1", {"n": 1})
    assert open_one.arguments_digest == digest({"n": 1})
    ctx.approval.answer(open_one.id, "cancelled")
    await tasks[1]
    assert open_questions(agent.session.events) == []
