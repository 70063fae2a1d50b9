"""What ``explain`` says of a call that would wait for its answer, and that it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsh_tools import ToolCall, standard, tool
from dsh_tools.kernel import Context
from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.session.events import Waiting


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def settings(folder: Path, after: float | None, **more: Any) -> dict[str, Any]:
    return {
        "sessions": {"path": str(folder / "sessions.sqlite")},
        "approval": {"suspend_after": after},
        "policy": {"rules": [{"tool": "pay", "action": "ask"}]},
        **more,
    }


async def foreseen(ctx: Context, agent: Any) -> tuple[str, str]:
    found = (await ctx.tools.explain(ToolCall("pay", {"amount": 1}, agent=agent))).approval
    assert found is not None
    return found.prospect, found.reason


@pytest.mark.parametrize(("after", "text"), [(0, "the call waits"), (60, "the call waits after 60 s")])
async def test_a_call_that_would_wait_is_told_to(tmp_path: Path, after: float, text: str, no_leaks: None):
    # D34
    async with standard(**settings(tmp_path, after)) as ctx:
        ctx.tools.register(pay)
        agent = await ctx.agents.create("clerk", ScriptedModel([say("", call("pay", amount=1))]))
        goes_on = f"{text}, and goes on when its turn is resumed"
        assert await foreseen(ctx, agent) == ("suspended", f"nobody is there to answer; {goes_on}")
        if after == 0:
            assert (await agent.run("pay")).reason == Waiting()
        ctx.approval.open_desk()
        assert await foreseen(ctx, agent) == ("asked", f"a person is asked; without an answer {goes_on}")


@pytest.mark.parametrize(("after", "journal"), [(None, True), (0, False)])
async def test_without_a_limit_or_a_journal_it_would_be_denied(
    tmp_path: Path, after: float | None, journal: bool, no_leaks: None
):
    async with standard(**settings(tmp_path, after, journal=journal)) as ctx:
        ctx.tools.register(pay)
        agent = await ctx.agents.create("clerk", ScriptedModel([]))
        assert await foreseen(ctx, agent) == ("unavailable", "nobody is there to answer; the call is denied")
