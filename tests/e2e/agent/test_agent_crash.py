"""kill -9 at random points of a running session, then resume. HOST-126 to 129."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dsh_tools import standard
from dsh_tools.messages import AssistantMessage, ToolResultBlock, UserMessage
from dsh_tools.model import ScriptedModel

CHILD = Path(__file__).with_name("crash_child.py")


def killed_after(seconds: float, store: Path, effects: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, str(CHILD), str(store), str(effects)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(seconds)
    child.kill()
    child.wait()
    child.stdout.close()


def assert_well_formed(messages: list[Any]) -> None:
    """Every call has exactly one result, and it comes before the model speaks again."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            assert open_calls == []
            open_calls = [block.id for block in message.tool_calls]
        elif isinstance(message, UserMessage):
            for block in message.content:
                if isinstance(block, ToolResultBlock):
                    open_calls.remove(block.tool_call_id)
    assert open_calls == []


async def resumed(store: Path, effects: Path) -> None:
    ran = [int(line) for line in effects.read_text().splitlines()] if effects.exists() else []
    assert len(ran) == len(set(ran)), "a body ran twice"
    async with standard(sessions={"path": str(store), "synchronous": "normal"}) as ctx:
        log = await ctx.sessions.open("victim")
        called = [event for event in log.events if event.type == "tool/call"]
        logged = {int(event.data["arguments"].split(":")[1].rstrip("}")) for event in called}
        assert set(ran) <= logged, "a body ran whose call was not durable"
        assert_well_formed(log.derive_messages())
        assert log.turn is None
        before = len(log.events)
        agent = await ctx.agents.create("heir", ScriptedModel(["carrying on"]), session=log)
        assert (await agent.run("are you there?")).text == "carrying on"
        assert len(log.events) > before
        assert ran == [int(line) for line in effects.read_text().splitlines()] if effects.exists() else True


@pytest.mark.limit(900)
def test_nothing_acknowledged_is_lost_and_nothing_runs_twice(tmp_path: Path, figure: Any) -> None:
    # HOST-126 to 129, field-079: whenever the process dies
    choose = random.Random(20)
    for number in range(figure(8, 100)):
        store, effects = tmp_path / f"{number}.sqlite", tmp_path / f"{number}.txt"
        killed_after(choose.uniform(0, 0.6), store, effects)
        asyncio.run(resumed(store, effects))
