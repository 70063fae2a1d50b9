"""A program that waits for a person, answered in the page: it goes on from its journal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect
from tests.support.inspector import inspected
from tests.support.journal import effects, program_of, tools_with_effects

from dsh_tools.services import ApprovalConfig, PolicyConfig
from dsh_tools.session import SessionsConfig
from dsh_tools.session.events import Completed

pytestmark = pytest.mark.needs("chromium")

PROGRAM = """
const first = await tools.effect({ name: "first", value: 1 });
return [first, await tools.pay({ name: "second", value: 2 })];
"""


async def test_a_program_that_waits_is_answered_in_the_page(new_page: Any, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "sessions": SessionsConfig(path=str(tmp_path / "sessions.sqlite")),
        "policy": PolicyConfig.model_validate({"rules": [{"tool": "pay", "action": "ask", "reason": "money"}]}),
        "approval": ApprovalConfig(suspend_after=0),
        "tools": {"mode": "code"},
    }
    async with inspected(**settings) as (ctx, inspector):
        for definition in tools_with_effects(tmp_path / "effects"):
            ctx.tools.register(definition)
        agent = await ctx.agents.create("main", program_of(PROGRAM))
        await agent.run("go")
        assert agent.is_waiting
        page = await new_page(inspector.url)
        await expect(page.locator("#banner")).to_contain_text("1 call waits for approval: pay")
        await page.get_by_role("link", name="Review").click()
        await expect(page.locator(".question")).to_contain_text("money")
        await page.get_by_role("button", name="Allow once").click()
        await expect(page.get_by_text("Nothing waits for an answer.")).to_be_visible()
        while agent.is_waiting or not agent.is_idle:
            await asyncio.sleep(0.01)
        assert agent.last_outcome is not None
        assert agent.last_outcome.reason == Completed()
        assert "second is paid" in agent.last_outcome.text
    assert effects(tmp_path / "effects") == ["first 1", "second 2"]
