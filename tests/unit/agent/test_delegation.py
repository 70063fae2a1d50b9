"""Structured results, and agents as tools. HOST-245 to 248."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.calls import make_tool

from dsh_tools.agent import StructuredOutput, agent_tool
from dsh_tools.errors import JsonSchemaError, ToolError
from dsh_tools.kernel import Context
from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.standard import standard
from dsh_tools.tools import Block, ToolCall

pytestmark = pytest.mark.usefixtures("no_leaks")

VERDICT = {
    "type": "object",
    "properties": {"verdict": {"type": "string"}, "score": {"type": "integer"}},
    "required": ["verdict"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("schema", [{"type": "string"}, {"anyOf": []}, 5, {"type": "object", "properties": 5}])
async def test_a_schema_is_checked_before_any_agent_exists(schema: Any) -> None:
    # HOST-245
    with pytest.raises(JsonSchemaError) as caught:
        StructuredOutput(schema)
    assert caught.value.code == "UNSUPPORTED_SCHEMA"
    async with standard() as ctx:
        with pytest.raises(JsonSchemaError):
            agent_tool(ctx, lambda: ScriptedModel([]), name="x", description="x", schema=schema)


async def finish_with(*script: Any, before: Any = None) -> tuple[StructuredOutput, Any]:
    async with standard() as ctx:
        wanted = StructuredOutput(VERDICT)
        agent = await ctx.agents.create("child", ScriptedModel(script), setup=wanted.mount)
        if before is not None:
            before(ctx)
        await agent.run("judge")
        return wanted, agent


async def test_a_wrong_value_is_refused_and_tried_again_in_the_same_turn() -> None:
    # HOST-246
    wanted, agent = await finish_with(
        say("", call("structured_output", score="high")), say("", call("structured_output", verdict="fine", score=3))
    )
    assert wanted.value == {"verdict": "fine", "score": 3}
    texts = [
        e.data["message"]["content"][0]["content"][0]["text"] for e in agent.session.events if e.type == "tool/result"
    ]
    assert 'missing required property "verdict"' in texts[0]
    assert texts[1] == "received"
    assert agent.session.last_turn == 1


async def test_a_value_counts_only_once_its_final_result_is_a_success() -> None:
    # HOST-247
    def block(ctx: Context) -> None:
        async def post(_review: Any, next: Any) -> Any:
            return Block([{"type": "text", "text": "not so fast"}])  # type: ignore[list-item]

        ctx.on("tools/post-execute", post)

    wanted, _ = await finish_with(say("", call("structured_output", verdict="fine")), "gave up", before=block)
    assert not wanted.captured
    with pytest.raises(ToolError, match="without the result"):
        _ = wanted.value


async def test_a_nested_value_counts_once_the_outer_call_succeeds() -> None:
    # HOST-247
    for outcome, captured in (("ok", True), (ValueError("outer failed"), False)):

        def before(ctx: Context, outcome: Any = outcome) -> None:
            async def outer(args: Any, run: Any) -> Any:
                inner = ToolCall("structured_output", {"verdict": "x"}, parent=run.token, agent=run.agent)
                await ctx.tools.execute(inner)
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome

            ctx.tools.register(make_tool("outer", outer))

        wanted, _ = await finish_with(say("", call("outer")), "done", before=before)
        assert wanted.captured is captured


async def test_after_the_capture_every_call_is_denied() -> None:
    # HOST-248
    ran: list[str] = []

    def before(ctx: Context) -> None:
        async def body(args: Any, run: Any) -> str:
            ran.append("ran")
            return "ok"

        ctx.tools.register(make_tool("late", body))

    wanted, agent = await finish_with(
        say("", call("structured_output", verdict="fine"), call("late")), "never asked", before=before
    )
    assert wanted.captured
    assert ran == []
    assert len(agent.model.requests) == 1


async def test_an_agent_is_a_tool_of_another() -> None:
    # a scope of its own under the caller's, a session that names its parent, a checked result
    async with standard() as ctx:
        models = iter([ScriptedModel([say("", call("look")), say("", call("structured_output", verdict="sound"))])])

        def setup(own: Context) -> None:
            own.tools.restrict(deny=["judge"])

        ctx.tools.register(make_tool("look"))
        judge = agent_tool(
            ctx, lambda: next(models), name="judge", description="Judge it.", schema=VERDICT, setup=setup
        )
        ctx.tools.register(judge)
        parent = await ctx.agents.create("parent", ScriptedModel([say("", call("judge", task="the plan")), "all good"]))
        outcome = await parent.run("go")
        assert outcome.text == "all good"
        result = next(e for e in parent.session.events if e.type == "tool/result")
        assert '"verdict": "sound"' in result.data["message"]["content"][0]["content"][0]["text"]
        sessions = await ctx.sessions.list()
        child = next(entry.header for entry in sessions if entry.header.id != parent.session.id)
        assert child.parent_session == parent.session.id
        assert list(ctx.agents) == [parent]


async def test_a_delegated_agent_has_tools_and_approvals_of_its_own() -> None:
    # HOST-89; each agent's questions are in its own session, and its scope's answerer knows of no other's
    async with standard(policy={"rules": [{"tool": "risky", "action": "ask"}]}) as ctx:
        asked: list[tuple[str, str]] = []

        def everybody(request: Any) -> str:
            asked.append(("everybody", request.agent.name))
            return "rejected"

        def own_answer(request: Any) -> str:
            asked.append(("own", request.agent.name))
            return "allowed-once"

        def setup(own: Context) -> None:
            own.tools.restrict(allow=["risky"])
            own.approval.answer_with(own_answer, prepend=True)  # type: ignore[arg-type]

        ctx.approval.answer_with(everybody)  # type: ignore[arg-type]
        ctx.tools.register(make_tool("risky"))
        child_model = ScriptedModel([say("", call("risky"), call("helper", task="more")), "child done"])
        ctx.tools.register(agent_tool(ctx, lambda: child_model, name="helper", description="Helps.", setup=setup))
        script = [say("", call("risky"), call("helper", task="x")), "all done"]
        parent = await ctx.agents.create("parent", ScriptedModel(script))
        await parent.run("go")
        names = [name for _, name in asked]
        assert [who for who, _ in asked] == ["everybody", "own"]
        assert names[0] == "parent"
        assert names[1].startswith("helper-")
        told = [tool.name for tool in child_model.requests[0].tools]
        assert told == ["risky"]
        child = next(row.header for row in await ctx.sessions.list() if row.header.id != parent.session.id)
        assert child.delegation_depth == 1
        stored = await ctx.sessions.read(child.id)
        decided = [event.data["outcome"] for event in stored.events if event.type == "approval/decided"]
        assert decided == ["allowed-once"]
        texts = [
            event.data["message"]["content"][0]["content"][0]["text"]
            for event in stored.events
            if event.type == "tool/result"
        ]
        assert texts[1] == 'Error: unknown tool "helper"'


async def test_cancelling_the_caller_ends_the_delegated_agent() -> None:
    async with standard() as ctx:
        ended: list[str] = []

        async def slow(args: Any, run: Any) -> str:
            try:
                await asyncio.sleep(60)
            finally:
                ended.append("slow")
            return "never"

        ctx.tools.register(make_tool("slow", slow))
        ctx.tools.register(
            agent_tool(ctx, lambda: ScriptedModel([say("", call("slow"))]), name="helper", description="Helps.")
        )
        parent = await ctx.agents.create("parent", ScriptedModel([say("", call("helper", task="x"))]))
        asyncio.get_running_loop().call_later(0.1, parent.cancel)
        await parent.run("go")
        assert ended == ["slow"]
        assert list(ctx.agents) == [parent]
        assert parent.session.events[-1].data["reason"]["kind"] == "aborted"


async def test_agents_do_not_delegate_for_ever() -> None:
    def model() -> ScriptedModel:
        return ScriptedModel([say("", call("helper", task="do it")), lambda request: say(last_result(request))])

    async with standard() as ctx:
        ctx.tools.register(agent_tool(ctx, model, name="helper", description="Helps.", max_depth=2))
        agent = await ctx.agents.create("first", model())
        outcome = await agent.run("go")
        depths = sorted(s.header.delegation_depth or 0 for s in await ctx.sessions.list())
    assert "2 agents stand above you already. Do the task yourself." in outcome.text
    assert depths == [0, 1, 2]


def last_result(request: Any) -> str:
    return request.messages[-1].content[0].content[0].text


async def test_one_name_is_one_agent_however_many_ask_at_once() -> None:
    async with standard() as ctx:

        async def setup(_own: Context) -> None:
            await asyncio.sleep(0.01)

        made = await asyncio.gather(
            *(ctx.agents.create("a", ScriptedModel(["ok"]), setup=setup) for _ in range(3)), return_exceptions=True
        )
        agents = [one for one in made if not isinstance(one, BaseException)]
        assert len(agents) == 1
        assert {getattr(one, "code", None) for one in made if isinstance(one, BaseException)} == {"AGENT_EXISTS"}
        assert list(ctx.agents) == agents


async def test_an_agent_that_is_made_while_everything_ends_is_not_left_behind() -> None:
    # HOST-60, D15
    started = asyncio.Event()

    async def setup(_own: Context) -> None:
        started.set()
        await asyncio.sleep(0.02)

    async with standard() as ctx:
        agents = ctx.agents
        log = await ctx.sessions.create()
        making = asyncio.create_task(agents.create("late", ScriptedModel(["ok"]), session=log, setup=setup))
        await started.wait()
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        await making
    assert not isinstance(caught.value, AssertionError)
    assert list(agents) == []
    assert log.owner is None
