"""Calls and programs that stop for a person and go on in another process, through the public API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.journal import (
    ANYTHING,
    answer_all,
    application,
    effects,
    go_on,
    note,
    program_of,
    say_result,
    start,
)

from dsh_tools.agent import Agent
from dsh_tools.code_mode import JournalStep
from dsh_tools.content import ImageBlock, TextBlock
from dsh_tools.errors import ApprovalError, SessionError
from dsh_tools.messages import ToolCallBlock
from dsh_tools.model import ModelRequest, ScriptedModel, call, say
from dsh_tools.services import METRICS, answer_question, open_questions
from dsh_tools.session import EventLog, Sessions, SqliteStore
from dsh_tools.session.events import Aborted, Completed, Waiting
from dsh_tools.testing.store_conformance import refused
from dsh_tools.tools import OutputSpec, ToolDefinition

TYPESCRIPT = """
const seen = Math.floor(Math.random() * 1e9);
const begun = Date.now();
const first = await tools.effect({ name: "first", value: seen });
await new Promise((wake) => setTimeout(wake, 5));
console.log(first, Date.now() >= begun + 5);
const paid = await tools.pay({ name: "second", value: seen });
console.log(paid);
return [first, paid, await tools.effect({ name: "third", value: seen })];
"""
PYTHON = """
import asyncio, random, time
seen = random.randint(0, 10**9)
begun = time.time()
first = await tools.effect({"name": "first", "value": seen})
await asyncio.sleep(0.005)
print(first, str(time.time() >= begun + 0.005).lower())
paid = await tools.pay({"name": "second", "value": seen})
print(paid)
return [first, paid, await tools.effect({"name": "third", "value": seen})]
"""
PROGRAMS = {"typescript": TYPESCRIPT, "python": PYTHON}
SHOWN = 'first is done true\nsecond is paid\n[\n  "first is done",\n  "second is paid",\n  "third is done"\n]'

languages = pytest.mark.parametrize("language", ["typescript", "python"])


def names(folder: Path) -> list[str]:
    return [line.split()[0] for line in effects(folder / "effects")]


def types(log: EventLog, *wanted: str) -> list[str]:
    return [event.type for event in log.events if event.type in wanted]


@languages
async def test_a_program_stops_for_a_person_and_goes_on_in_another_application(
    language: str, tmp_path: Path, no_leaks: None
):
    # D34
    async with application(tmp_path, language) as ctx:
        agent = await start(ctx, program_of(PROGRAMS[language]))
        assert agent.last_outcome is not None
        assert agent.last_outcome.reason == Waiting()
        assert agent.is_waiting
        assert agent.session.stored_length == len(agent.session.events)
    assert names(tmp_path) == ["first"]

    async with application(tmp_path, language) as ctx:
        (question,) = open_questions((await ctx.sessions.read("s1")).events)
        assert (question.tool_name, question.reason) == ("pay", "it costs money")
        assert await answer_all(ctx) == 1
        agent = await go_on(ctx)
        outcome = await agent.resume()
        assert (outcome.reason, outcome.text) == (Completed(), SHOWN)
        log = agent.session
    lines = effects(tmp_path / "effects")
    assert [line.split()[0] for line in lines] == ["first", "second", "third"]
    assert len({line.split()[1] for line in lines}) == 1
    # One start and one end for each call, in one order, as if nothing had happened.
    sub_calls = [event.data["subCallId"][-1] for event in log.events if event.type == "tool/code-dispatch"]
    starts = [event.data["subCallId"][-1] for event in log.events if event.type == "tool/code-dispatch-start"]
    assert sub_calls == starts == ["1", "2", "3"]
    assert types(log, "tool/call", "tool/result", "approval/asked", "approval/decided") == [
        "tool/call",
        "approval/asked",
        "approval/decided",
        "tool/result",
    ]


@languages
async def test_a_rejection_reaches_the_program_with_its_reason(language: str, tmp_path: Path, no_leaks: None):
    catch = {
        "typescript": 'try { await tools.pay({ name: "a", value: 1 }) } catch (e) { return e.message }',
        "python": 'try:\n  await tools.pay({"name": "a", "value": 1})\nexcept ToolCallError as e:\n  return str(e)',
    }
    async with application(tmp_path, language) as ctx:
        await start(ctx, program_of(catch[language]))
    async with application(tmp_path, language) as ctx:
        await answer_all(ctx, "rejected", reason="not today")
        outcome = await (await go_on(ctx)).resume()
        assert outcome.text == 'the user rejected tool "pay"\nnot today'
    assert effects(tmp_path / "effects") == []


async def test_questions_are_put_one_after_the_other_as_often_as_it_takes(tmp_path: Path, no_leaks: None):
    # Calls that are started together ask one by one: each asks only when the one before has its answer.
    program = """
    const [a, b] = await Promise.all(["a", "b"].map((name) => tools.pay({ name, value: 1 })));
    return [a, b, await tools.pay({ name: "c", value: 2 })];
    """
    async with application(tmp_path) as ctx:
        await start(ctx, program_of(program))
    for asked in ("a", "b", "c"):
        async with application(tmp_path) as ctx:
            agent = await go_on(ctx)
            outcome = await agent.resume()  # nobody has answered: it waits again, under the same id
            assert outcome.reason == Waiting()
            await agent.dispose()
            (question,) = open_questions((await ctx.sessions.read("s1")).events)
            assert question.arguments["name"] == asked
            await answer_all(ctx)
            agent = await go_on(ctx)
            outcome = await agent.resume()
            assert isinstance(outcome.reason, Completed if asked == "c" else Waiting)
    assert names(tmp_path) == ["a", "b", "c"]
    asked = [event.data["id"] for event in agent.session.events if event.type == "approval/asked"]
    assert len(asked) == len(set(asked)) == 3


async def test_bodies_in_flight_are_waited_for_and_never_run_again(tmp_path: Path, no_leaks: None):
    program = """
    const beside = ["x", "y"].map((name) => tools.beside({ name, value: 1 }));
    const paid = tools.pay({ name: "z", value: 1 });
    return await Promise.all([...beside, paid]);
    """
    async with application(tmp_path) as ctx:
        await start(ctx, program_of(program))
        assert sorted(names(tmp_path)) == ["x", "y"]
    async with application(tmp_path) as ctx:
        await answer_all(ctx)
        outcome = await (await go_on(ctx)).resume()
        assert '"x is done"' in outcome.text
        assert '"z is paid"' in outcome.text
    assert sorted(names(tmp_path)) == ["x", "y", "z"]


async def test_native_calls_survive_the_same_way(tmp_path: Path, no_leaks: None):
    # The batch: one call has run, one waits, one was never begun.
    batch = say(
        "",
        call("effect", name="first", value=1),
        call("pay", name="second", value=2),
        call("effect", name="third", value=3),
    )
    async with application(tmp_path, mode="native") as ctx:
        agent = await start(ctx, ScriptedModel([batch, say_result]))
        assert agent.is_waiting
        assert types(agent.session, "tool/call", "tool/result") == ["tool/call", "tool/result", "tool/call"]
    assert names(tmp_path) == ["first"]
    async with application(tmp_path, mode="native") as ctx:
        await answer_all(ctx)
        agent = await go_on(ctx)
        outcome = await agent.resume()
        assert (outcome.reason, outcome.text) == (Completed(), "third is done")
        results = [event for event in agent.session.events if event.type == "tool/result"]
        # HOST-163: each result cites its own call, also over the end of a turn.
        assert [agent.session.events[event.source_event_seqs[0]].data["name"] for event in results] == [
            "effect",
            "pay",
            "effect",
        ]
        calls = [event.data["turn"] for event in agent.session.events if event.type == "tool/call"]
        assert calls == [1, 1, 2]
    assert effects(tmp_path / "effects") == ["first 1", "second 2", "third 3"]


async def test_a_waiting_agent_takes_no_message_until_it_is_resumed_or_let_go(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, mode="native") as ctx:
        agent = await start(ctx, ScriptedModel([say("", call("pay", name="a", value=1)), say("free again")]))
        with refused("TURN_WAITING") as caught:
            await agent.run("hello?")
        assert "resume()" in str(caught.value)
        assert "discard_waiting()" in str(caught.value)
        agent.inbox.followup("later")
        await agent.discard_waiting()
        assert not agent.is_waiting
        assert open_questions(agent.session.events) == []
        (result,) = (event for event in agent.session.events if event.type == "tool/result")
        assert result.data["error"]["code"] == "ABORTED"
        outcome = await agent.run("hello?")
        assert outcome.text == "free again"
        with refused("NOT_WAITING"):
            await agent.resume()
        with refused("NOT_WAITING"):
            await agent.discard_waiting()
    assert effects(tmp_path / "effects") == []


async def test_the_same_application_can_go_on_itself(tmp_path: Path, no_leaks: None):
    async with application(tmp_path) as ctx:
        agent = await start(ctx, program_of(TYPESCRIPT))
        await answer_all(ctx)
        outcome = await agent.resume()
        assert outcome.text == SHOWN
        assert agent.session.turn is None


async def test_a_time_limit_gives_people_their_time(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, approval={"suspend_after": 30}, mode="native") as ctx:
        ctx.approval.answer_with(lambda request: "allowed-once")
        agent = await start(ctx, ScriptedModel([say("", call("pay", name="a", value=1)), say_result]))
        assert agent.last_outcome is not None
        assert agent.last_outcome.text == "a is paid"


async def test_answers_that_come_at_once_are_not_lost_to_a_limit_of_nothing(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, mode="native") as ctx:
        ctx.approval.answer_with(lambda request: "rejected")
        agent = await start(ctx, ScriptedModel([say("", call("pay", name="a", value=1)), say_result]))
        assert agent.last_outcome is not None
        assert agent.last_outcome.reason == Completed()
        assert "rejected" in agent.last_outcome.text


async def test_without_a_journal_nothing_is_suspended(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, mode="native", journal=False) as ctx:
        agent = await start(ctx, ScriptedModel([say("", call("pay", name="a", value=1)), say_result]))
        assert agent.last_outcome is not None
        assert "no approval channel is available" in agent.last_outcome.text


async def test_memory_keeps_a_journal_where_it_is_asked_to(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, sessions={"store": "memory"}, journal=True) as ctx:
        agent = await start(ctx, program_of(TYPESCRIPT))
        assert agent.is_waiting
        await answer_all(ctx)
        assert (await agent.resume()).text == SHOWN


async def test_cancelling_a_turn_that_asks_ends_it_as_before(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, approval={"suspend_after": 30}, mode="native") as ctx:
        log = await ctx.sessions.create(id="s1")
        model = ScriptedModel([say("", call("pay", name="a", value=1))])
        agent = await ctx.agents.create("main", model, session=log)
        log.observe(lambda event: agent.cancel() if event.type == "approval/asked" else None)
        outcome = await agent.run("go")
        assert outcome.reason == Aborted("user")
        assert open_questions(log.events) == []
        assert not agent.is_waiting


async def test_what_has_changed_is_refused_and_named(tmp_path: Path, no_leaks: None):
    # Nothing has run, and the session still waits.
    async with application(tmp_path) as ctx:
        await start(ctx, program_of(TYPESCRIPT))
    async with application(tmp_path, "python") as ctx:
        await answer_all(ctx)
        await _is_refused(await go_on(ctx), "the language was typescript and is python")
    async with application(tmp_path) as ctx:
        scoped = ctx.create_scope("extra")
        ctx.tools.register(_other_tool("newcomer"))
        await _is_refused(await go_on(ctx), 'the tool "newcomer" is new')
        await scoped.dispose()
    async with application(tmp_path) as ctx:
        agent = await go_on(ctx)
        agent.ctx.tools.restrict(deny=["fail"])
        await _is_refused(agent, 'the tool "fail" is not there any more')
    async with application(tmp_path) as ctx:
        agent = await go_on(ctx)
        agent.ctx.tools.register(_other_tool("effect"))
        await _is_refused(agent, 'the schema of the tool "effect" has changed')
    assert names(tmp_path) == ["first"]
    async with application(tmp_path) as ctx:
        assert (await (await go_on(ctx)).resume()).text == SHOWN


async def _is_refused(agent: Agent, why: str) -> None:
    before = len(agent.session.events)
    with refused("RESUME_REFUSED") as caught:
        await agent.resume()
    assert why in str(caught.value)
    assert agent.is_waiting
    assert len(agent.session.events) == before


def _other_tool(name: str) -> Any:
    return ToolDefinition(
        name=name,
        description="Another.",
        parameters=ANYTHING,
        output=OutputSpec({}),
        execute=lambda _args, _run: None,
    )


async def test_another_runtime_version_is_refused(tmp_path: Path, no_leaks: None, monkeypatch: pytest.MonkeyPatch):
    from dsh_tools.code_runtime.deno import DenoRuntime

    async with application(tmp_path) as ctx:
        await start(ctx, program_of(TYPESCRIPT))
    monkeypatch.setattr(DenoRuntime, "version", "deno 99.0.0")
    async with application(tmp_path) as ctx:
        await _is_refused(await go_on(ctx), 'and is "deno 99.0.0"')


async def test_a_native_call_of_another_shape_is_refused(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, mode="native") as ctx:
        await start(ctx, ScriptedModel([say("", call("pay", name="a", value=1))]))
    async with application(tmp_path, mode="native") as ctx:
        agent = await go_on(ctx)
        agent.ctx.tools.register(_other_tool("pay"))
        await _is_refused(agent, 'the schema of the tool "pay" has changed')


async def test_a_program_that_takes_another_path_is_stopped(tmp_path: Path, no_leaks: None):
    # The journal of another program's run, which only a fault can bring about: the facts are made to agree.
    async with application(tmp_path) as ctx:
        agent = await start(
            ctx, program_of('await tools.effect({name: "a", value: 1}); await tools.pay({name: "b", value: 1});')
        )
        log = agent.session
    async with application(tmp_path) as ctx:
        await answer_all(ctx)
        agent = await go_on(ctx)
        journal = ctx.require("journal").journal
        (key,) = await journal.known("s1")
        run = (await journal.load("s1")).runs[key]
        step = run.steps[0]
        reopened = await journal.reopen_run("s1", key, run, {})
        import msgspec

        reopened.write(msgspec.structs.replace(step, arguments="0" * 64))
        reopened.close()
        outcome = await agent.resume()
        assert "request 1 was a call of effect with arguments 000000000000" in outcome.text
        result = next(event for event in reversed(agent.session.events) if event.type == "tool/result")
        assert result.data["error"]["code"] == "CODE_REPLAY_DIVERGED"
    assert names(tmp_path) == ["a"]
    assert log.id == "s1"


async def test_opening_without_resuming_repairs_nothing_that_waits(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, mode="native") as ctx:
        await start(ctx, ScriptedModel([say("", call("pay", name="a", value=1))]))
    async with application(tmp_path, mode="native") as ctx:
        log = await ctx.sessions.open("s1")
        assert log.is_waiting
        calls = [
            block for message in log.derive_messages() for block in message.content if isinstance(block, ToolCallBlock)
        ]
        assert len(calls) == 1
        await log.close()
        with refused("OPEN_TURN"):
            await ctx.sessions.fork("s1")


async def test_deleting_a_session_takes_its_journal_along(tmp_path: Path, no_leaks: None):
    async with application(tmp_path) as ctx:
        agent = await start(ctx, program_of(TYPESCRIPT))
        journal = ctx.require("journal").journal
        assert await journal.known("s1")
        await agent.dispose()
        await ctx.sessions.delete("s1")
        assert not await journal.known("s1")
    assert list((tmp_path / "sessions.sqlite.programs").iterdir()) == []


async def test_a_delegated_agent_is_not_suspended(tmp_path: Path, no_leaks: None):
    # Whoever has delegated waits for it.
    from dsh_tools.agent import agent_tool

    async with application(tmp_path, mode="native") as ctx:
        inner = lambda: ScriptedModel([say("", call("pay", name="a", value=1)), say_result])  # noqa: E731
        ctx.tools.register(agent_tool(ctx, inner, name="helper", description="Helps."))
        agent = await start(ctx, ScriptedModel([say("", call("helper", task="pay")), say_result]))
        assert agent.last_outcome is not None
        assert "no approval channel is available" in agent.last_outcome.text


async def test_errors_of_an_idle_or_busy_agent(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, mode="native", journal=False) as ctx:
        agent = await start(ctx, ScriptedModel([say("done")]))
        with pytest.raises(SessionError, match="waits for nobody"):
            await agent.resume()


async def test_observers_count_a_waiting_call_out(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, metrics={}) as ctx:
        metrics = ctx.require(METRICS)
        agent = await start(ctx, program_of(TYPESCRIPT))
        assert {name: tool.running for name, tool in metrics.snapshot().items()} == {
            "run_code": 0,
            "effect": 0,
            "pay": 0,
        }
        await answer_all(ctx)
        await agent.resume()
        assert {name: tool.calls for name, tool in metrics.snapshot().items()} == {"run_code": 1, "effect": 2, "pay": 1}
        assert all(tool.running == 0 for tool in metrics.snapshot().values())


async def test_a_program_that_a_person_has_to_allow_waits_before_it_begins(tmp_path: Path, no_leaks: None):
    rules = {"rules": [{"tool": "run_code", "action": "ask", "reason": "a program"}]}
    program = 'return [await tools.effect({ name: "a", value: 1 }), await tools.pay({ name: "b", value: 2 })];'
    async with application(tmp_path, policy=rules) as ctx:
        await start(ctx, program_of(program))
    assert effects(tmp_path / "effects") == []
    async with application(tmp_path, policy=rules) as ctx:
        (question,) = open_questions((await ctx.sessions.read("s1")).events)
        assert question.tool_name == "run_code"
        await answer_all(ctx)
        outcome = await (await go_on(ctx)).resume()
        assert '"b is paid"' in outcome.text
    assert effects(tmp_path / "effects") == ["a 1", "b 2"]


async def test_a_grant_under_other_rules_is_asked_for_again(tmp_path: Path, no_leaks: None):
    # D43: what was allowed was allowed under the rules that were in force.
    batch = ScriptedModel([say("", call("pay", name="a", value=1)), say_result])
    async with application(tmp_path, mode="native") as ctx:
        await start(ctx, batch)
        await answer_all(ctx)
    stricter = {"rules": [{"tool": "pay", "action": "ask", "reason": "it costs more money"}]}
    async with application(tmp_path, mode="native", policy=stricter) as ctx:
        agent = await go_on(ctx)
        assert (await agent.resume()).reason == Waiting()
        assert effects(tmp_path / "effects") == []
        (question,) = open_questions(agent.session.events)
        assert "it costs more money; the answer was given under other rules" in str(question.reason)
        await answer_all(ctx)
        assert (await agent.resume()).text == "a is paid"


async def test_an_answer_counts_for_its_own_call_only(tmp_path: Path, no_leaks: None):
    # Providers repeat ids: the second turn's call has the id and the arguments of the first one's.
    same = {"name": "pay", "call_id": "same", "arguments": '{"name": "a", "value": 1}'}
    block = ToolCallBlock(same["call_id"], same["name"], same["arguments"])
    model = ScriptedModel([say("", block), say_result, say("", block), say_result])
    async with application(tmp_path, mode="native") as ctx:
        agent = await start(ctx, model)
        await answer_all(ctx)
        assert (await agent.resume()).text == "a is paid"
        assert (await agent.run("again")).reason == Waiting()
        assert len(open_questions(agent.session.events)) == 1
    assert effects(tmp_path / "effects") == ["a 1"]


async def test_a_program_that_ends_too_early_has_diverged(tmp_path: Path, no_leaks: None):
    program = 'await tools.effect({ name: "a", value: 1 }); return await tools.pay({ name: "b", value: 1 });'
    async with application(tmp_path) as ctx:
        agent = await start(ctx, program_of(program))
        await answer_all(ctx)
        journal = ctx.require("journal").journal
        (key,) = await journal.known("s1")
        run = (await journal.load("s1")).runs[key]
        reopened = await journal.reopen_run("s1", key, run, {})
        reopened.write(JournalStep(9, "call", "effect", "f" * 64, "started"))
        reopened.close()
        outcome = await agent.resume()
        assert "request 9 was a call of effect with arguments ffffffffffff, and did not come" in outcome.text
    assert names(tmp_path) == ["a", "b"]


async def test_stored_answers_are_checked(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, mode="native") as ctx:
        agent = await start(ctx, ScriptedModel([say("", call("pay", name="a", value=1)), say_result]))
        (question,) = open_questions(agent.session.events)
        for live in (True, False):
            if not live:
                await agent.dispose()
            for wrong, code in (
                ({"question_id": "nobody", "outcome": "rejected"}, "UNKNOWN_QUESTION"),
                ({"question_id": question.id, "outcome": "unavailable"}, "INVALID_ANSWER"),
                ({"question_id": question.id, "outcome": "rejected", "digest": "0" * 64}, "OTHER_ARGUMENTS"),
            ):
                with pytest.raises(ApprovalError) as caught:
                    await answer_question(ctx.sessions, "s1", **wrong)
                assert caught.value.code == code
        await answer_question(ctx.sessions, "s1", question.id, "rejected", "no", digest=question.arguments_digest)
        with pytest.raises(ApprovalError, match="answered already: rejected"):
            await answer_question(ctx.sessions, "s1", question.id, "allowed-once")
        with refused("SESSION_NOT_FOUND"):
            await answer_question(ctx.sessions, "s2", question.id, "allowed-once")


async def test_two_stores_answer_at_once_and_one_wins(tmp_path: Path, no_leaks: None):
    # Each store is another process, so to speak: they share nothing but the file and its locks.
    async with application(tmp_path, mode="native") as ctx:
        agent = await start(ctx, ScriptedModel([say("", call("pay", name="a", value=1)), say_result]))
        (question,) = open_questions(agent.session.events)
    stores = [SqliteStore(tmp_path / "sessions.sqlite") for _ in range(6)]
    attempts = (
        answer_question(Sessions(store), "s1", question.id, "allowed-once" if number % 2 else "rejected")
        for number, store in enumerate(stores)
    )
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    assert outcomes.count(None) == 1
    codes = {outcome.code for outcome in outcomes if isinstance(outcome, ApprovalError)}
    assert codes == {"ALREADY_ANSWERED"}
    for store in stores:
        await store.close()


async def test_images_and_contexts_of_journaled_calls_reach_the_model(tmp_path: Path, no_leaks: None):
    # CODE-112, 113
    def picture(ctx: Any) -> None:
        async def body(_args: Any, run: Any) -> str:
            note(tmp_path / "effects", "picture 1")
            run.defer_context("a word to the model")
            return "shown"

        ctx.tools.register(
            ToolDefinition(
                name="picture",
                description="Show a picture.",
                parameters=ANYTHING,
                output=OutputSpec(
                    {}, render=lambda _args, _value: (TextBlock("see"), ImageBlock("aGVsbG8=", "image/png"))
                ),
                execute=body,
            )
        )

    program = 'await tools.picture({}); return await tools.pay({ name: "a", value: 1 });'
    async with application(tmp_path) as ctx:
        picture(ctx)
        await start(ctx, program_of(program))
    seen: list[ModelRequest] = []
    async with application(tmp_path) as ctx:
        picture(ctx)
        await answer_all(ctx)
        agent = await go_on(ctx, model=ScriptedModel([lambda request: seen.append(request) or say("done")]))
        await agent.resume()
    blocks = [block for message in seen[0].messages for block in message.content]
    assert any(isinstance(block, ImageBlock) for block in blocks)
    assert any(isinstance(block, TextBlock) and block.text == "a word to the model" for block in blocks)
    assert names(tmp_path) == ["picture", "a"]


async def test_a_question_whose_turn_is_over_takes_no_answer(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, mode="native") as ctx:
        log = await ctx.sessions.create(id="s1")
        for type_name, data in (
            ("turn/start", {"turn": 1}),
            ("approval/asked", {"id": "q", "toolName": "pay"}),
            ("turn/end", {"turn": 1, "reason": {"kind": "interrupted"}}),
        ):
            log.append(type_name, data)
        with pytest.raises(ApprovalError, match="the turn that asked is over"):
            await answer_question(ctx.sessions, "s1", "q", "allowed-once")
