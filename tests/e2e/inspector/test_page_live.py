"""The page on a running application: watching, answering, coming back after a restart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect
from tests.support.inspector import every_card, inspected, scripted, show_tool

from dsh_tools import PRE_EXECUTE, Ask, Deny
from dsh_tools.cli.demo_script import DEMO_RULES, QUESTION, demo_model
from dsh_tools.model import call, say
from dsh_tools.services import PolicyConfig
from dsh_tools.session import SessionsConfig
from dsh_tools.toolkits.files import FilesPlugin
from dsh_tools.toolkits.search import SearchPlugin
from dsh_tools.toolkits.shell import ShellPlugin

pytestmark = pytest.mark.needs("chromium")


async def test_the_demo_is_watched_and_its_question_answered_in_the_page(
    new_page: Any, picture: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    for name in ("cart.py", "readme.md", "test_cart.py"):
        (folder / name).write_text(f"# {name}\ntodo = 'test'\n")
    settings: dict[str, Any] = {
        "sessions": SessionsConfig(path=str(tmp_path / "demo.sqlite")),
        "policy": PolicyConfig.model_validate({"rules": DEMO_RULES}),
    }
    async with inspected(**settings) as (ctx, inspector):
        for plugin, key in ((FilesPlugin(), "root"), (SearchPlugin(), "root"), (ShellPlugin(), "cwd")):
            await ctx.plugin(plugin, {key: str(folder)})

        async def scan(args: Any, run: Any) -> str:
            await asyncio.sleep(60)
            return "fine"

        ctx.tools.register(show_tool("deep_scan", body=scan, timeout_ms=300, parameters={"type": "object"}))
        log = await ctx.sessions.create(id="demo")
        agent = await ctx.agents.create("demo", demo_model(folder), session=log)
        page = await new_page(inspector.url)
        await expect(page).to_have_url(f"{inspector.address}#/session/demo")
        turn = asyncio.create_task(agent.run(QUESTION))
        await expect(page.locator("section.card.denied")).to_contain_text("rm -rf build")
        await expect(page.locator("section.card.asking")).to_contain_text("ls | wc -l")
        await expect(page.locator("#banner")).to_contain_text("1 call waits for approval: bash")
        await picture(page, "session-live")
        assert not turn.done()

        await page.get_by_role("link", name="Review").click()
        await expect(page.locator(".question")).to_contain_text("a shell command can do anything you can")
        await picture(page, "approvals")
        await page.get_by_role("button", name="Allow once").click()
        await expect(page.get_by_text("Nothing waits for an answer.")).to_be_visible()

        outcome = await asyncio.wait_for(turn, 30)
        assert "a person allowed one" in outcome.text
        await page.get_by_role("link", name="Session", exact=True).click()
        await expect(page.locator("section.card.timed-out")).to_contain_text("deep_scan")
        await expect(page.locator("section.card.ok.is-terminal")).to_contain_text("exit code 0")
        await page.get_by_role("link", name="Timeline", exact=True).click()
        await expect(page.locator("button.tl-row")).to_have_count(8)
        row = page.locator("button.tl-row", has_text="bash").last
        await row.hover()
        await expect(page.locator(".stage-detail")).to_contain_text("waiting for a person")
        await picture(page, "timeline")


async def test_of_two_pages_the_first_answer_counts_and_the_other_sees_it(no_leaks: None, new_page: Any) -> None:
    async with inspected() as (ctx, inspector):
        ctx.tools.register(show_tool("deploy"))
        ctx.on(PRE_EXECUTE, lambda execution, proceed: Ask("production"))
        agent = await ctx.agents.create("a", scripted(call("deploy")))
        first = await new_page(inspector.url)
        second = await new_page(inspector.url)
        turn = asyncio.create_task(agent.run("go"))
        for page in (first, second):
            await page.locator("#nav").get_by_role("link", name="Approvals").click()
            await expect(page.locator(".question")).to_have_count(1)
        await second.get_by_label("Reason").fill("not on a Friday")
        await second.get_by_role("button", name="Reject").click()
        await expect(first.locator(".question")).to_have_count(0)
        await expect(first.locator("#toasts")).to_contain_text("deploy: rejected")
        await asyncio.wait_for(turn, 20)
        results = [event for event in agent.session.events if event.type == "tool/result"]
        assert "not on a Friday" in results[0].data["message"]["content"][0]["content"][0]["text"]
        await first.close()
        await second.close()


async def test_allowing_for_the_session_asks_once(new_page: Any) -> None:
    rules = {"rules": [{"tool": "deploy", "action": "ask"}]}
    async with inspected(policy=rules) as (ctx, inspector):
        ctx.tools.register(show_tool("deploy"))
        agent = await ctx.agents.create("a", scripted(call("deploy", stage=1), call("deploy", stage=2)))
        page = await new_page(f"{inspector.url}")
        await page.goto(f"{inspector.address}#/approvals")
        turn = asyncio.create_task(agent.run("go"))
        await page.get_by_role("button", name="Allow deploy for this session").click()
        await asyncio.wait_for(turn, 20)
        decided = [event.data for event in agent.session.events if event.type == "approval/decided"]
        assert [one["outcome"] for one in decided] == ["allowed-once", "allowed-once"]
        assert decided[0]["remember"] == "tool"


async def test_a_question_and_the_page_survive_a_restart_of_the_server(new_page: Any) -> None:
    async with inspected() as (ctx, inspector):
        ctx.tools.register(show_tool("deploy"))
        ctx.on(PRE_EXECUTE, lambda execution, proceed: Ask("production"))
        agent = await ctx.agents.create("a", scripted(say("First this. ", call("deploy"))))
        page = await new_page(inspector.url)
        turn = asyncio.create_task(agent.run("go"))
        await expect(page.locator("section.card.asking")).to_have_count(1)
        await inspector.stop()
        await expect(page.locator("#status")).to_have_text("Reconnecting…")
        await inspector.start()
        await expect(page.locator("#status")).to_have_text("Live", timeout=15_000)
        await page.locator("#nav").get_by_role("link", name="Approvals").click()
        await page.get_by_role("button", name="Allow once").click()
        await asyncio.wait_for(turn, 20)
        await page.locator("#nav").get_by_role("link", name="Session", exact=True).click()
        await expect(page.locator("section.card.ok")).to_have_count(1)
        await expect(page.get_by_text("First this.")).to_have_count(1)


async def test_text_and_progress_stream_before_they_are_logged(new_page: Any) -> None:
    go_on = asyncio.Event()

    async def work(args: Any, run: Any) -> str:
        for number in range(3):
            run.progress(f"\x1b[32mstep {number}\x1b[0m")
        await go_on.wait()
        return "done"

    async with inspected() as (ctx, inspector):
        ctx.tools.register(show_tool("work", body=work))
        agent = await ctx.agents.create("a", scripted(say("I'll work. ", call("work"))))
        page = await new_page(inspector.url)
        turn = asyncio.create_task(agent.run("go"))
        running = page.locator("section.card.running")
        await expect(running).to_contain_text("step 2")
        await expect(running.locator(".a-fg2").first).to_have_text("step 0")
        late = await new_page(inspector.url)
        await expect(late.locator("section.card.running")).to_contain_text("step 1")
        go_on.set()
        await asyncio.wait_for(turn, 20)
        await expect(page.locator("section.card.ok")).to_contain_text("done")
        await expect(page.get_by_text("That is all.")).to_be_visible()


async def test_a_call_that_is_told_to_stop_says_so_until_it_has(new_page: Any) -> None:
    release = asyncio.Event()

    async def stubborn(args: Any, run: Any) -> str:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await release.wait()
        return "late"

    async with inspected() as (ctx, inspector):
        ctx.tools.register(show_tool("stubborn", body=stubborn, timeout_ms=1_000))
        log = await ctx.sessions.create(id="s")
        agent = await ctx.agents.create("a", scripted(call("stubborn"), say("done")), session=log)
        page = await new_page(inspector.url)
        turn = asyncio.create_task(agent.run("go"))
        await expect(page.locator("section.card.stopping")).to_contain_text("is stopping")
        late = await new_page(inspector.url)
        await expect(late.locator("section.card.stopping")).to_contain_text("is stopping")
        release.set()
        await turn
        card = page.locator("section.card.timed-out")
        await expect(card).to_contain_text("it ran to its end, and its late value was dropped")
        await page.get_by_role("link", name="Timeline", exact=True).click()
        await page.locator(".tl-row.timed-out").hover()
        await expect(page.locator(".stage-detail")).to_contain_text("its late value was dropped")
        await expect(page.locator(".stage-detail")).to_contain_text("stopping")


async def test_every_card_is_drawn(new_page: Any, picture: Any) -> None:
    async with inspected() as (ctx, inspector):
        for definition in every_card():
            ctx.tools.register(definition)
        names = [definition.name for definition in every_card()]
        agent = await ctx.agents.create("a", scripted(say("Everything at once. ", *(call(name) for name in names))))
        await agent.run("Show me every card.")
        page = await new_page(inspector.url, height=2600)
        await expect(page.locator("section.card")).to_have_count(len(names))
        for name, kind in zip(
            names, ["generic", "terminal", "diff", "search", "search", "read", "web", "web", "generic"]
        ):
            card = page.locator(f'section.card[aria-label^="{name}:"]')
            await expect(card).to_have_class(f"card ok is-{kind}")
            await picture(card, f"card-{name}")
        change = page.locator("section.card.is-diff")
        await expect(change.locator("tr.added")).to_have_count(5)
        await expect(change.locator("tr.removed")).to_have_count(4)
        await change.get_by_role("button", name="Side by side").click()
        await expect(change.locator("table.split")).to_have_count(1)
        await picture(change, "card-change-split")
        await expect(page.locator("img.picture")).to_have_js_property("naturalWidth", 160)
        await expect(page.locator(".is-terminal .a-fg1").first).to_have_text("F")


PROGRAM = """const found = await tools.find({ query: "total" });
const tests = await tools.shell({ command: "pytest -q" });
// Both at once would do, too.
return `${found.total} places, tests said ${tests.exitCode}`;
"""


async def test_calls_of_a_program_are_inside_its_card(new_page: Any, picture: Any) -> None:
    async with inspected() as (ctx, inspector):
        for definition in every_card():
            ctx.tools.register(definition)
        log = await ctx.sessions.create(id="program")
        log.append("turn/start", {"turn": 1})
        log.append("step/start", {"turn": 1, "step": 1})
        arguments = json.dumps({"code": PROGRAM, "description": "Count the uses of total"})
        called = log.append(
            "tool/call", {"turn": 1, "step": 1, "callId": "r", "name": "run_code", "arguments": arguments}
        )
        for number, name in enumerate(("find", "shell"), 1):
            ids = {
                "rootCallId": "r",
                "parentCallId": "r",
                "subCallId": f"r:code:{number}",
                "name": name,
                "arguments": {},
            }
            log.append("tool/code-dispatch-start", ids)
            content = [{"type": "text", "text": "done"}]
            log.append("tool/code-dispatch", {**ids, "isError": False, "content": content})
        log.append("tool/code-dispatch-start", {**ids, "subCallId": "r:code:3", "name": "gone"})
        page = await new_page(inspector.url, height=1300)
        program = page.locator("section.card.running").first
        await expect(program.locator(".subs section.card")).to_have_count(3)
        await expect(program.locator(".subs section.card.running")).to_have_count(1)
        ids = {**ids, "subCallId": "r:code:3", "name": "gone"}
        log.append(
            "tool/code-dispatch", {**ids, "isError": True, "content": [{"type": "text", "text": "Error: offline"}]}
        )
        message = {
            "role": "user",
            "source": {"kind": "tool", "callId": "r"},
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "r",
                    "isError": False,
                    "content": [{"type": "text", "text": "17 places, tests said 1"}],
                }
            ],
        }
        log.append("tool/result", {"turn": 1, "step": 1, "message": message}, "append", (called.seq,))
        done = page.locator("section.card.ok.is-program")
        await expect(done.get_by_label("Program", exact=True).locator(".t-word").first).to_have_text("const")
        await expect(done.locator(".subs section.card.failed")).to_contain_text("offline")
        await expect(done.locator("> .text").last).to_contain_text("17 places")
        await picture(done, "card-program")
        await page.get_by_role("link", name="Timeline", exact=True).click()
        await expect(page.locator("button.tl-row")).to_have_count(4)


async def test_denied_calls_say_so(new_page: Any) -> None:
    async with inspected() as (ctx, inspector):
        ctx.tools.register(show_tool("erase"))
        ctx.on(PRE_EXECUTE, lambda execution, proceed: Deny("not here"))
        agent = await ctx.agents.create("a", scripted(call("erase")))
        await agent.run("go")
        page = await new_page(inspector.url)
        await expect(page.locator("section.card.denied")).to_contain_text("Error: not here")
        await expect(page.locator("section.card.denied .state")).to_have_text("denied")
