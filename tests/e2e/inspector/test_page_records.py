"""What a call's record says, in the details of its card."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect
from tests.support.inspector import inspected, scripted, show_tool

from dsh_tools import PRE_EXECUTE
from dsh_tools.model import call
from dsh_tools.services import PolicyConfig, always

pytestmark = pytest.mark.needs("chromium")

RULES = [
    {"tool": "pay", "action": "ask", "reason": "<b>money</b>"},
    {"tool": "burn", "action": "deny", "reason": "never"},
]


async def test_the_details_of_a_call_say_who_was_asked(new_page: Any) -> None:
    async def looks(execution: Any, proceed: Any) -> Any:
        return await proceed()

    async with inspected(policy=PolicyConfig.model_validate({"rules": RULES}), call_records=True) as (ctx, inspector):
        for name in ("pay", "burn"):
            ctx.tools.register(show_tool(name))
        ctx.on(PRE_EXECUTE, looks)
        ctx.approval.answer_with(always("allowed-once"))
        log = await ctx.sessions.create(id="records")
        agent = await ctx.agents.create("records", scripted(call("pay"), call("burn")), session=log)
        await agent.run("go")
        page = await new_page(f"{inspector.url}")
        await page.goto(f"{inspector.address}#/session/records")

        paid = page.locator("section.card", has_text="pay").first
        await paid.get_by_text("Arguments and details").click()
        rows = paid.locator(".verdicts tbody tr")
        await expect(rows.filter(has_text="1: ask pay")).to_contain_text("<b>money</b>")
        await expect(rows.filter(has_text="looks")).to_contain_text("passed")
        facts = paid.locator(".facts")
        await expect(facts).to_contain_text("allowed-once by dsh_tools.services.approval.answerers.always")
        await expect(facts).to_contain_text("pay of root, task")

        burnt = page.locator("section.card.denied", has_text="burn")
        await burnt.get_by_text("Arguments and details").click()
        await expect(burnt.locator(".verdicts tr.said-deny").first).to_contain_text("never")
        await expect(burnt.locator(".facts")).to_contain_text("nothing")
