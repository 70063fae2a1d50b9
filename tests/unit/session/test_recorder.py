"""What is written for a call and its result, and the checkpoint before a body, with the real pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.sessions import begin, end, new_log

from dsh_tools.content import TextBlock, text
from dsh_tools.errors import SessionError, ToolArgsError
from dsh_tools.kernel import AbortController
from dsh_tools.kernel.context import Context, create_context
from dsh_tools.messages import ToolCallBlock
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.session import (
    DurabilityPlugin,
    EventLog,
    MemoryStore,
    Recorder,
    RecorderPlugin,
    log_of,
    record_call,
    record_dispatch,
    record_dispatch_start,
    record_result,
    record_skipped,
)
from dsh_tools.testing.store_conformance import refused
from dsh_tools.tools.definition import ToolDefinition
from dsh_tools.tools.events import PRE_EXECUTE, Deny
from dsh_tools.tools.execution import ToolCall
from dsh_tools.tools.result import ErrorInfo, ToolSuccess, failure, failure_from

CALL = ToolCallBlock("c1", "t", '{"a": \ud800')


@pytest.fixture
def log() -> EventLog:
    log = new_log()
    begin(log)
    return log


def test_a_call_is_logged_as_the_model_wrote_it(log: EventLog):
    # HOST-118
    event = record_call(log, CALL)
    assert event.data == {"turn": 1, "step": 1, "callId": "c1", "name": "t", "arguments": '{"a": \ud800'}
    assert event.type == "tool/call"


def test_a_success_is_logged_without_its_value(log: EventLog):
    # HOST-119, 121, PIPE-232
    called = record_call(log, CALL)
    result = ToolSuccess({"secret": 1}, text("shown"), {"lines": 2}, concludes_turn=True)
    event = record_result(log, CALL, called, result)
    assert event.source_event_seqs == (called.seq,)
    assert event.surface_op == "append"
    assert event.data == {
        "turn": 1,
        "step": 1,
        "message": {
            "role": "user",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "content": [{"type": "text", "text": "shown"}],
                    "isError": False,
                }
            ],
            "source": {"kind": "tool", "callId": "c1"},
        },
        "meta": {"lines": 2},
    }


def test_only_typed_failures_carry_an_error(log: EventLog):
    # HOST-120, PIPE-232: the message of the error is not logged, and a denial has no error at all.
    typed = record_result(log, CALL, record_call(log, CALL), failure_from(ToolArgsError(["a: wrong"])))
    assert typed.data["error"] == {"name": "ToolArgsError", "code": "INVALID_ARGS"}
    plain = record_result(log, CALL, record_call(log, CALL), failure("no"))
    assert "error" not in plain.data
    assert "meta" not in plain.data
    assert plain.data["message"]["content"][0]["isError"] is True


def test_a_call_that_never_started_has_both_events(log: EventLog):
    # HOST-155, PIPE-201
    called, result = record_skipped(log, CALL)
    assert (called.type, result.type) == ("tool/call", "tool/result")
    assert result.data["error"] == {"name": "AbortError", "code": "ABORTED_BEFORE_DISPATCH"}
    (block,) = result.data["message"]["content"]
    assert block["content"] == [{"type": "text", "text": "Error: tool call aborted before dispatch"}]


def test_calls_that_share_an_id_are_told_apart_by_their_events(log: EventLog):
    # HOST-163, 168
    one, two = record_call(log, CALL), record_call(log, CALL)
    second = record_result(log, CALL, two, ToolSuccess(2, text("2")))
    first = record_result(log, CALL, one, ToolSuccess(1, text("1")))
    assert (first.source_event_seqs, second.source_event_seqs) == ((one.seq,), (two.seq,))


def test_a_call_needs_an_open_step():
    log = new_log()
    with refused("INVALID_NESTING"):
        record_call(log, CALL)
    log.append("turn/start", {"turn": 1})
    with refused("INVALID_NESTING"):
        record_skipped(log, CALL)


def dispatch(log: EventLog, sub_call_id: str = "c1:code:1", arguments: Any = None) -> Any:
    return record_dispatch_start(
        log,
        root_call_id="c1",
        parent_call_id="c1",
        sub_call_id=sub_call_id,
        name="t",
        arguments={"a": [1]} if arguments is None else arguments,
    )


def test_calls_of_programs_have_a_start_and_an_end(log: EventLog):
    # HOST-122
    arguments: dict[str, Any] = {"a": [1]}
    start = dispatch(log, arguments=arguments)
    arguments["a"].append(2)
    settled = record_dispatch(log, start, is_error=True, content=[TextBlock("Error: no")])
    assert start.data["arguments"] == {"a": [1]}
    assert settled.data == {
        **start.data,
        "isError": True,
        "content": [{"type": "text", "text": "Error: no"}],
    }
    with refused("INVALID_DISPATCH"):
        record_dispatch(log, start, is_error=False, content=())


class Agent:
    def __init__(self, session: object = None) -> None:
        self.scope = None
        self.session = session


def test_the_recorder_serves_agents_with_a_session(log: EventLog):
    # CODE-106
    recorder = Recorder()
    ids = {"root_call_id": "c1", "parent_call_id": "c1", "sub_call_id": "c1:code:1", "name": "t"}
    start = recorder.dispatch_started(Agent(log), **ids, arguments={})
    recorder.dispatch_settled(Agent(log), start, is_error=False, content=text("x"))
    assert [event.type for event in log.events[-2:]] == ["tool/code-dispatch-start", "tool/code-dispatch"]
    for agent in (None, Agent(), Agent("no log"), object()):
        assert log_of(agent) is None
        assert recorder.dispatch_started(agent, **ids, arguments={}) is None
        recorder.dispatch_settled(agent, None, is_error=False, content=())


# ── the checkpoint before a body ───────────────────────────────────────────────


class SlowStore(MemoryStore):
    """A memory store that can be held up and can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.broken = False
        self.flushed = 0

    async def create(self, header: Any, events: Any = ()) -> Any:
        writer = await super().create(header, events)
        original = writer.append

        async def append(batch: Any) -> None:
            await self.gate.wait()
            if self.broken:
                raise OSError("disk full")
            await original(batch)
            self.flushed += len(batch)

        writer.append = append
        return writer


