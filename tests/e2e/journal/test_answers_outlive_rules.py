"""What a person has answered about a call that waits, when the rules that asked have gone before it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.journal import answer_all, application, effects, go_on, program_of, say_result, start

from dsh_tools import PRE_EXECUTE, Ask
from dsh_tools.json_value import digest
from dsh_tools.kernel import Context
from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.services import answer_question, open_questions
from dsh_tools.session import CallRecord, EventLog, call_records
from dsh_tools.session.events import Completed

PAY = {"name": "a", "value": 1}
CAUGHT = 'try { return await tools.pay({ name: "a", value: 1 }) } catch (e) { return e.message }'
REFUSED = 'the user rejected tool "pay"\nnever'

modes = pytest.mark.parametrize("mode", ["native", "code"])
rules_gone = pytest.mark.parametrize("rules", [[], [{"tool": "pay", "action": "allow"}]], ids=["none", "allow"])


def model(mode: str) -> ScriptedModel:
    return program_of(CAUGHT) if mode == "code" else ScriptedModel([say("", call("pay", **PAY)), say_result])


def record_of_pay(log: EventLog) -> CallRecord:
    (record,) = (record for record in call_records(log.events) if record.name == "pay")
    return record


async def asked(folder: Path, mode: str, outcome: str | None, **fields: Any) -> str:
    """Let a call wait, and answer; return the digest of the rules that it was asked under."""
    async with application(folder, mode=mode) as ctx:
        await start(ctx, model(mode))
        (question,) = open_questions((await ctx.sessions.read("s1")).events)
        assert isinstance(question.policy_digest, str)
    if outcome is not None:
        async with application(folder, mode=mode) as ctx:
            await answer_all(ctx, outcome, **fields)
    return question.policy_digest


@modes
@rules_gone
async def test_a_refusal_stands_when_nobody_would_be_asked(mode: str, rules: list[Any], tmp_path: Path, no_leaks: None):
    # D34
    under = await asked(tmp_path, mode, "rejected", reason="never", by="boss")
    async with application(tmp_path, mode=mode, policy={"rules": rules}) as ctx:
        agent = await go_on(ctx)
        outcome = await agent.resume()
        assert outcome.reason == Completed()
        assert outcome.text.removeprefix("Error: ") == REFUSED
        record = record_of_pay(agent.session)
        (approval,) = record.approvals
        assert (approval.outcome, approval.by, approval.reason) == ("rejected", "boss", "never")
        # The answer is bound to the rules that it was given under, not to those that are in force now.
        assert approval.policy_digest == under != record.policy_digest
        assert (record.ending, record.ran) == ("denied", None)
    assert effects(tmp_path / "effects") == []


@modes
async def test_a_refusal_stands_when_whoever_asked_has_gone(mode: str, tmp_path: Path, no_leaks: None):
    # It was a listener that declares no rules.
    async def asks(execution: Any, proceed: Any) -> Any:
        return Ask() if execution.name == "pay" else await proceed()

    settings: dict[str, Any] = {"policy": {"rules": []}, "call_records": False, "mode": mode}
    async with application(tmp_path, **settings) as ctx:
        ctx.on(PRE_EXECUTE, asks)
        agent = await start(ctx, model(mode))
        assert agent.is_waiting
    async with application(tmp_path, **settings) as ctx:
        await answer_all(ctx, "rejected", reason="never")
        agent = await go_on(ctx)
        assert (await agent.resume()).text.removeprefix("Error: ") == REFUSED
    assert effects(tmp_path / "effects") == []


@modes
@rules_gone
async def test_a_grant_that_nobody_needs_any_more_is_in_the_record(
    mode: str, rules: list[Any], tmp_path: Path, no_leaks: None
):
    under = await asked(tmp_path, mode, "allowed-once", by="boss")
    async with application(tmp_path, mode=mode, policy={"rules": rules}) as ctx:
        agent = await go_on(ctx)
        assert (await agent.resume()).text == "a is paid"
        record = record_of_pay(agent.session)
        (approval,) = record.approvals
        assert (approval.outcome, approval.by, approval.policy_digest) == ("allowed-once", "boss", under)
        assert approval.arguments_digest == record.arguments_digest == digest(PAY)
        assert record.ending == "completed"
    assert effects(tmp_path / "effects") == ["a 1"]


@modes
@pytest.mark.parametrize("outcome", ["allowed-once", "rejected"])
async def test_a_denial_by_the_new_rules_stays_one(mode: str, outcome: str, tmp_path: Path, no_leaks: None):
    await asked(tmp_path, mode, outcome)
    rules = [{"tool": "pay", "action": "deny", "reason": "closed"}]
    async with application(tmp_path, mode=mode, policy={"rules": rules}) as ctx:
        agent = await go_on(ctx)
        assert (await agent.resume()).text.removeprefix("Error: ") == "closed"
        record = record_of_pay(agent.session)
        assert [approval.outcome for approval in record.approvals] == [outcome]
        assert record.ending == "denied"
    assert effects(tmp_path / "effects") == []


@modes
@rules_gone
async def test_a_question_that_nobody_would_put_now_is_withdrawn(
    mode: str, rules: list[Any], tmp_path: Path, no_leaks: None
):
    # HOST-84: one decision for each question, before the body runs.
    await asked(tmp_path, mode, None)
    async with application(tmp_path, mode=mode, policy={"rules": rules}) as ctx:
        agent = await go_on(ctx)
        assert (await agent.resume()).text == "a is paid"
        (decided,) = (event.data for event in agent.session.events if event.type == "approval/decided")
        assert (decided["outcome"], decided["reason"]) == ("cancelled", "the rules do not ask about this call any more")
        assert [approval.outcome for approval in record_of_pay(agent.session).approvals] == ["cancelled"]


@modes
async def test_every_answer_to_a_call_is_in_its_record(mode: str, tmp_path: Path, no_leaks: None):
    # A grant under the first rules, one under the second, and the call runs when neither is needed.
    digests = [await asked(tmp_path, mode, "allowed-once", by="first")]
    stricter = {"rules": [{"tool": "pay", "action": "ask"}, {"tool": "other", "action": "deny"}]}
    async with application(tmp_path, mode=mode, policy=stricter) as ctx:
        agent = await go_on(ctx)
        await agent.resume()
        assert agent.is_waiting
        digests.append(str(ctx.tools.policy_digest()))
        await agent.dispose()
        await answer_all(ctx, by="second")
    async with application(tmp_path, mode=mode, policy={"rules": []}) as ctx:
        agent = await go_on(ctx)
        assert (await agent.resume()).text == "a is paid"
        approvals = record_of_pay(agent.session).approvals
        assert [(given.outcome, given.by, given.policy_digest) for given in approvals] == [
            ("allowed-once", "first", digests[0]),
            ("allowed-once", "second", digests[1]),
        ]


async def test_the_same_application_keeps_to_a_refusal(tmp_path: Path, no_leaks: None):
    # The rules change while the application runs on; the calls of a later turn with the same id are others.
    once = [say("", call("pay", PAY, id="p1")), say_result]
    async with application(tmp_path, mode="native", policy={"rules": []}) as ctx:
        stop = ctx.on(PRE_EXECUTE, lambda _execution, _proceed: Ask())
        agent = await start(ctx, ScriptedModel([*once, *once]))
        await _reject(ctx)
        stop()
        assert "rejected" in (await agent.resume()).text
        assert (await agent.run("again")).text == "a is paid"
    assert effects(tmp_path / "effects") == ["a 1"]


async def _reject(ctx: Context) -> None:
    (question,) = open_questions((await ctx.sessions.read("s1")).events)
    await answer_question(ctx.sessions, "s1", question.id, "rejected")
