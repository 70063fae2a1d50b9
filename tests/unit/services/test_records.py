"""One record for each call: what it says, when it is written, and that runs that are alike have equal ones."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from tests.support.agents import LoggedAgent, LoneAgent
from tests.support.calls import Body, make_tool
from tests.support.code_mode import ScriptRuntime
from tests.support.sessions import answer, begin, new_log
from tests.support.sessions import call as call_event

from dsh_tools.content import ImageBlock, JsonBlock, TextBlock
from dsh_tools.errors import RegistrationError, ToolError
from dsh_tools.json_value import digest, to_json_text
from dsh_tools.kernel import AbortController, Context, create_context
from dsh_tools.messages import record_json
from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.services import ApprovalPlugin, CallRecordPlugin, PolicyPlugin, TimeoutPlugin, always
from dsh_tools.session import CallRecord, EventVocabulary, call_records, dump_jsonl, load_jsonl, repair_drafts
from dsh_tools.standard import standard
from dsh_tools.tools import (
    EXECUTE,
    POST_EXECUTE,
    PRE_EXECUTE,
    TOOL_RESULT,
    Accept,
    Allow,
    Ask,
    Block,
    Deny,
    ToolCall,
    ToolSuccess,
    tool,
)

PARAMETERS = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with create_context() as context:
        await context.plugin(ToolsPlugin())
        await context.plugin(ApprovalPlugin())
        await context.plugin(CallRecordPlugin())
        context.tools.register(make_tool(parameters=PARAMETERS))
        yield context


async def record_of(ctx: Context, arguments: Any = None, name: str = "t", agent: Any = None, **fields: Any) -> Any:
    """Make one call and return the record of it."""
    agent = LoggedAgent() if agent is None else agent
    await ctx.tools.execute(ToolCall(name, {} if arguments is None else arguments, "c1", agent=agent, **fields))
    return call_records(agent.session.events)[-1]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def verdicts(record: CallRecord) -> list[tuple[str, str]]:
    return [(asked.kind, asked.verdict) for asked in record.consulted]


# ── what it says ───────────────────────────────────────────────────────────────


async def test_a_plain_success(ctx: Context):
    record = await record_of(ctx, '{ "n": 1 }')
    assert (record.call_id, record.root_call_id, record.name, record.ending) == ("c1", "c1", "t", "completed")
    assert record.proposed == '{ "n": 1 }'
    assert record.arguments == {"n": 1}
    assert record.arguments_digest == digest({"n": 1})
    assert (record.consulted, record.approvals, record.policy_digest) == ((), (), None)
    assert record.result.is_error is False
    assert record.result.digest == sha256('"ok"')
    assert record.shown_digest == sha256('[{"type":"text","text":"ok"}]')
    assert (record.ran.tool, record.ran.owner, record.ran.isolation, record.ran.attempts) == ("t", "root", "task", 1)
    entry = ctx.tools.view().entries["t"]
    assert record.ran.schema_digest == digest({"parameters": entry.schema.parameters, "output": entry.output.json})
    assert record.measured.began <= record.measured.ended


async def test_a_failure_keeps_its_code_and_not_its_message(ctx: Context):
    # HOST-121
    ctx.tools.register(make_tool("fails", Body(ToolError("secret text", "E_ODD"))))
    agent = LoggedAgent()
    record = await record_of(ctx, name="fails", agent=agent)
    assert record.ending == "failed"
    assert record.result.error.code == "E_ODD"
    assert record.result.digest == sha256("secret text")
    event = agent.session.events[-1]
    assert event.type == "tool/record"
    assert "secret text" not in to_json_text(event.data)
    assert event.ignorable is True


async def test_defaults_are_among_the_arguments(ctx: Context):
    # D43
    @tool
    async def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    ctx.tools.register(add)
    record = await record_of(ctx, '{"a": 1}', "add")
    assert (record.proposed, record.arguments) == ('{"a": 1}', {"a": 1, "b": 2})
    assert record.arguments_digest == digest({"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("arguments", "name", "proposed", "kept"),
    [
        ('{"n": "x"}', "t", '{"n": "x"}', {"n": "x"}),
        ("{broken", "t", "{broken", UNSET),
        ("{}", "nobody", "{}", {}),
        ({"n": {1, 2}}, "t", "(not JSON: dict)", UNSET),
    ],
)
async def test_calls_that_cannot_run(ctx: Context, arguments: Any, name: str, proposed: Any, kept: Any):
    agent = LoggedAgent()
    await ctx.tools.execute(ToolCall(name, arguments, "c1", agent=agent))
    (record,) = call_records(agent.session.events)
    assert (record.proposed, record.arguments, record.ran) == (proposed, kept, None)
    assert record.ending == "invalid"
    assert (record.arguments_digest is None) == (kept is UNSET)


async def test_everybody_who_is_asked_is_there_with_a_verdict(ctx: Context):
    async def passes(subject: Any, next: Any) -> Any:
        return await next()

    async def allows(subject: Any, next: Any) -> Any:
        return Allow()

    def sync(subject: Any, next: Any) -> Any:
        return next()

    async def replaces(review: Any, next: Any) -> Any:
        return Accept(content=(TextBlock("other"),))

    def guard(execution: Any) -> None: ...

    ctx.on(PRE_EXECUTE, passes)
    ctx.on(PRE_EXECUTE, sync)
    ctx.on(PRE_EXECUTE, allows)
    ctx.tools.guard(guard)
    ctx.on(EXECUTE, passes)
    ctx.on(POST_EXECUTE, passes)
    ctx.on(POST_EXECUTE, replaces)
    record = await record_of(ctx)
    assert verdicts(record) == [
        ("listener", "passed"),
        ("listener", "passed"),
        ("listener", "allow"),
        ("guard", "passed"),
        ("wrapper", "passed"),
        ("reviewer", "passed"),
        ("reviewer", "replace"),
    ]
    assert [asked.name.rsplit(".", 1)[-1] for asked in record.consulted] == [
        "passes",
        "sync",
        "allows",
        "guard",
        "passes",
        "passes",
        "replaces",
    ]
    assert len(record.measured.consulted_ms) == len(record.consulted)
    assert record.shown_digest == sha256('[{"type":"text","text":"other"}]')
    assert record.result.digest == sha256('"ok"')


async def test_durations_are_ones_own(ctx: Context, monkeypatch: pytest.MonkeyPatch):
    now = [100.0]
    monkeypatch.setattr("dsh_tools.pipeline.watching.time", SimpleNamespace(perf_counter=lambda: now[0]))

    async def slow(subject: Any, next: Any) -> Any:
        now[0] += 0.25
        return Allow()

    async def waits(subject: Any, next: Any) -> Any:
        now[0] += 0.5
        decision = await next()
        now[0] += 1
        return decision

    ctx.on(PRE_EXECUTE, waits)
    ctx.on(PRE_EXECUTE, slow)
    assert (await record_of(ctx)).measured.consulted_ms == (1500, 250)


@pytest.mark.parametrize(
    ("answer", "ending", "said"),
    [
        (Deny("no"), "denied", ("deny", "no")),
        (RuntimeError("broken"), "denied", ("raised", "broken")),
        ("nonsense", "denied", ("invalid", None)),
        (Ask("why"), "denied", ("ask", "why")),
    ],
)
async def test_refusals_of_listeners(ctx: Context, answer: Any, ending: str, said: tuple[str, str | None]):
    async def decide(execution: Any, next: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    ctx.on(PRE_EXECUTE, decide)
    record = await record_of(ctx)
    assert (record.ending, record.ran) == (ending, None)
    assert (record.consulted[0].verdict, record.consulted[0].reason) == said


async def test_a_guards_denial_and_a_reviewers_block(ctx: Context):
    remove = ctx.tools.guard(lambda execution: "never")
    record = await record_of(ctx)
    assert (record.ending, verdicts(record)) == ("denied", [("guard", "deny")])
    remove()

    async def blocks(review: Any, next: Any) -> Any:
        return Block((TextBlock("withheld"),))

    ctx.on(POST_EXECUTE, blocks)
    record = await record_of(ctx)
    assert (record.ending, verdicts(record)) == ("blocked", [("reviewer", "block")])
    assert record.ran.attempts == 1


async def test_wrappers_that_answer_replace_or_try_again(ctx: Context):
    async def twice(execution: Any, next: Any) -> Any:
        await next()
        return await next()

    async def answers(execution: Any, next: Any) -> Any:
        return ToolSuccess("mine", (TextBlock("mine"),))

    async def replaces(execution: Any, next: Any) -> Any:
        await next()
        return ToolSuccess("mine", (TextBlock("mine"),))

    remove = ctx.on(EXECUTE, twice)
    assert (await record_of(ctx)).ran.attempts == 2
    remove()
    remove = ctx.on(EXECUTE, answers)
    record = await record_of(ctx)
    assert (verdicts(record), record.ran, record.ending) == ([("wrapper", "answered")], None, "completed")
    remove()
    ctx.on(EXECUTE, replaces)
    record = await record_of(ctx)
    assert (verdicts(record), record.ran.attempts) == ([("wrapper", "replaced")], 1)


async def test_who_approved_which_digest(ctx: Context):
    await ctx.plugin(PolicyPlugin(), {"default": "ask"})
    ctx.approval.answer_with(always("allowed-once", "go on"))
    agent = LoggedAgent()
    record = await record_of(ctx, '{"n": 1}', agent=agent)
    (approval,) = record.approvals
    assert (approval.outcome, approval.reason) == ("allowed-once", "go on")
    assert approval.by.endswith("always.<locals>.<lambda>")
    assert approval.arguments_digest == record.arguments_digest == digest({"n": 1})
    assert approval.policy_digest == record.policy_digest == ctx.tools.policy_digest()
    ((question, asked_at, decided_at),) = record.measured.questions
    assert question == agent.events("approval/asked")[0][1]["id"]  # type: ignore[index]
    assert record.measured.began <= asked_at <= decided_at <= record.measured.ended
    assert verdicts(record) == [("listener", "ask"), ("rule", "ask")]


async def test_what_was_approved_is_what_runs(ctx: Context):
    body = Body()
    shown: list[Any] = []
    ctx.tools.register(make_tool("w", body))
    await ctx.plugin(PolicyPlugin(), {"default": "ask"})

    def answer(request: Any) -> str:
        shown.append(request.arguments)
        return "allowed-once"

    ctx.approval.answer_with(answer)  # type: ignore[arg-type]
    given = {"a": [1]}
    record = await record_of(ctx, given, "w")
    (ran,) = body.calls
    assert ran is shown[0]
    assert digest(ran) == record.approvals[0].arguments_digest
    with pytest.raises(TypeError):
        ran["a"] = 2


async def test_what_a_body_asks_for_is_told_apart(ctx: Context):
    ctx.approval.answer_with(always("rejected"))

    async def body(args: Any, run: Any) -> str:
        answer = await ctx.approval.ask(
            agent=run.agent, tool_name=run.name, call_id=run.call_id, reason="more", purpose="network"
        )
        return answer.outcome

    ctx.tools.register(make_tool("wide", body))
    (approval,) = (await record_of(ctx, name="wide")).approvals
    assert (approval.outcome, approval.purpose, approval.arguments_digest) == ("rejected", "network", UNSET)


async def test_a_recorder_that_fails_costs_the_call_nothing(ctx: Context, caplog: pytest.LogCaptureFixture):
    class Odd(LoneAgent):
        reads = 0

        @property
        def session(self) -> Any:
            self.reads += 1
            raise RuntimeError("no such thing")

    agent = Odd()
    assert not (await ctx.tools.execute(ToolCall("t", {}, agent=agent))).is_error
    assert agent.reads == 1
    assert any("will have no record" in message for message in caplog.messages)


async def test_a_person_who_refuses(ctx: Context):
    await ctx.plugin(PolicyPlugin(), {"default": "ask"})
    ctx.approval.open_desk()
    agent = LoggedAgent()
    task = asyncio.create_task(record_of(ctx, agent=agent))
    while not ctx.approval.pending:
        await asyncio.sleep(0)
    ctx.approval.answer(ctx.approval.pending[0].id, "rejected", "not now", by="page")
    record = await task
    assert (record.ending, record.ran) == ("denied", None)
    assert (record.approvals[0].outcome, record.approvals[0].by) == ("rejected", "page")


async def test_calls_that_are_given_up(ctx: Context):
    controller = AbortController()
    controller.abort()
    assert (await record_of(ctx, signal=controller.signal)).ending == "not-started"
    running = AbortController()

    async def body(args: Any, run: Any) -> str:
        running.abort()
        await asyncio.sleep(60)
        return "late"

    ctx.tools.register(make_tool("slow", body))
    record = await record_of(ctx, name="slow", signal=running.signal)
    assert (record.ending, record.ran.attempts) == ("aborted", 1)
    assert (record.stopped.cause, record.stopped.ending) == ("caller", "cancelled")


async def test_calls_that_run_out_of_time(ctx: Context):
    await ctx.plugin(TimeoutPlugin())

    async def body(args: Any, run: Any) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "late"
        return "in time"

    ctx.tools.register(make_tool("slow", body, timeout_ms=5))
    record = await record_of(ctx, name="slow")
    assert (record.ending, record.result.error.code) == ("timed-out", "TOOL_TIMEOUT")
    assert (record.stopped.cause, record.stopped.ending) == ("limit", "returned")
    assert record.measured.stop_seconds is not None
    assert (await record_of(ctx)).stopped is None


async def test_a_cancelled_call_leaves_its_record(ctx: Context):
    # D30
    started = asyncio.Event()

    async def body(args: Any, run: Any) -> str:
        started.set()
        await asyncio.sleep(60)
        return "late"

    async def around(execution: Any, next: Any) -> Any:
        return await next()

    ctx.tools.register(make_tool("slow", body))
    ctx.on(EXECUTE, around)
    agent = LoggedAgent()
    task = asyncio.create_task(record_of(ctx, name="slow", agent=agent))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (record,) = call_records(agent.session.events)
    assert record.ending == "aborted"


async def test_content_that_only_our_own_writer_can_write(ctx: Context):
    deep: Any = 1
    for _ in range(3_000):
        deep = [deep]
    blocks = (JsonBlock(deep), TextBlock("\ud800"))
    ctx.tools.register(make_tool("odd", render=lambda args, value: blocks))
    record = await record_of(ctx, name="odd")
    assert record.shown_digest == sha256(to_json_text([record_json(block) for block in blocks]))
    plain = (ImageBlock("aGk=", "image/png"), TextBlock("é"))
    ctx.tools.register(make_tool("plain", render=lambda args, value: plain))
    record = await record_of(ctx, name="plain")
    assert record.shown_digest == sha256(to_json_text([record_json(block) for block in plain]))


async def test_reasons_with_half_a_character(ctx: Context):
    ctx.tools.guard(lambda execution: "no \ud800")
    assert (await record_of(ctx)).consulted[0].reason == "no \ud800"


# ── when it is written ─────────────────────────────────────────────────────────


async def test_calls_without_a_log_are_not_recorded(ctx: Context):
    seen: list[Any] = []
    ctx.on(TOOL_RESULT, lambda execution, result: seen.append(execution.state.trace))
    await ctx.tools.execute(ToolCall("t", {}))
    await ctx.tools.execute(ToolCall("t", {}, agent=LoneAgent()))
    closed = LoggedAgent()
    await closed.session.close()
    await ctx.tools.execute(ToolCall("t", {}, agent=closed))
    assert seen == [None, None, None]


async def test_without_the_plugin_nothing_is_traced(no_leaks: None):
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin())
        ctx.tools.register(make_tool())
        agent = LoggedAgent()
        await ctx.tools.execute(ToolCall("t", {}, agent=agent))
        assert call_records(agent.session.events) == []
        fiber = ctx.plugin(CallRecordPlugin())
        await fiber
        await ctx.tools.execute(ToolCall("t", {}, agent=agent))
        await fiber.dispose()
        await ctx.tools.execute(ToolCall("t", {}, agent=agent))
        assert len(call_records(agent.session.events)) == 1
        assert ctx.tools.service.tracer is None


async def test_there_can_be_one_tracer(ctx: Context):
    with pytest.raises(RegistrationError, match="traced already"):
        await ctx.plugin(CallRecordPlugin())


async def test_a_log_that_closes_meanwhile_gets_no_record(ctx: Context, caplog: pytest.LogCaptureFixture):
    agent = LoggedAgent()

    async def body(args: Any, run: Any) -> str:
        await agent.session.close()
        return "ok"

    ctx.tools.register(make_tool("closes", body))
    with caplog.at_level(logging.WARNING, "dsh_tools"):
        assert not (await ctx.tools.execute(ToolCall("closes", {}, agent=agent))).is_error
    assert call_records(agent.session.events) == []
    assert caplog.messages == []


async def test_a_record_that_the_log_refuses_costs_the_call_nothing(ctx: Context, caplog: pytest.LogCaptureFixture):
    agent = LoggedAgent()
    with caplog.at_level(logging.WARNING, "dsh_tools"):
        result = await ctx.tools.execute(ToolCall("t", {}, call_id="", agent=agent))
    assert not result.is_error
    assert any("_Records.settled" in message for message in caplog.messages)


async def test_the_default_composition_records_where_sessions_are_kept(tmp_path: Path):
    kept = {"sessions": {"store": "sqlite", "path": str(tmp_path / "s.sqlite")}}
    for settings_, expected in (({}, False), ({"call_records": True}, True), (kept, True)):
        async with standard(**settings_) as ctx:
            assert (ctx.tools.service.tracer is not None) is expected
    async with standard(**kept, call_records=False) as ctx:
        assert ctx.tools.service.tracer is None


# ── runs, replays ──────────────────────────────────────────────────────────────


async def script(program: Any) -> Any:
    first = await program.call("t", {"n": 1})
    try:
        await program.call("t", {"n": 2})
    except Exception as error:
        return [first, str(error)]
    return first


SCRIPT = (
    say("a", call("t", {"n": 1}), call("t", '{"n": "x"}'), call("t", {"n": 2}), call("nobody")),
    say("b", call("run_code", {"code": "whatever"})),
    say("c", call("t", '{ "n" : 3 }', id="call_1_1")),
    "done",
)


@asynccontextmanager
async def world(**fields: Any) -> AsyncIterator[Any]:
    """An application whose policy lets 1 run, asks about 3 and denies 2."""
    rules = [
        {"tool": "t", "arguments": {"n": 2}, "action": "deny", "reason": "two"},
        {"tool": "t", "arguments": {"n": 3}, "action": "ask"},
    ]
    async with standard(call_records=True, policy={"rules": rules}, **fields) as ctx:
        ctx.provide("code_runtime", ScriptRuntime(script))
        ctx.tools.register(make_tool(parameters=PARAMETERS))
        ctx.approval.answer_with(always("allowed-once"))
        yield ctx


async def run_script(ctx: Context) -> Any:
    agent = await ctx.agents.create("main", ScriptedModel(SCRIPT))
    agent.ctx.tools.present_as("both")
    await agent.run("go")
    return agent


async def test_the_records_of_two_runs_are_equal(no_leaks: None):
    found = []
    for _ in range(2):
        async with world() as ctx:
            agent = await run_script(ctx)
            found.append(call_records(agent.session.events))
    first, second = found
    assert [record.ending for record in first] == [
        "completed",
        "invalid",
        "denied",
        "invalid",
        "completed",
        "denied",
        "completed",
        "completed",
    ]
    assert first == second
    assert [record.measured for record in first] != [record.measured for record in second]
    assert first[0] != first[1]
    assert first[0] != "something else"


async def test_each_record_finds_its_calls_own_events(no_leaks: None):
    async with world() as ctx:
        agent = await run_script(ctx)
        events = agent.session.events
        records = call_records(events)
        assert len(records) == sum(event.type in ("tool/call", "tool/code-dispatch-start") for event in events)
        for record in records:
            called, ended = events[record.call_seq], events[record.result_seq]
            assert record.call_seq < record.seq < record.result_seq
            if called.type == "tool/call":
                # The model's text, byte for byte; and the call that shares its id with another one is its own.
                assert record.proposed == called.data["arguments"]
                assert ended.source_event_seqs == (called.seq,)
                text = ended.data["message"]["content"][0]["content"]
                assert record.shown_digest == sha256(to_json_text(text))
            else:
                assert (record.proposed, record.arguments) == (called.data["arguments"], called.data["arguments"])
                assert ended.data["subCallId"] == record.call_id
        raw = [event.data for event in events if event.type == "tool/record"]
        assert not any("proposed" in data or "arguments" in data for data in raw)
        roots = {record.call_id: record.root_call_id for record in records}
        assert roots["call_2_1:code:1"] == "call_2_1"


async def test_the_records_of_a_stored_session_are_those_of_the_live_one(no_leaks: None, tmp_path: Path):
    sessions = {"store": "sqlite", "path": str(tmp_path / "s.sqlite")}
    async with world(sessions=sessions) as ctx:
        agent = await run_script(ctx)
        live = call_records(agent.session.events)
        session = agent.session.id
    async with world(sessions=sessions) as ctx:
        stored = await ctx.sessions.read(session)
        assert call_records(stored.events) == live
        lines = "\n".join(dump_jsonl(stored.header, stored.events)).encode().splitlines(keepends=True)
        assert call_records(load_jsonl(lines).events) == live


def test_records_that_cannot_be_read_are_passed_over():
    agent = LoggedAgent()
    agent.session.append("x", {}, ignorable=True)
    event = msgspec.structs.replace(agent.session.events[-1], type="tool/record", data={"callId": "c"})
    assert call_records([event]) == []
    assert "tool/record" in EventVocabulary()


async def test_calls_that_nobody_recorded_tell_what_the_log_tells(no_leaks: None):
    async with world() as ctx:
        agent = await run_script(ctx)
        written = call_records(agent.session.events)
        events = [event for event in agent.session.events if event.type != "tool/record"]
        derived = call_records(events)
    assert [record.seq for record in derived] == [None] * len(written)
    # A denial carries no code, and what nobody noted is not made up.
    endings = [record.ending if record.ending != "denied" else "failed" for record in written]
    assert [record.ending for record in derived] == endings
    told = ("call_id", "root_call_id", "name", "proposed", "shown_digest", "approvals", "call_seq", "result_seq")
    for one, other in zip(derived, written, strict=True):
        assert [getattr(one, name) for name in told] == [getattr(other, name) for name in told]
        assert (one.consulted, one.ran, one.arguments, one.arguments_digest) == ((), None, UNSET, None)
        assert one.result.is_error == other.result.is_error
        assert one.result.error == other.result.error
        assert [question[0] for question in one.measured.questions] == [
            question[0] for question in other.measured.questions
        ]


async def test_calls_that_never_came_into_the_pipeline_are_among_the_records(no_leaks: None):
    # HOST-156: what an abort keeps from starting is logged with its result.
    async with world() as ctx:

        async def stops(args: Any, run: Any) -> str:
            run.agent.cancel()
            await asyncio.sleep(60)
            return "late"

        ctx.tools.register(make_tool("stops", stops))
        agent = await ctx.agents.create("main", ScriptedModel([say("", call("stops"), call("t", n=1)), "done"]))
        await agent.run("go")
        stopped, skipped = call_records(agent.session.events)
    assert (stopped.name, stopped.ending, stopped.seq is not None) == ("stops", "aborted", True)
    assert (skipped.name, skipped.ending, skipped.seq) == ("t", "not-started", None)
    assert (skipped.proposed, skipped.ran, skipped.result.error.code) == ('{"n":1}', None, "ABORTED_BEFORE_DISPATCH")


async def test_a_call_whose_process_died_is_among_the_records(no_leaks: None):
    log = new_log()
    begin(log)
    answer(log, "", ("c1", "t", "{}"), ("c2", "t", '{"n": 2}'))
    call_event(log, "c1")
    for draft in repair_drafts(log.events):
        log.append_draft(draft)
    first, second = call_records(log.events)
    assert (first.call_id, first.ending) == ("c1", "unknown")
    assert (second.call_id, second.ending, second.proposed) == ("c2", "not-started", '{"n": 2}')


@settings(max_examples=40)
@given(
    listeners=st.lists(st.sampled_from(["pass", "allow", "deny", "ask", "raise"]), max_size=4),
    guards=st.lists(st.sampled_from(["pass", "deny", "raise"]), max_size=3),
    wrappers=st.lists(st.sampled_from(["pass", "raise", "answer"]), max_size=2),
)
def test_being_recorded_changes_no_call(listeners: list[str], guards: list[str], wrappers: list[str]):
    """The same call with and without a record ends in the same result, whatever listens."""

    def listener(kind: str) -> Any:
        async def listen(subject: Any, next: Any) -> Any:
            if kind == "raise":
                raise RuntimeError("broken")
            if kind == "answer":
                return ToolSuccess("mine", (TextBlock("mine"),))
            return await next() if kind == "pass" else {"allow": Allow(), "deny": Deny("no"), "ask": Ask("?")}[kind]

        return listen

    def guard(kind: str) -> Any:
        def check(execution: Any) -> str | None:
            if kind == "raise":
                raise RuntimeError("broken guard")
            return "never" if kind == "deny" else None

        return check

    async def once(recorded: bool) -> Any:
        async with create_context() as ctx:
            await ctx.plugin(ToolsPlugin())
            await ctx.plugin(ApprovalPlugin())
            ctx.approval.answer_with(always("allowed-once"))
            if recorded:
                await ctx.plugin(CallRecordPlugin())
            body = Body()
            ctx.tools.register(make_tool("t", body))
            for kind in listeners:
                ctx.on(PRE_EXECUTE, listener(kind))
            for kind in guards:
                ctx.tools.guard(guard(kind))
            for kind in wrappers:
                ctx.on(EXECUTE, listener(kind))
            agent = LoggedAgent()
            result = await ctx.tools.execute(ToolCall("t", {}, agent=agent))
            records = call_records(agent.session.events)
            assert len(records) == recorded
            assert all((record.ran is not None) == bool(body.calls) for record in records)
            return result, len(body.calls)

    assert asyncio.run(once(True)) == asyncio.run(once(False))
