"""Models that break their promises: the turn says so, and the session stays one to go on with."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.support.calls import Body, make_tool

from dsh_tools.agent import Agent
from dsh_tools.errors import HarnessError
from dsh_tools.messages import ToolCallBlock
from dsh_tools.model import Finish, ModelRequest, ScriptedModel, TextDelta, ToolCallDone, call, say
from dsh_tools.standard import standard

pytestmark = pytest.mark.usefixtures("no_leaks")


class Panic(BaseException):
    """What native extensions raise: no ``Exception``."""


class Foreign:
    """An adapter that streams what it is told, and then says "fine"."""

    name = "foreign"
    accepts_images = False

    def __init__(self, *events: Any) -> None:
        self._answers: list[tuple[Any, ...]] = [events, (TextDelta("fine"), Finish("stop"))]

    async def stream(self, request: ModelRequest, signal: Any) -> AsyncGenerator[Any, None]:
        for event in self._answers.pop(0):
            if isinstance(event, BaseException):
                raise event
            yield event

    async def close(self) -> None: ...


def end_of(agent: Agent) -> dict[str, Any]:
    return agent.session.events[-1].data["reason"]


@pytest.mark.parametrize(
    "events",
    [
        (),
        (TextDelta("half"),),
        (TextDelta("half"), ToolCallDone(0, ToolCallBlock("c1", "t", "{}"))),
    ],
    ids=["nothing", "text", "a call"],
)
async def test_a_stream_without_an_end_is_no_answer(events: tuple[Any, ...]) -> None:
    # HOST-166: what was visible is kept; a call in it may be incomplete
    async with standard() as ctx:
        body = Body()
        ctx.tools.register(make_tool(execute=body))
        agent = await ctx.agents.create("main", Foreign(*events))
        await agent.run("go")
        assert end_of(agent)["kind"] == "error"
        assert end_of(agent)["code"] == "CONNECTION_FAILED"
        assert not body.calls
        kept = [event.data["message"] for event in agent.session.events if event.type == "assistant/message"]
        assert [message["content"][0]["text"] for message in kept] == ["half"] * bool(events)
        assert all(message["interrupted"] for message in kept)
        assert (await agent.run("again")).text == "fine"


async def test_what_is_no_exception_goes_on_and_leaves_the_log_in_order() -> None:
    # HOST-160
    async with standard() as ctx:
        agent = await ctx.agents.create("main", Foreign(TextDelta("half"), Panic("native")))
        with pytest.raises(Panic):
            await agent.run("go")
        assert end_of(agent) == {"kind": "error", "message": "native", "code": "INTERNAL"}
        assert (await agent.run("again")).text == "fine"


@pytest.mark.parametrize("code", [5, ["x"]])
async def test_a_code_that_is_no_string_costs_no_result(code: Any) -> None:
    # PIPE-12
    async with standard() as ctx:
        ctx.tools.register(make_tool(execute=Body(HarnessError("odd", code))))
        agent = await ctx.agents.create("main", ScriptedModel([say("", call("t")), "done"]))
        assert (await agent.run("go")).text == "done"
        [result] = [event.data for event in agent.session.events if event.type == "tool/result"]
        assert result["message"]["content"][0]["content"][0]["text"] == "Error: odd"
        assert "error" not in result
