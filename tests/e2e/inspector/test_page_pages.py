"""Sessions, replay, search, tools, looking at a file; and whether everybody can use the page."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.support.inspector import every_card, inspected, scripted
from tests.support.npm import npm_file

from dsh_tools import PRE_EXECUTE, Ask, tool
from dsh_tools.inspector import InspectorPlugin, open_source
from dsh_tools.kernel import Context
from dsh_tools.model import call, say
from dsh_tools.session import load_jsonl
from dsh_tools.standard import standard

pytestmark = pytest.mark.needs("chromium")


@tool(timeout_ms=5000)
async def convert(amount: float, to: str = "km", note: str | None = None) -> float:
    """Convert a distance.

    Args:
        amount: the distance in the other unit.
        to: the unit wanted.
        note: what it is for.
    """
    if amount < 0:
        raise ValueError("a distance is not negative")
    return amount * 2


async def talk(ctx: Context, name: str = "a") -> Any:
    """An agent that has made a few calls."""
    for definition in every_card():
        ctx.tools.register(definition)
    ctx.tools.register(convert)
    calls = [call(definition.name) for definition in every_card()[:4]]
    model = scripted(say("Looking. ", *calls), call("convert", amount=3), call("convert", amount=-1))
    agent = await ctx.agents.create(name, model, session=await ctx.sessions.create(id="first", cwd="/srv/shop"))
    await agent.run("What does the cart cost?")
    return agent


async def test_tools_are_described_hidden_ones_explained_and_called(new_page: Any, picture: Any) -> None:
    async with inspected() as (ctx, inspector):
        agent = await talk(ctx)
        agent.ctx.tools.restrict(deny=["web"])
        page = await new_page(f"{inspector.url}")
        await page.locator("#nav").get_by_role("link", name="Tools").click()
        await page.get_by_role("link", name="convert").click()
        detail = page.locator(".tool-detail")
        await expect(detail.get_by_label("TypeScript signature")).to_contain_text("amount: number")
        await expect(detail.get_by_label("Python signature")).to_contain_text("amount: float")
        await expect(detail.locator("table.schema tbody tr")).to_have_count(3)
        await expect(detail).to_contain_text("time limit 5.00 s")
        await expect(detail).to_contain_text("2 calls in the newest sessions, 50 % failed")
        await picture(page, "tools")

        await detail.get_by_label("amount").fill("21")
        await detail.get_by_role("button", name="Call", exact=True).click()
        await expect(detail.locator("section.card.ok")).to_contain_text("42")
        await detail.get_by_label("amount").fill("far")
        await detail.get_by_role("button", name="Call", exact=True).click()
        await expect(detail.get_by_role("alert")).to_have_text("amount: this is not a number")
        await detail.locator("summary", has_text="Arguments as JSON").click()
        await detail.get_by_label("JSON text").fill('{"amount": "21"}')
        await detail.get_by_role("button", name="Call", exact=True).click()
        await expect(detail.locator("section.card.failed")).to_contain_text('"amount" must be a number')

        await page.get_by_label("As seen by").select_option("a")
        await page.get_by_role("link", name="web hidden").click()
        await expect(detail).to_contain_text("a restriction of scope a denies it by name")


async def test_a_call_from_the_page_waits_for_the_inbox(new_page: Any) -> None:
    async with inspected() as (ctx, inspector):
        ctx.tools.register(convert)
        ctx.on(PRE_EXECUTE, lambda execution, proceed: Ask("distances matter"))
        page = await new_page(inspector.url)
        await page.goto(f"{inspector.address}#/tools/convert")
        await page.get_by_label("amount").fill("4")
        await page.get_by_role("button", name="Call", exact=True).click()
        other = await new_page(inspector.url)
        await other.locator("#nav").get_by_role("link", name="Approvals").click()
        await other.get_by_role("button", name="Allow once").click()
        await expect(page.locator("section.card.ok")).to_contain_text("8")


async def test_sessions_are_listed_filtered_searched_replayed_and_exported(new_page: Any, picture: Any) -> None:
    async with inspected() as (ctx, inspector):
        agent = await talk(ctx)
        second = await ctx.sessions.create(id="second")
        await second.flush()
        page = await new_page(inspector.url)
        await page.locator("#nav").get_by_role("link", name="Sessions").click()
        rows = page.locator("table.list tbody tr")
        await expect(rows).to_have_count(2)
        await picture(page, "sessions")
        await page.get_by_label("Filter by title").fill("CART")
        await expect(rows).to_have_count(1)
        await page.get_by_label("Search in calls").fill("not negative")
        await page.keyboard.press("Enter")
        await expect(page.locator(".hit-list li")).to_have_count(1)
        await page.locator(".hit-list a").click()
        await expect(page.locator("article.found")).to_contain_text("a distance is not negative")

        slider = page.get_by_label("Moment of the session")
        await slider.focus()
        await page.keyboard.press("Home")
        await expect(page.locator("section.card")).to_have_count(0)
        for _ in range(6):
            await page.keyboard.press("ArrowRight")
        await expect(page.locator("section.card.running")).to_have_count(1)
        await page.get_by_role("button", name="Latest").click()
        await expect(page.get_by_text("That is all.")).to_be_visible()
        await page.get_by_label("Show", exact=True).select_option("trouble")
        await expect(page.locator("section.card")).to_have_count(1)

        async with page.expect_download() as caught:
            await page.get_by_role("link", name="Export").click()
        exported = load_jsonl((await (await caught.value).path()).read_bytes().splitlines())
        assert exported.events == tuple(agent.session.events)


async def test_a_file_that_another_application_writes_is_followed(new_page: Any, tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    async with standard(sessions={"path": str(store)}) as writer:
        agent = await talk(writer)
        await agent.session.flush()
        before = store.stat().st_size
        async with standard() as ctx:
            await ctx.plugin(InspectorPlugin(await open_source(store)), {"poll_ms": 50})
            inspector: Any = ctx.require("inspector")
            page = await new_page(inspector.url)
            await expect(page.locator("#status")).to_have_text("Watching the file")
            await page.locator("table.list a").first.click()
            await expect(page.get_by_text("That is all.")).to_be_visible()
            agent.session.append("approval/policy", {"policy": "never"})
            await agent.session.flush()
            await expect(page.get_by_text("Approvals were switched off.")).to_be_visible()
        assert store.stat().st_size >= before
        assert len(await writer.sessions.list()) == 1


async def test_a_page_without_the_key_shows_nothing(new_page: Any) -> None:
    async with inspected() as (ctx, inspector):
        await talk(ctx)
        page = await new_page(inspector.address)
        await expect(page.get_by_role("heading", name="This page is locked")).to_be_visible()
        wrong = await new_page(f"{inspector.address}#token=wrong")
        await expect(wrong.get_by_role("heading", name="This page is locked")).to_be_visible()
        right = await new_page(inspector.url)
        await expect(right.locator("section.card").first).to_be_visible()
        assert "token" not in right.url
        assert await right.evaluate("document.cookie") == ""


AXE = "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"


async def check(page: Page, where: str) -> None:
    """No violation, or a list of them."""
    found = await page.evaluate(AXE)
    lines = [f"{one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes'][:3]]}" for one in found]
    assert not lines, f"{where}:\n" + "\n".join(lines)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_no_violation(new_page: Any, picture: Any, theme: str) -> None:
    axe = npm_file("axe-core", "axe.min.js").read_text(encoding="utf-8")
    async with inspected() as (ctx, inspector):
        agent = await talk(ctx)
        ctx.on(PRE_EXECUTE, lambda execution, proceed: Ask("a shell command can do anything you can"))
        asking = await ctx.agents.create("b", scripted(call("change")))
        turn = asyncio.create_task(asking.run("go"))
        # The check runs in the page; its own scripts are let in for that by the test alone.
        page = await new_page(inspector.url, bypass_csp=True, color_scheme=theme, reduced_motion="reduce")
        places = {
            "session": f"#/session/{agent.session.id}",
            "timeline": f"#/session/{agent.session.id}/timeline",
            "approvals": "#/approvals",
            "sessions": "#/sessions?q=cart",
            "tools": "#/tools/convert",
        }
        await page.add_script_tag(content=axe)
        for name, place in places.items():
            await page.evaluate("place => { location.hash = place }", place)
            await page.wait_for_timeout(700)
            await page.evaluate("document.querySelectorAll('.raw').forEach((one) => { one.open = true })")
            await page.wait_for_timeout(150)
            await check(page, f"{name}, {theme}")
            if theme == "dark" and name == "session":
                await picture(page, "dark")
        await page.set_viewport_size({"width": 380, "height": 760})
        for name, place in places.items():
            await page.evaluate("place => { location.hash = place }", place)
            await page.wait_for_timeout(400)
            await check(page, f"{name}, {theme}, narrow")
            wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{name} is {wide} px too wide for a narrow screen"
        if theme == "light":
            await page.evaluate("place => { location.hash = place }", places["session"])
            await page.wait_for_timeout(500)
            await picture(page, "narrow")
        (request,) = ctx.approval.pending
        ctx.approval.answer(request.id, "rejected")
        await asyncio.wait_for(turn, 20)


async def test_everything_is_reached_by_keyboard(new_page: Any) -> None:
    async with inspected() as (ctx, inspector):
        await talk(ctx)
        page = await new_page(inspector.url)
        await expect(page.locator("section.card").first).to_be_visible()
        seen: list[str] = []
        for _ in range(14):
            await page.keyboard.press("Tab")
            seen.append(await page.evaluate("document.activeElement.textContent.trim().slice(0, 40)"))
        for wanted in ("Skip to the content", "Sessions", "Approvals", "Tools", "Timeline", "Export"):
            assert any(wanted in text for text in seen), (wanted, seen)
        outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
