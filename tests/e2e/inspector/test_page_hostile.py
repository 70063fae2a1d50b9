"""Tool output that wants to do something to the page, and logs that want to be too long for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import expect
from tests.support.inspector import inspected, scripted, show_tool

from dsh_tools.content import ImageBlock, TextBlock
from dsh_tools.messages import user_message
from dsh_tools.model import call, say
from dsh_tools.session import EventDraft
from dsh_tools.session.events import Completed, StepEnd, StepStart, TurnEnd, TurnStart
from dsh_tools.tools.cards import GenericCall, TerminalCall, TerminalResult

pytestmark = pytest.mark.needs("chromium")

MARKUP = '<script>window.hurt = 1</script><img src=x onerror="window.hurt = 2"><svg onload="window.hurt = 3">'
ESCAPES = "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \x1b[2J\x1b[1;1H\x1bPq#0\x1b\\ \x1b[31"
REORDERED = "invoice\u202ecod.exe \u2066hidden\u2069 \u200bzero\ufeff"


async def test_markup_escapes_and_reordering_marks_are_shown_not_obeyed(new_page: Any, picture: Any) -> None:
    name = "evil"
    hostile = "\n".join((MARKUP, ESCAPES, REORDERED))
    async with inspected() as (ctx, inspector):
        ctx.tools.register(
            show_tool(
                name, TerminalCall(MARKUP + REORDERED, MARKUP, MARKUP), TerminalResult(output=hostile, exit_code=0)
            )
        )
        ctx.tools.register(
            show_tool(
                "image",
                GenericCall(MARKUP),
                content=[
                    ImageBlock('"><script>window.hurt=4</script>', "image/png"),
                    ImageBlock("PHN2Zz4=", 'image/svg+xml"onload="window.hurt=5'),
                    TextBlock(hostile),
                ],
            )
        )
        log = await ctx.sessions.create(id='<img src=x onerror="window.hurt=6">')
        agent = await ctx.agents.create(
            "a", scripted(say(hostile, call(name, text=MARKUP), call("image"))), session=log
        )
        await agent.run(hostile)
        page = await new_page(inspector.url)
        card = page.locator('section.card[aria-label^="evil:"]')
        await expect(card).to_contain_text("<script>window.hurt = 1</script>")
        output = card.get_by_label("Output")
        await expect(output.locator(".a-fg1").first).to_have_text("red")
        assert "\x1b" not in await output.inner_text()
        assert "evil.example" not in await output.inner_text()
        await expect(output.locator(".ctl").first).to_have_text("U+202E")
        # A title with a reordering mark cannot disguise its end either.
        assert "\u202e" not in await page.locator("main").inner_text()
        await card.locator("summary").click()
        await expect(card.get_by_label("JSON value")).to_contain_text("window.hurt")
        for place in ("timeline", "sessions", "tools"):
            await page.evaluate("place => { location.hash = `#/${place}` }", place)
            await page.wait_for_timeout(200)
        await page.goto(f"{inspector.address}#/sessions?q=hurt")
        await expect(page.locator(".hit-list mark").first).to_have_text("hurt")
        assert await page.evaluate("window.hurt") is None
        assert await page.locator("main script, main svg, main iframe, main [onerror], main [onload]").count() == 0
        assert await page.locator("main img:not([src^='data:image/'])").count() == 0


async def test_a_line_of_5_mb_is_cut_and_there_on_request(new_page: Any) -> None:
    line = "x" * 5_000_000 + "THE END"
    async with inspected() as (ctx, inspector):

        async def body(args: Any, run: Any) -> str:
            return line

        ctx.tools.register(show_tool("long", body=body))
        agent = await ctx.agents.create("a", scripted(call("long")))
        await agent.run("go")
        page = await new_page(inspector.url)
        card = page.locator("section.card.ok")
        await expect(card.get_by_role("button", name="more characters")).to_be_visible()
        shown = await page.evaluate("document.querySelector('main').textContent.length")
        assert shown < 50_000
        await card.get_by_role("button", name="more characters").click()
        grown = await page.evaluate("document.querySelector('main').textContent.length")
        assert shown + 10_000 < grown < 100_000
        async with page.expect_download() as caught:
            await card.get_by_role("link", name="Download the whole text").click()
        saved = await (await caught.value).path()
        assert saved.read_text() == line


def long_session(turns: int) -> list[EventDraft]:
    """A session of ``turns`` turns with five calls each, twenty events a turn."""
    drafts: list[EventDraft] = []

    def add(type_: str, data: Any, op: Any = None, sources: Any = None) -> int:
        drafts.append(EventDraft(type_, data, op, sources, time=1_700_000_000_000 + len(drafts) * 7))
        return len(drafts) - 1

    for turn in range(1, turns + 1):
        add("turn/start", TurnStart(turn))
        add("step/start", StepStart(turn, 1))
        add("user/message", user_message(f"Question {turn}"), "append")
        calls = [f"c{turn}-{number}" for number in range(7)]
        blocks = [{"type": "tool-call", "id": one, "name": "shell", "arguments": "{}"} for one in calls]
        content = [{"type": "text", "text": f"Answer {turn}. " * 12}, *blocks]
        message = {"role": "assistant", "content": content}
        add("assistant/message", {"turn": turn, "step": 1, "message": message}, "append", ())
        for number, one in enumerate(calls):
            arguments = json.dumps({"command": f"make part-{number}"})
            seq = add("tool/call", {"turn": turn, "step": 1, "callId": one, "name": "shell", "arguments": arguments})
            text = "\n".join(f"\x1b[32mok\x1b[0m {turn} line {line}" for line in range(number * 6 + 1))
            block = {
                "type": "tool-result",
                "toolCallId": one,
                "content": [{"type": "text", "text": text}],
                "isError": number == 3,
            }
            message = {"role": "user", "content": [block], "source": {"kind": "tool", "callId": one}}
            add("tool/result", {"turn": turn, "step": 1, "message": message}, "append", (seq,))
        add("step/end", StepEnd(turn, 1))
        add("turn/end", TurnEnd(turn, Completed()))
    return drafts


FRAMES = """async (steps) => {
  const scroller = document.getElementById("scroller");
  const times = [];
  let last = performance.now();
  for (let at = 0; at < steps; at += 1) {
    scroller.scrollTop = (scroller.scrollHeight - scroller.clientHeight) * (at / steps) + (at % 7) * 400;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  return times.sort((a, b) => a - b);
}"""


SCROLL = FRAMES.replace(
    "scroller.scrollTop = (scroller.scrollHeight - scroller.clientHeight) * (at / steps) + (at % 7) * 400;",
    "scroller.scrollTop += at < steps / 2 ? -120 : 120;",
)


async def test_5000_events_stay_smooth(new_page: Any, capsys: Any) -> None:
    async with inspected() as (ctx, inspector):
        drafts = long_session(250)
        assert len(drafts) == 5000
        await ctx.sessions.create(id="long", seed=drafts)
        page = await new_page(f"{inspector.url}")
        await expect(page.locator(".position")).to_contain_text("5001 of 5,001", timeout=20_000)
        await expect(page.locator("article").last).to_contain_text("copied from another session", timeout=20_000)
        assert await page.locator("article").count() < 60
        for way, script, limit in (("scrolling", SCROLL, 100), ("jumping", FRAMES, 400)):
            times = await page.evaluate(script, 240)
            middle, high, worst = times[120], times[227], times[-1]
            with capsys.disabled():
                print(f"\n5,000 events, {way}: frames of {middle:.0f} ms, 95 % {high:.0f} ms, longest {worst:.0f} ms")
            assert high < limit, way
        assert await page.locator("article").count() < 60
        # The keyboard goes through it, too, and what it lands on is in the document.
        await page.evaluate("document.getElementById('scroller').scrollTop = 0")
        await page.locator("article").first.focus()
        for _ in range(12):
            await page.keyboard.press("PageDown")
        assert await page.evaluate("document.activeElement.getAttribute('aria-posinset')") == "13"


async def test_live_rows_keep_the_end_in_sight_and_what_is_read_in_place(new_page: Any) -> None:
    async with inspected() as (ctx, inspector):
        ctx.tools.register(show_tool("shell"))
        agent = await ctx.agents.create("a", scripted(*(call("shell", n=n) for n in range(40))))
        page = await new_page(inspector.url)
        await agent.run("go")
        await expect(page.get_by_text("That is all.")).to_be_in_viewport()
        await page.evaluate("document.getElementById('scroller').scrollTop = 900")
        await page.wait_for_timeout(300)
        before = await page.evaluate("document.getElementById('scroller').scrollTop")
        agent.session.append("approval/policy", {"policy": "never"})
        await expect(page.locator(".position")).to_contain_text("of")
        await page.wait_for_timeout(300)
        assert abs(await page.evaluate("document.getElementById('scroller').scrollTop") - before) < 2