@pytest.fixture
async def app(no_leaks: None) -> AsyncIterator[tuple[Context, SlowStore, Agent, list[str]]]:
    ctx = create_context()
    ran: list[str] = []
    await ctx.plugin(ToolsPlugin)
    await ctx.plugin(DurabilityPlugin)
    await ctx.plugin(RecorderPlugin)
    store = SlowStore()
    log = new_log()
    log.keep(await store.create(log.header), 0)
    begin(log)

    async def body(args: Any, run: Any) -> str:
        ran.append(f"{store.flushed} durable of {len(log.events)}")
        if args.get("nested"):
            call = ToolCall("inner", {}, "c1:code:1", agent=run.agent, parent=run.token, signal=run.signal)
            await ctx.tools.execute(call)
        return "ok"

    for name in ("outer", "inner"):
        ctx.tools.register(
            ToolDefinition(
                name=name,
                description=name,
                parameters={"type": "object", "properties": {"nested": {"type": "boolean"}}},
                output={"schema": {"type": "string"}, "render": lambda args, value: text(value)},
                execute=body,
            )
        )
    assert isinstance(ctx.get("recorder"), Recorder)
    yield ctx, store, Agent(log), ran
    store.broken = False
    store.gate.set()
    await log.close()
    await ctx.dispose()


async def test_a_call_is_durable_before_its_body_runs(app: Any):
    # HOST-127
    ctx, _store, agent, ran = app
    record_call(agent.session, CALL)
    result = await ctx.tools.execute(ToolCall("outer", "{}", "c1", agent=agent))
    assert not result.is_error
    assert ran == ["3 durable of 3"]


async def test_a_flush_that_fails_keeps_the_body_from_running(app: Any):
    # HOST-127: fails closed
    ctx, store, agent, ran = app
    await agent.session.flush()
    store.broken = True
    record_call(agent.session, CALL)
    result = await ctx.tools.execute(ToolCall("outer", "{}", "c1", agent=agent))
    assert result.is_error
    assert result.error.info == ErrorInfo("SessionError", "STORE_FAILED")
    assert ran == []


async def test_an_abort_during_the_flush_is_an_abort_before_dispatch(app: Any):
    # HOST-127
    ctx, store, agent, ran = app
    await agent.session.flush()
    store.gate.clear()
    record_call(agent.session, CALL)
    controller = AbortController()
    running = asyncio.ensure_future(
        ctx.tools.execute(ToolCall("outer", "{}", "c1", agent=agent, signal=controller.signal))
    )
    await asyncio.sleep(0.02)
    controller.abort()
    result = await running
    assert result.error.info == ErrorInfo("AbortError", "ABORTED_BEFORE_DISPATCH")
    assert ran == []


async def test_a_nested_call_rests_on_the_outer_checkpoint(app: Any):
    # HOST-127
    ctx, store, agent, ran = app
    record_call(agent.session, CALL)

    async def hold(execution: Any, proceed: Any) -> Any:
        if execution.name == "inner":
            store.gate.clear()
            end(agent.session)
        return await proceed()

    ctx.on(PRE_EXECUTE, hold)
    result = await ctx.tools.execute(ToolCall("outer", '{"nested": true}', "c1", agent=agent))
    assert not result.is_error
    assert ran == ["3 durable of 3", "3 durable of 5"]


async def test_denied_calls_and_agents_without_a_session_flush_nothing(app: Any):
    # HOST-127: after pre-execute and guards
    ctx, store, agent, ran = app
    await agent.session.flush()
    store.gate.clear()
    record_call(agent.session, CALL)
    assert not (await ctx.tools.execute(ToolCall("outer", "{}", "c1", agent=Agent()))).is_error
    ctx.on(PRE_EXECUTE, lambda execution, proceed: Deny("no"))
    assert (await ctx.tools.execute(ToolCall("outer", "{}", "c1", agent=agent))).is_error
    assert len(ran) == 1
    with pytest.raises(SessionError):
        store.broken = True
        store.gate.set()
        await agent.session.flush()
