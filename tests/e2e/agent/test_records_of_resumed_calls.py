"""Calls that wait for a person: their records, and what an answer in a stored session is bound to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.calls import Body, make_tool

from dsh_tools.code_runtime import CodeRunRequest, MontyRuntime, RuntimeConfig
from dsh_tools.errors import ApprovalError
from dsh_tools.kernel import Context
from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.services import always, answer_question, open_questions
from dsh_tools.session import call_records
from dsh_tools.session.events import Waiting
from dsh_tools.standard import standard

POLICY: dict[str, Any] = {"rules": [{"tool": "pay", "action": "ask", "reason": "money"}]}
OTHER: dict[str, Any] = {"rules": [{"tool": "pay", "action": "ask", "reason": "much money"}]}


PROGRAM = """
first = await tools.look({"n": 1})
paid = await tools.pay({"n": 2})
return [first, paid, await tools.look({"n": 3})]
"""


class World:
    """One application after the other on the same store, as processes would come and go."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paid = Body("paid")
        self.looked = Body("seen")
        self.session = ""

    @asynccontextmanager
    async def process(self, policy: Any = None, code: Any = None, **approval: Any) -> AsyncIterator[Context]:
        sessions = {"store": "sqlite", "path": str(self.path)}
        async with standard(sessions=sessions, approval=approval, policy=policy or POLICY, code=code) as ctx:
            ctx.tools.register(make_tool("pay", self.paid))
            ctx.tools.register(make_tool("look", self.looked, is_concurrency_safe=lambda args: True))
            yield ctx

    async def run(self, ctx: Context, *script: Any) -> Any:
        agent = await ctx.agents.create(f"agent {len(list(ctx.agents))}", ScriptedModel(script))
        self.present(agent)
        self.session = agent.session.id
        return await agent.run("go"), agent

    async def resume(self, ctx: Context, *script: Any) -> Any:
        log = await ctx.sessions.open(self.session, repair=False)
        agent = await ctx.agents.create("main", ScriptedModel(script), session=log)
        self.present(agent)
        return await agent.resume(), agent

    def present(self, agent: Any) -> None:
        if agent.ctx.get("code_runtime") is not None:
            agent.ctx.tools.present_as("both")

    async def question(self, ctx: Context) -> Any:
        (question,) = open_questions((await ctx.sessions.read(self.session)).events)
        return question


NATIVE = (say("a", call("look", n=1), call("pay", n=2), call("look", n=3)), say("done"))
IN_TYPESCRIPT = """
const first = await tools.look({ n: 1 });
const paid = await tools.pay({ n: 2 });
return [first, paid, await tools.look({ n: 3 })];
"""
PYTHON = (say("a", call("run_code", code=PROGRAM)), say("done"))
TYPESCRIPT = (say("a", call("run_code", code=IN_TYPESCRIPT)), say("done"))


@pytest.fixture
async def monty_loaded() -> None:
    """What Monty's library keeps for the process from its first use on is no leak of a test."""
    runtime = MontyRuntime(RuntimeConfig(pool_size=0))
    await runtime.run(CodeRunRequest("return 1"))
    await runtime.dispose()


@pytest.fixture
def world(monty_loaded: None, no_leaks: None, tmp_path: Path) -> World:
    return World(tmp_path / "s.sqlite")


@pytest.mark.parametrize(
    ("script", "language"),
    [(NATIVE, None), (PYTHON, "python"), (TYPESCRIPT, "typescript")],
    ids=["native", "python", "typescript"],
)
async def test_the_records_of_a_resumed_run_are_those_of_an_uninterrupted_one(
    world: World, script: Any, language: str | None
):
    code = None if language is None else {"language": language, "prewarm": False, "pool_size": 0}
    async with world.process(code=code) as ctx:
        ctx.approval.answer_with(lambda request: always("allowed-once")(request))
        outcome, agent = await world.run(ctx, *script)
        assert outcome.text == "done"
        straight = call_records(agent.session.events)
    async with world.process(code=code, suspend_after=0) as ctx:
        outcome, agent = await world.run(ctx, *script)
        assert isinstance(outcome.reason, Waiting)
        before = call_records(agent.session.events)
        assert [record.name for record in before] == ["look"]
    async with world.process() as ctx:
        question = await world.question(ctx)
        by = straight[1].approvals[0].by
        await answer_question(ctx.sessions, world.session, question.id, "allowed-once", by=by)
    async with world.process(code=code) as ctx:
        outcome, agent = await world.resume(ctx, script[1])
        assert outcome.text == "done"
        resumed = call_records(agent.session.events)
        asked, decided = (
            event.time for event in agent.session.events if event.type in ("approval/asked", "approval/decided")
        )
    assert [record.name for record in resumed] == [record.name for record in straight]
    assert resumed == straight
    assert all(record.seq is not None and record.call_seq is not None for record in resumed)
    assert resumed[0] == before[0]
    # The answer has the time at which it was given, not the one at which it was used.
    assert resumed[1].measured.questions == ((question.id, asked, decided),)
    assert len(world.paid.calls) == 2


