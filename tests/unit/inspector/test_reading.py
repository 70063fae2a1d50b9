"""Reading logs: rows, stages, timelines, pictures, sources; and what pages share."""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.inspector import scripted, show_tool

from dsh_tools import PRE_EXECUTE, Ask, Deny, standard
from dsh_tools.errors import ConfigError, SessionError
from dsh_tools.inspector import (
    STAGES,
    CallTimes,
    Span,
    StageTimesPlugin,
    StepTimes,
    open_source,
    timeline_of,
    timeline_svg,
)
from dsh_tools.inspector.hub import MAX_WAITING, Channel, Hub
from dsh_tools.inspector.rows import MAX_DEPTH, MAX_ITEMS, MAX_TEXT, clip
from dsh_tools.model import call
from dsh_tools.session import SqliteStore, write_jsonl


async def test_stages_are_logged_and_cut_the_time_of_a_call_into_pieces(no_leaks: None) -> None:
    async def slow(args: Any, run: Any) -> str:
        await asyncio.sleep(0.02)
        return "ok"

    async def fail(args: Any, run: Any) -> str:
        raise ValueError("no")

    async def policy(execution: Any, proceed: Any) -> Any:
        if execution.name == "ask":
            return Ask("sure?")
        return Deny("never") if execution.name == "deny" else await proceed()

    async with standard() as ctx:
        await ctx.plugin(StageTimesPlugin())
        for name, body in (("slow", slow), ("deny", slow), ("ask", slow), ("fail", fail), ("late", None)):
            fields = {} if body else {"timeout_ms": 10}

            async def wait(args: Any, run: Any) -> str:
                await asyncio.sleep(60)
                return ""

            ctx.tools.register(show_tool(name, body=body or wait, **fields))
        ctx.on(PRE_EXECUTE, policy)
        ctx.approval.answer_with(lambda request: "rejected")
        calls = [call(name) for name in ("slow", "deny", "ask", "fail", "late", "gone")]
        agent = await ctx.agents.create("a", scripted(*[one for one in calls]))
        await agent.run("go")
        events = tuple(agent.session.events)
    assert sum(event.type == STAGES for event in events) == 6
    found = {one.name: one for step in timeline_of(events) for one in step.calls}
    assert {name: one.outcome for name, one in found.items()} == {
        "slow": "ok",
        "deny": "denied",
        "ask": "denied",
        "fail": "failed",
        "late": "timed-out",
        "gone": "failed",
    }
    assert {name: one.stop for name, one in found.items() if one.stop} == {"late": "cancelled"}
    assert [span.name for span in found["late"].spans if span.name in ("running", "stopping")][:1] == ["running"]
    (stopped,) = [event.data for event in events if event.type == STAGES and "stop" in event.data]
    assert stopped["stop"]["cause"] == "limit"
    assert stopped["running"] <= stopped["stopping"] <= stopped["settled"]
    names = [span.name for span in found["slow"].spans]
    assert "running" in names
    running = next(span for span in found["slow"].spans if span.name == "running")
    assert running.end - running.start >= 15
    assert not any(span.name == "running" for span in found["deny"].spans)
    for one in found.values():
        edges = [one.start, *(edge for span in one.spans for edge in (span.start, span.end)), one.end]
        assert edges == sorted(edges)


async def test_a_log_without_stages_still_has_a_timeline(no_leaks: None) -> None:
    async with standard() as ctx:
        ctx.tools.register(show_tool("plain"))
        agent = await ctx.agents.create("a", scripted(call("plain")))
        await agent.run("go")
        (first, second) = timeline_of(agent.session.events)
    assert [one.outcome for one in first.calls] == ["ok"]
    assert second.calls == [] and second.end is not None
    assert {span.name for span in first.calls[0].spans} <= {"running"}


@given(
    name=st.text(max_size=60),
    outcome=st.sampled_from(["running", "ok", "failed", "denied", "cancelled", "timed-out", "interrupted"]),
    took=st.floats(0, 1e7),
)
def test_a_picture_is_well_formed_whatever_the_names(name: str, outcome: Any, took: float) -> None:
    end = None if outcome == "running" else 1000 + took
    span = [] if end is None else [Span("running", 1000.0, end)]
    one = CallTimes(name, name, 1, 2, 1000.0, end, outcome, name or None, span)
    picture = timeline_svg([StepTimes(1, 1, 1000.0, 1000.0, end, [one])], name)
    root = ElementTree.fromstring(picture)
    assert root.tag.endswith("svg")
    assert not root.findall(".//{*}script")
    assert "\u202e" not in picture
    assert ElementTree.fromstring(timeline_svg([])) is not None


