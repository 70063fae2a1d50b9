"""The agent loop: turns, steps, batches, the inbox. HOST sections 8, 10 and rules 57 to 61."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.calls import Body, make_tool

from dsh_tools.agent import (
    AGENT_DISPOSED,
    AGENT_IDLE,
    MODEL_EVENT,
    SESSION_START,
    TURN_END,
    Agent,
    AgentConfig,
    AgentsPlugin,
)
from dsh_tools.errors import AbortError, SessionError
from dsh_tools.kernel import AbortController, Context, create_context
from dsh_tools.messages import ToolResultBlock
from dsh_tools.model import Finish, ModelFailure, ScriptedCall, ScriptedModel, call, say
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.session.events import Failed
from dsh_tools.standard import standard
from dsh_tools.tools import Deny

pytestmark = pytest.mark.usefixtures("no_leaks")


@asynccontextmanager
async def agent_with(*script: Any, **fields: Any) -> AsyncGenerator[tuple[Context, Agent]]:
    async with standard() as ctx:
        agent = await ctx.agents.create("main", ScriptedModel(script), **fields)
        yield ctx, agent


def types(agent: Agent) -> list[str]:
    hidden = ("inbox/insert", "inbox/claim", "session/end-seed", "prompt/assembled")
    return [event.type for event in agent.session.events if event.type not in hidden]


def results(agent: Agent) -> list[tuple[str, str]]:
    """Each result's call id and text, in the log's order."""
    found = []
    for event in agent.session.events:
        if event.type == "tool/result":
            block = event.data["message"]["content"][0]
            found.append((block["toolCallId"], block["content"][0]["text"]))
    return found


def end_of(agent: Agent) -> dict[str, Any]:
    return agent.session.events[-1].data["reason"]


def sleeper(name: str, ms: int, log: list[str], parallel: bool = True) -> Any:
    async def body(args: Any, run: Any) -> str:
        log.append(f"begin {name}")
        try:
            await asyncio.sleep(ms / 1000)
        finally:
            log.append(f"end {name}")
        return name

    return make_tool(name, body, is_concurrency_safe=lambda _a: parallel)


async def test_a_turn_is_nested_steps_in_the_log() -> None:
    # HOST-124, 118, 119, 126
    async with agent_with(say("hm", call("t", x=1)), "done") as (ctx, agent):
        ctx.tools.register(make_tool())
        outcome = await agent.run("hello")
        assert outcome.text == "done"
        assert types(agent) == [
            "turn/start",
            "step/start",
            "user/message",
            "user/message",  # how things stand
            "assistant/message",
            "tool/call",
            "tool/result",
            "step/end",
            "step/start",
            "assistant/message",
            "step/end",
            "turn/end",
        ]
        assert end_of(agent) == {"kind": "completed"}
        called = next(event for event in agent.session.events if event.type == "tool/call")
        assert called.data["arguments"] == '{"x":1}'
        second = agent.model.requests[1]  # type: ignore[attr-defined]
        assert isinstance(second.messages[-1].content[0], ToolResultBlock)
        assert [tool.name for tool in second.tools] == ["t"]


async def test_results_are_committed_in_the_models_order() -> None:
    # HOST-146, 151, 152
    log: list[str] = []
    calls = (call("slow"), call("fast"), call("alone"), call("fast"))
    async with agent_with(say("", *calls), "done") as (ctx, agent):
        ctx.tools.register(sleeper("slow", 60, log))
        ctx.tools.register(sleeper("fast", 5, log))
        ctx.tools.register(sleeper("alone", 5, log, parallel=False))
        await agent.run("go")
        assert [text for _, text in results(agent)] == ["slow", "fast", "alone", "fast"]
        assert log[:3] == ["begin slow", "begin fast", "end fast"]
        assert log.index("end slow") < log.index("begin alone") < log.index("end alone")


async def test_every_fault_of_the_model_is_one_result() -> None:
    # HOST-145, 161; field-003, 051, 063
    calls = (
        ScriptedCall("t", '{"x": 1'),
        ScriptedCall("nobody", "{}"),
        ScriptedCall("t", '{"x": 1}'),
        ScriptedCall("denied", "{}"),
    )
    async with agent_with(say("", *calls), "done") as (ctx, agent):
        ctx.tools.register(make_tool())
        ctx.tools.register(make_tool("denied"))

        async def policy(execution: Any, next: Any) -> Any:
            return Deny("not that one") if execution.name == "denied" else await next()

        ctx.on("tools/pre-execute", policy)
        outcome = await agent.run("go")
        assert outcome.text == "done"
        texts = [text for _, text in results(agent)]
        assert texts[0].startswith("Error: invalid arguments: ")
        assert texts[1:] == ['Error: unknown tool "nobody"', "ok", "Error: not that one"]
        errors = [event.data.get("error") for event in agent.session.events if event.type == "tool/result"]
        # HOST-120: a denial carries no code
        assert [error and error["code"] for error in errors] == ["INVALID_ARGS", "UNKNOWN_TOOL", None, None]


async def test_contexts_wait_for_the_next_step() -> None:
    # HOST-153, 154
    bodies = [Body(lambda _a, run, n=n: run.defer_context(f"context {n}") or "ok") for n in (1, 2)]
    async with agent_with(say("", call("one"), call("two")), "done") as (ctx, agent):
        for name, body in zip(("one", "two"), bodies, strict=True):
            ctx.tools.register(make_tool(name, body))
        await agent.run("go")
        texts = [
            event.data["content"][0]["text"]
            for event in agent.session.events
            if event.type == "user/message" and event.data["source"]["kind"] == "plugin"
        ]
        assert texts[-2:] == ["context 1", "context 2"]
        order = types(agent)
        assert order.index("step/end") < len(order) - 1 - order[::-1].index("user/message")


async def test_an_abort_ends_the_turn_with_a_result_for_every_call() -> None:
    # HOST-155, 156, 158; field-066
    log: list[str] = []
    calls = (call("slow"), call("slow"), call("alone"), call("slow"))
    config = AgentConfig(max_parallel_tool_calls=2)
    async with agent_with(say("", *calls), config=config) as (ctx, agent):
        ctx.tools.register(sleeper("slow", 10_000, log))
        ctx.tools.register(sleeper("alone", 5, log, parallel=False))
        asyncio.get_running_loop().call_later(0.05, agent.cancel)
        await agent.run("go")
        assert end_of(agent) == {"kind": "aborted", "reason": "user"}
        assert [text for _, text in results(agent)] == [
            "Error: tool call aborted",
            "Error: tool call aborted",
            "Error: tool call aborted before dispatch",
            "Error: tool call aborted before dispatch",
        ]
        assert log == ["begin slow", "begin slow", "end slow", "end slow"]
        assert agent.session.turn is None


async def test_an_abort_between_the_answer_and_its_calls_leaves_none_without_a_result() -> None:
    # HOST-155, 156
    async with agent_with(say("", call("t"), call("t"))) as (ctx, agent):
        body = Body()
        ctx.tools.register(make_tool(execute=body))
        ctx.on(MODEL_EVENT, lambda who, event: who.cancel() if isinstance(event, Finish) else None)
        await agent.run("go")
        assert [text for _, text in results(agent)] == ["Error: tool call aborted before dispatch"] * 2
        assert body.calls == []
        assert end_of(agent)["kind"] == "aborted"


async def test_cancelling_whoever_waits_cancels_the_turn() -> None:
    # D30 for agents
    log: list[str] = []
    async with agent_with(say("", call("slow")), "again") as (ctx, agent):
        ctx.tools.register(sleeper("slow", 10_000, log))
        task = asyncio.create_task(agent.run("go"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert log == ["begin slow", "end slow"]
        assert end_of(agent)["kind"] == "aborted"
        # The agent can go on.
        assert (await agent.run("and now?")).text == "again"


async def test_a_signal_of_the_caller_cancels_the_turn() -> None:
    # HOST-124: aborted by the parent
    log: list[str] = []
    async with agent_with(say("", call("slow"))) as (ctx, agent):
        ctx.tools.register(sleeper("slow", 10_000, log))
        controller = AbortController()
        asyncio.get_running_loop().call_later(0.05, controller.abort)
        await agent.run("go", signal=controller.signal)
        assert end_of(agent) == {"kind": "aborted", "reason": "parent"}


async def test_cancelling_while_the_model_streams_keeps_what_was_visible() -> None:
    # HOST-166
    async with standard() as ctx:
        model = ScriptedModel([say("a long answer in pieces", call("t"), delay=0.02)], piece=2)
        agent = await ctx.agents.create("main", model)
        ctx.tools.register(make_tool())
        asyncio.get_running_loop().call_later(0.1, agent.cancel)
        await agent.run("go")
        message = next(event.data["message"] for event in agent.session.events if event.type == "assistant/message")
        assert message["interrupted"] is True
        assert "a long answer in pieces".startswith(message["content"][0]["text"])
        assert len(message["content"]) == 1
        assert "tool/call" not in types(agent)


async def test_an_answer_that_hit_its_limit_runs_no_calls() -> None:
    # HOST-165
    async with agent_with(say("cut", call("t"), finish="max-tokens")) as (ctx, agent):
        body = Body()
        ctx.tools.register(make_tool(execute=body))
        await agent.run("go")
        assert end_of(agent) == {"kind": "max-tokens"}
        assert body.calls == []


async def test_a_concluding_call_ends_the_turn_unless_something_waits() -> None:
    # HOST-164
    concluding = Body(lambda _a, run: run.conclude_turn() or "ok")
    async with agent_with(say("", call("last")), "unused") as (ctx, agent):
        ctx.tools.register(make_tool("last", concluding))
        await agent.run("go")
        assert len(agent.model.requests) == 1  # type: ignore[attr-defined]
    async with agent_with(say("", call("last")), "heard you") as (ctx, agent):
        steering = Body(lambda _a, run: run.conclude_turn() or agent.inbox.steer("wait") and "ok")
        ctx.tools.register(make_tool("last", steering))
        assert (await agent.run("go")).text == "heard you"


async def test_a_provider_failure_ends_the_turn_with_its_code() -> None:
    failure = ModelFailure("AUTHENTICATION", "bad key")
    async with agent_with(say("half", failure=failure), "better") as (_ctx, agent):
        await agent.run("go")
        assert end_of(agent) == {"kind": "error", "message": "bad key", "code": "AUTHENTICATION"}
        assert (await agent.run("again")).text == "better"


async def test_an_endless_turn_is_stopped() -> None:
    script = [say("", call("t")) for _ in range(9)]
    async with agent_with(*script, config=AgentConfig(max_steps=3)) as (ctx, agent):
        ctx.tools.register(make_tool())
        await agent.run("go")
        assert end_of(agent)["code"] == "STEP_LIMIT"
        assert len(results(agent)) == 3


async def test_an_internal_failure_invents_no_result() -> None:
    # HOST-160, 128: the outcome of a call that ran is unknown, and the history stays well-formed
    async with agent_with(say("", call("t")), "still here") as (ctx, agent):
        ctx.tools.register(make_tool())
        broken = {"on": True}

        async def flush() -> None:
            if broken["on"] and types(agent)[-1] == "tool/call":
                raise SessionError("disk full", "STORE_FAILED")

        agent.session.flush = flush  # type: ignore[method-assign]
        observed: list[Any] = []
        original = agent.session.append

        def append(type: str, *args: Any, **fields: Any) -> Any:
            if type == "tool/result" and broken["on"]:
                broken["on"] = False
                raise RuntimeError("no room for a result")
            return original(type, *args, **fields)

        agent.session.append = append  # type: ignore[method-assign]
        await agent.run("go")
        observed = results(agent)
        assert len(observed) == 1
        assert "outcome is unknown" in observed[0][1]
        assert end_of(agent)["kind"] == "error"
        assert (await agent.run("and?")).text == "still here"


async def test_the_pool_is_a_positive_integer() -> None:
    # HOST-144
    for wrong in (0, -1, 1.5, "3"):
        with pytest.raises(ValueError, match="max_parallel_tool_calls"):
            AgentConfig(max_parallel_tool_calls=wrong)  # type: ignore[arg-type]


# ── The inbox ──────────────────────────────────────────────────────────────────


async def test_steering_reaches_the_next_step_and_a_followup_the_next_turn() -> None:
    # HOST-190, 191, 192
    async with agent_with(say("", call("t")), "steered", "second turn") as (ctx, agent):

        def body(_args: Any, _run: Any) -> str:
            agent.inbox.followup("later")
            agent.inbox.steer("by the way")
            return "ok"

        ctx.tools.register(make_tool(execute=Body(body)))
        outcome = await agent.run("go")
        assert outcome.text == "second turn"
        texts = [
            event.data["content"][0]["text"]
            for event in agent.session.events
            if event.type == "user/message" and event.data["source"]["kind"] == "user"
        ]
        assert texts == ["go", "by the way", "later"]
        assert types(agent).count("turn/start") == 2


async def test_injecting_leaves_an_idle_agent_idle() -> None:
    # HOST-190, 159
    async with agent_with("hello") as (_ctx, agent):
        agent.inbox.inject("note")
        await asyncio.sleep(0.01)
        assert agent.is_idle
        assert agent.session.turn is None
        await agent.run("go")
        assert [len(request.messages) for request in agent.model.requests] == [3]  # type: ignore[attr-defined]


async def test_a_cancel_drops_what_waits_unless_told_otherwise() -> None:
    # HOST-159
    async with agent_with("one") as (_ctx, agent):
        agent.inbox.inject("note")
        agent.cancel(keep_inbox=True)
        assert len(agent.inbox.waiting("next-step")) == 1
        agent.cancel()
        assert agent.inbox.waiting("next-step") == []


async def test_messages_can_be_taken_back_and_ids_are_unique() -> None:
    # HOST-192
    async with agent_with("one") as (_ctx, agent):
        first = agent.inbox.inject("a")
        second = agent.inbox.inject("b")
        assert first != second
        agent.inbox.remove(first)
        with pytest.raises(SessionError):
            agent.inbox.remove(first)
        assert [message.id for message in agent.inbox.waiting("next-step")] == [second]


# ── Lifetimes ──────────────────────────────────────────────────────────────────


async def test_an_agent_is_set_up_before_anybody_knows_it() -> None:
    # HOST-58
    async with standard() as ctx:
        order: list[str] = []
        ctx.on(SESSION_START, lambda agent: order.append(f"start {ctx.agents.get(agent.name) is agent}"))

        async def setup(own: Context) -> None:
            assert ctx.agents.get("main") is None
            own.tools.register(make_tool("mine"))
            order.append("setup")

        agent = await ctx.agents.create("main", ScriptedModel(["x"]), setup=setup)
        assert order == ["setup", "start True"]
        assert [schema.name for schema in ctx.tools.schemas(agent.scope)] == ["mine"]
        assert ctx.tools.schemas() == []
        assert list(ctx.agents) == [agent]
        with pytest.raises(SessionError, match="alive already"):
            await ctx.agents.create("main", ScriptedModel([]))


async def test_a_failed_creation_leaves_nothing() -> None:
    # HOST-58, 60
    async with standard() as ctx:
        made: list[Context] = []

        def setup(own: Context) -> None:
            made.append(own)
            own.tools.register(make_tool("mine"))
            raise RuntimeError("no")

        with pytest.raises(RuntimeError):
            await ctx.agents.create("main", ScriptedModel([]), setup=setup)
        assert ctx.agents.get("main") is None
        assert ctx.tools.get("mine", made[0].scope) is None
        controller = AbortController()
        controller.abort()
        with pytest.raises(AbortError):
            await ctx.agents.create("main", ScriptedModel([]), signal=controller.signal)
        await ctx.agents.create("main", ScriptedModel([]))


async def test_the_end_cancels_drains_unwinds_and_detaches() -> None:
    # HOST-59 by D15; D13
    async with standard() as ctx:
        log: list[str] = []
        agent = await ctx.agents.create("main", ScriptedModel([say("", call("slow"))]))
        agent.ctx.tools.register(sleeper("slow", 10_000, log))
        agent.ctx.effect(lambda: lambda: log.append(f"scope ends, alive: {ctx.agents.get('main') is not None}"))
        ctx.on(AGENT_DISPOSED, lambda gone: log.append(f"disposed, session live: {gone.session.is_live}"))
        running = asyncio.create_task(agent.run("go"))
        await asyncio.sleep(0.05)
        first, second = agent.dispose(), agent.dispose()
        await asyncio.gather(first, second)
        await running
        assert end_of(agent) == {"kind": "aborted", "reason": "disposed"}
        assert log == ["begin slow", "end slow", "scope ends, alive: True", "disposed, session live: True"]
        assert not agent.session.is_live
        with pytest.raises(SessionError):
            agent.inbox.inject("too late")


async def test_the_applications_end_is_the_agents_end() -> None:
    # HOST-17, 59
    log: list[str] = []
    async with standard() as ctx:
        agent = await ctx.agents.create("main", ScriptedModel([say("", call("slow"))]))
        ctx.tools.register(sleeper("slow", 10_000, log))
        task = asyncio.create_task(agent.run("go"))
        await asyncio.sleep(0.05)
    await task
    assert log == ["begin slow", "end slow"]
    assert end_of(agent) == {"kind": "aborted", "reason": "disposed"}


async def test_turns_and_idleness_are_told_by_scope() -> None:
    # HOST-34, 57, 61: the subject is the agent itself
    async with standard() as ctx:
        heard: list[Any] = []
        first = await ctx.agents.create("first", ScriptedModel(["x"]))
        second = await ctx.agents.create("second", ScriptedModel(["y"]))
        first.ctx.on(TURN_END, lambda agent, reason: heard.append((agent.name, type(reason).__name__)))
        ctx.on(AGENT_IDLE, lambda agent: heard.append(agent.name))
        await second.run("go")
        await first.run("go")
        assert heard == ["second", ("first", "Completed"), "first"]


async def test_without_a_prompt_service_only_native_mode_can_be_shown() -> None:
    # HOST-81, PIPE-69: an SDK that the model is not told of helps nobody
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin(), {"mode": "code"})
        await ctx.plugin(AgentsPlugin())
        agent = await ctx.agents.create("a", ScriptedModel(["never asked"]))
        outcome = await agent.run("go")
    assert isinstance(outcome.reason, Failed)
    assert 'mode "code" needs the prompt service' in outcome.reason.message