async def test_a_stored_grant_under_older_rules_is_refused_and_the_question_put_again(world: World):
    async with world.process(suspend_after=0) as ctx:
        await world.run(ctx, *NATIVE)
        question = await world.question(ctx)
        await answer_question(ctx.sessions, world.session, question.id, "allowed-once")
    async with world.process(OTHER, suspend_after=0) as ctx:
        outcome, agent = await world.resume(ctx, "done")
        assert isinstance(outcome.reason, Waiting)
        (again,) = open_questions(agent.session.events)
        assert again.id != question.id
        assert again.policy_digest == ctx.tools.policy_digest() != question.policy_digest
        assert again.reason.startswith("much money; the answer was given under other rules")
        assert world.paid.calls == []
    async with world.process(OTHER) as ctx:
        ctx.approval.answer_with(always("allowed-once"))
        outcome, agent = await world.resume(ctx, "done")
        assert outcome.text == "done"
        assert world.paid.calls == [{"n": 2}]
        record = next(record for record in call_records(agent.session.events) if record.name == "pay")
        assert [(one.outcome, one.policy_digest) for one in record.approvals] == [
            ("allowed-once", question.policy_digest),
            ("allowed-once", ctx.tools.policy_digest()),
        ]


async def test_an_open_question_under_older_rules_is_withdrawn_and_put_anew(world: World):
    async with world.process(suspend_after=0) as ctx:
        await world.run(ctx, *NATIVE)
        question = await world.question(ctx)
    async with world.process(OTHER) as ctx:
        ctx.approval.answer_with(always("allowed-once"))
        outcome, agent = await world.resume(ctx, "done")
        assert outcome.text == "done"
        decided = {e.data["id"]: e.data["outcome"] for e in agent.session.events if e.type == "approval/decided"}
        assert decided.pop(question.id) == "cancelled"
        assert list(decided.values()) == ["allowed-once"]


async def test_a_stored_refusal_stands_whatever_the_rules(world: World):
    async with world.process(suspend_after=0) as ctx:
        await world.run(ctx, *NATIVE)
        question = await world.question(ctx)
        await answer_question(ctx.sessions, world.session, question.id, "rejected", "no", by="clerk")
    async with world.process(OTHER) as ctx:
        ctx.approval.answer_with(always("allowed-once"))
        _, agent = await world.resume(ctx, "done")
        record = next(record for record in call_records(agent.session.events) if record.name == "pay")
        assert (record.ending, record.approvals[0].outcome, record.approvals[0].by) == ("denied", "rejected", "clerk")
    assert world.paid.calls == []


async def test_an_answer_to_something_else_than_was_asked_is_refused(world: World):
    async with world.process(suspend_after=0) as ctx:
        await world.run(ctx, *NATIVE)
        question = await world.question(ctx)
        first = world.session
        await world.run(ctx, *NATIVE)
        other = await world.question(ctx)

        async def refused(session: str, question_id: str, **shown: Any) -> tuple[str, str]:
            with pytest.raises(ApprovalError) as error:
                await answer_question(ctx.sessions, session, question_id, "allowed-once", **shown)
            return error.value.code, error.value.message

        code, said = await refused(first, question.id, digest="0" * 64)
        assert (code, said[:43]) == ("OTHER_ARGUMENTS", "the answer was given for other arguments: " + said[42])
        assert (await refused(first, question.id, call_id="call_9"))[0] == "STALE_ANSWER"
        code, said = await refused(first, question.id, policy="0" * 64)
        assert (code, "under other rules" in said) == ("STALE_ANSWER", True)
        assert (await refused(first, other.id))[0] == "UNKNOWN_QUESTION"
        # A refusal needs no rules.
        await answer_question(ctx.sessions, world.session, other.id, "rejected", policy="0" * 64)
        shown = {
            "digest": question.arguments_digest,
            "call_id": question.call_id,
            "policy": ctx.tools.policy_digest(),
        }
        await answer_question(ctx.sessions, first, question.id, "allowed-once", **shown)