def test_what_is_too_much_for_a_page_is_cut_and_marked() -> None:
    deep: Any = "x"
    for _ in range(MAX_DEPTH + 5):
        deep = [deep]
    for value in ("y" * (MAX_TEXT + 1), [0] * (MAX_ITEMS + 1), deep, {"type": "image", "data": "A" * 9_000_000}):
        shown, was_cut = clip(value)
        assert was_cut
        assert len(repr(shown)) < len(repr(value)) + 40
    fine = {"a": [1, None, True, {"b": "text"}], "i": {"type": "image", "data": "AAAA", "mimeType": "image/png"}}
    assert clip(fine) == (fine, False)


async def test_pieces_of_a_text_come_as_one_and_a_page_too_slow_starts_over() -> None:
    hub = Hub()
    hub.delta("s", "text", "a")
    channel = hub.open("s")
    hub.delta("s", "text", "b")
    hub.delta("s", "reasoning", "c")
    hub.delta("other", "text", "x")
    assert channel.take() == [("delta", {"kind": "text", "text": "ab"}), ("delta", {"kind": "reasoning", "text": "c"})]
    assert await channel.wait(1) and not await channel.wait(0.01)
    hub.end_answer("s")
    assert hub.open("s").take() == []
    slow = Channel(None)
    for _ in range(MAX_WAITING + 1):
        slow.post("sessions", [])
    assert slow.overran and len(slow.take()) == 1
    hub.progress("s", "c", "x" * 70_000)
    assert len(hub.open("s").take()[0][1]["text"]) == 64_000
    hub.end_call("s", "c")
    assert hub.open("s").take() == []


async def test_a_store_is_looked_at_without_being_changed(tmp_path: Path, no_leaks: None) -> None:
    path = tmp_path / "store.sqlite"
    async with standard(sessions={"path": str(path)}) as ctx:
        log = await ctx.sessions.create(id="one")
        log.append("turn/start", {"turn": 1})
        await log.flush()
        source = await open_source(path)
        assert [row.header.id for row in await source.summaries()] == ["one"]
        assert [event.type for event in await source.events("one", 0)] == ["turn/start"]
        log.append("step/start", {"turn": 1, "step": 1})
        await log.flush()
        assert [event.seq for event in await source.events("one", 1)] == [1]
        assert await source.events("none", 0) == ()
        with pytest.raises(SessionError, match="none"):
            await source.read("none")
        await source.close()
    looking = SqliteStore(tmp_path / "missing.sqlite", read_only=True)
    with pytest.raises(SessionError):
        await looking.list_sessions()
    await looking.close()
    assert not (tmp_path / "missing.sqlite").exists()
    writing = SqliteStore(path, read_only=True)
    with pytest.raises(SessionError, match="readonly"):
        await writing.delete("one")
    await writing.close()


async def test_an_export_is_a_source_too(tmp_path: Path) -> None:
    async with standard() as ctx:
        log = await ctx.sessions.create(id="one")
        log.append("turn/start", {"turn": 1})
        write_jsonl(tmp_path / "one.jsonl", log.header, log.events)
    source = await open_source(tmp_path / "one.jsonl")
    assert (await source.read("one")).header.id == "one"
    assert len(await source.events("one", 0)) == 1 and await source.events("none", 0) == ()
    await source.close()
    with pytest.raises(ConfigError, match="is not a file"):
        await open_source(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(SessionError):
        await open_source(tmp_path / "text")


async def test_the_time_that_stopping_takes_is_a_piece_of_its_own(no_leaks: None) -> None:
    async def stubborn(args: Any, run: Any) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
        return "late"

    async with standard() as ctx:
        await ctx.plugin(StageTimesPlugin())
        ctx.tools.register(show_tool("stubborn", body=stubborn, timeout_ms=50))
        agent = await ctx.agents.create("a", scripted(call("stubborn")))
        await agent.run("go")
        (one,) = timeline_of(agent.session.events)[0].calls
    pieces = {span.name: span.end - span.start for span in one.spans}
    assert (one.outcome, one.stop) == ("timed-out", "returned")
    assert pieces["stopping"] >= 40
    assert pieces["running"] >= 40
    assert ElementTree.fromstring(timeline_svg([StepTimes(1, 1, one.start, one.start, one.end, [one])])) is not None


def test_a_page_that_comes_later_hears_where_calls_stand() -> None:
    hub = Hub()
    first = hub.open("s")
    hub.state("s", "c1", "running")
    hub.state("s", "c1", "stopping")
    hub.state("other", "c2", "running")
    later = hub.open("s")
    assert later.take() == [("state", {"callId": "c1", "state": "stopping"})]
    assert [payload["state"] for _, payload in first.take()] == ["running", "stopping"]
    hub.end_call("s", "c1")
    assert hub.open("s").take() == []
