"""Questions of turns that wait, in the page's inbox: shown, answered, and gone on with."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.support.journal import application, effects, say_result, start

from dsh_tools.inspector.desk import Desk
from dsh_tools.inspector.hub import Hub
from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.session.events import Completed


class NotedHub(Hub):
    """Notes what pages are told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, Any]] = []

    def broadcast(self, kind: str, payload: Any) -> None:
        self.told.append((kind, payload))


async def test_a_waiting_turn_is_answered_and_goes_on(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, mode="native") as ctx:
        hub = NotedHub()
        desk = Desk(ctx, hub)
        agent = await start(ctx, ScriptedModel([say("", call("pay", name="a", value=1)), say_result]))
        (question,) = desk.pending()
        assert (question["toolName"], question["waiting"], question["session"]) == ("pay", True, "s1")
        assert question["arguments"] == {"name": "a", "value": 1}
        assert hub.told[-1] == ("approvals", [question])
        assert desk.answer(question["id"], "allowed-once", None, None)
        assert not desk.answer("unknown", "allowed-once", None, None)
        while agent.is_waiting or not agent.is_idle:
            await asyncio.sleep(0.005)
        assert agent.last_outcome is not None
        assert (agent.last_outcome.reason, agent.last_outcome.text) == (Completed(), "a is paid")
        assert desk.pending() == []
        assert not desk.answer(question["id"], "rejected", None, None)
        decided = next(event for event in agent.session.events if event.type == "approval/decided")
        assert decided.data["by"] == "page"
    assert effects(tmp_path / "effects") == ["a 1"]


async def test_a_turn_that_cannot_go_on_keeps_its_place(tmp_path: Path, no_leaks: None, caplog: Any):
    async with application(tmp_path, mode="native") as ctx:
        desk = Desk(ctx, NotedHub())
        agent = await start(ctx, ScriptedModel([say("", call("pay", name="a", value=1)), say_result]))
        agent.ctx.tools.restrict(deny=["pay"])
        (question,) = desk.pending()
        assert desk.answer(question["id"], "allowed-once", None, None)
        while "does not go on" not in caplog.text:
            await asyncio.sleep(0.005)
        assert agent.is_waiting
        assert 'the tool "pay" is not there any more' in caplog.text
