"""What the page can ask for, over real connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.support.inspector import inspected, scripted, show_tool

from dsh_tools import PRE_EXECUTE, Ask
from dsh_tools.kernel import Context
from dsh_tools.model import call, say
from dsh_tools.session import load_jsonl
from dsh_tools.tools.cards import GenericCall, TerminalResult


@pytest.fixture
async def app(no_leaks: None) -> AsyncIterator[tuple[Context, Any, httpx.AsyncClient]]:
    async with inspected() as (ctx, inspector), httpx.AsyncClient(base_url=inspector.address, timeout=20) as client:
        answer = await client.post("/api/login", json={"token": inspector.keys.token})
        client.headers["x-csrf-token"] = answer.json()["csrf"]
        yield ctx, inspector, client


async def run_some(ctx: Context) -> Any:
    ctx.tools.register(show_tool("shell", GenericCall("make"), TerminalResult(output="fine", exit_code=0)))
    log = await ctx.sessions.create(id="s 1/ü", cwd="/srv")
    agent = await ctx.agents.create(
        "a", scripted(say("Working. ", call("shell", target="ALL"), call("gone"))), session=log
    )
    await agent.run("Build it")
    return agent


async def read_stream(client: httpx.AsyncClient, until: str, **params: Any) -> list[tuple[str, Any, str | None]]:
    """Read messages of the stream up to one of the given kind."""
    headers = params.pop("headers", {})
    found: list[tuple[str, Any, str | None]] = []
    async with client.stream("GET", "/api/stream", params=params, headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        kind, mark = "", None
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("id: "):
                mark = line[4:]
            elif line.startswith("data: "):
                found.append((kind, json.loads(line[6:]), mark))
                mark = None
                if kind == until:
                    break
    return found


async def test_the_stream_brings_a_session_with_cards_and_goes_on_where_it_broke(app: Any) -> None:
    ctx, _inspector, client = app
    agent = await run_some(ctx)
    messages = await read_stream(client, "caught-up", session=agent.session.id)
    kinds = [kind for kind, _, _ in messages]
    assert kinds[:3] == ["hello", "approvals", "sessions"]
    rows = [row for kind, payload, _ in messages if kind == "rows" for row in payload["rows"]]
    called = next(row for row in rows if row["type"] == "tool/call")
    assert called["view"] == {"card": "generic", "title": "make"}
    assert called["arguments"] == {"target": "ALL"}
    results = [row for row in rows if row["type"] == "tool/result"]
    assert results[0]["view"] == {"card": "terminal", "output": "fine", "exitCode": 0}
    assert results[0]["call"] == called["seq"]
    assert "view" not in results[1]
    assert any(row["type"] == "tool/stages" for row in rows)
    mark = next(mark for kind, _, mark in messages if kind == "rows")
    assert mark == str(len(agent.session.events))

    again = await read_stream(client, "caught-up", session=agent.session.id, headers={"last-event-id": mark})
    assert not [one for one in again if one[0] == "rows"]
    later = await read_stream(client, "caught-up", session=agent.session.id, start=str(results[1]["seq"]))
    rest = [row for kind, payload, _ in later if kind == "rows" for row in payload["rows"]]
    assert rest[0]["seq"] == results[1]["seq"]


async def test_the_stream_tells_what_happens_meanwhile(app: Any) -> None:
    ctx, inspector, client = app
    log = await ctx.sessions.create(id="live")
    reading = asyncio.create_task(read_stream(client, "progress", session="live"))
    while not inspector.hub.is_watched:
        await asyncio.sleep(0.01)
    log.append("turn/start", {"turn": 1})
    inspector.hub.delta("live", "text", "Hel")
    inspector.hub.delta("live", "text", "lo")
    inspector.hub.progress("live", "c1", "half")
    messages = await asyncio.wait_for(reading, 10)
    assert ["turn/start"] == [row["type"] for kind, payload, _ in messages if kind == "rows" for row in payload["rows"]]
    assert "".join(payload["text"] for kind, payload, _ in messages if kind == "delta") == "Hello"


async def test_sessions_timeline_export_search_and_raw(app: Any) -> None:
    ctx, _inspector, client = app
    agent = await run_some(ctx)
    name = agent.session.id
    (listed,) = (await client.get("/api/sessions")).json()
    assert listed["id"] == name and listed["title"] == "Build it" and listed["live"] is True and listed["cwd"] == "/srv"
    steps = (await client.get("/api/timeline", params={"session": name})).json()
    assert [one["outcome"] for one in steps[0]["calls"]] == ["ok", "failed"]
    picture = await client.get("/api/timeline.svg", params={"session": name})
    assert picture.text.startswith("<svg") and "attachment" in picture.headers["content-disposition"]
    exported = await client.get("/api/export", params={"session": name})
    assert load_jsonl(exported.text.splitlines()).events == tuple(agent.session.events)
    assert "\n" not in exported.headers["content-disposition"]
    hits = (await client.get("/api/search", params={"q": "all"})).json()
    assert {hit["type"] for hit in hits["hits"]} == {"tool/call", "assistant/message"}
    call_hit = next(hit for hit in hits["hits"] if hit["type"] == "tool/call")
    assert call_hit["match"] == "ALL" and call_hit["name"] == "shell"
    raw = await client.get("/api/raw", params={"session": name, "seq": str(call_hit["seq"])})
    assert json.loads(raw.text) == {"target": "ALL"}
    assert raw.headers["content-type"].startswith("text/plain")
    for path in ("/api/timeline", "/api/export", "/api/timeline.svg"):
        assert (await client.get(path, params={"session": "none"})).status_code == 404
    assert (await client.get("/api/raw", params={"session": name, "seq": "999"})).status_code == 404
    assert (await client.get("/api/raw", params={"session": name, "seq": "x"})).status_code == 404


async def test_questions_are_shown_and_answered_once(app: Any) -> None:
    # HOST-82, HOST-87: one of the outcomes, and the first answer counts.
    ctx, _inspector, client = app
    ctx.tools.register(show_tool("deploy", GenericCall("Deploy", "execute")))
    ctx.on(PRE_EXECUTE, lambda execution, proceed: Ask("production"))
    agent = await ctx.agents.create("a", scripted(call("deploy", to="live")))
    turn = asyncio.create_task(agent.run("go"))
    pending: list[Any] = []
    while not pending:
        pending = (await client.get("/api/approvals")).json()["pending"]
    (question,) = pending
    assert question["reason"] == "production" and question["arguments"] == {"to": "live"}
    assert question["view"]["title"] == "Deploy" and question["session"] == agent.session.id
    place = f"/api/approvals/{question['id']}"
    assert (await client.post(place, json={"outcome": "yes"})).status_code == 400
    assert (await client.post(place, json={"outcome": "allowed-once", "remember": "forever"})).status_code == 400
    assert (await client.post(place, json={"outcome": "allowed-once"})).json() == {"accepted": True}
    late = await client.post(place, json={"outcome": "rejected"})
    assert late.status_code == 409 and late.json() == {"accepted": False}
    assert "That is all." in (await turn).text


async def test_open_questions_of_stored_sessions_are_listed(app: Any) -> None:
    ctx, _inspector, client = app
    log = await ctx.sessions.create(id="old")
    log.append("turn/start", {"turn": 1})
    log.append("approval/asked", {"id": "q1", "toolName": "deploy", "reason": "production"})
    await log.flush()
    found = (await client.get("/api/approvals")).json()
    (question,) = found["elsewhere"]
    expected = {"id": "q1", "toolName": "deploy", "reason": "production", "session": "old", "waiting": False}
    assert question | expected == question
    # Whoever asked may still run, and here is nothing that could go on if it does not.
    assert (question["answerable"], question["goesOn"]) == (False, False)
    refused = await client.post("/api/approvals/q1", json={"outcome": "allowed-once"})
    assert (refused.status_code, refused.json()) == (409, {"accepted": False})


async def test_tools_are_described_for_every_scope_with_what_hides_them(app: Any) -> None:
    # PIPE-46, PIPE-62
    ctx, _inspector, client = app
    agent = await run_some(ctx)
    ctx.tools.register(show_tool("extra"))
    agent.ctx.tools.restrict(allow=["shell"])
    told = (await client.get("/api/tools")).json()
    everybody, own = told["scopes"]
    assert [one["name"] for one in everybody["tools"]] == ["shell", "extra"]
    assert [one["name"] for one in own["tools"]] == ["shell"]
    assert own["hidden"] == [{"name": "extra", "by": [{"scope": "a", "denied": False, "allows": ["shell"]}]}]
    assert told["figures"]["shell"]["calls"] == 1 and told["figures"]["gone"]["failures"] == 1
    assert "async def shell" in everybody["tools"][0]["python"]


async def test_calls_go_through_the_pipeline_below_the_chosen_scope(app: Any) -> None:
    ctx, _inspector, client = app
    seen: list[Any] = []

    async def watch(execution: Any, proceed: Any) -> Any:
        seen.append((execution.name, execution.scope.chain()[-1].name))
        return await proceed()

    agent = await ctx.agents.create("a", scripted())
    ctx.tools.register(show_tool("shell"))
    agent.ctx.on(PRE_EXECUTE, watch)
    done = (await client.post("/api/call", json={"scope": "a", "name": "shell", "arguments": "{}"})).json()
    assert done["isError"] is False and done["content"] == [{"type": "text", "text": "shell is done"}]
    assert seen == [("shell", "a")]
    await client.post("/api/call", json={"scope": "", "name": "shell", "arguments": {}})
    assert len(seen) == 1
    unknown = (await client.post("/api/call", json={"scope": "", "name": "none"})).json()
    assert unknown["code"] == "UNKNOWN_TOOL"
    assert (await client.post("/api/call", json={"scope": "nobody", "name": "shell"})).status_code == 400
    assert (
        await client.post("/api/call", content=b"[1]", headers={"content-type": "application/json"})
    ).status_code == 400


async def test_a_page_that_goes_aborts_its_call(app: Any) -> None:
    ctx, _inspector, client = app
    started, stopped = asyncio.Event(), asyncio.Event()

    async def body(args: Any, run: Any) -> str:
        started.set()
        await run.signal.wait()
        stopped.set()
        return "stopped"

    ctx.tools.register(show_tool("wait", body=body))
    asking = asyncio.create_task(client.post("/api/call", json={"scope": "", "name": "wait", "arguments": {}}))
    await started.wait()
    asking.cancel()
    await asyncio.wait({asking})
    await asyncio.wait_for(stopped.wait(), 10)


async def test_calls_can_be_switched_off() -> None:
    async with inspected({"allow_calls": False}) as (_ctx, inspector):
        async with httpx.AsyncClient(base_url=inspector.address) as client:
            answer = await client.post("/api/login", json={"token": inspector.keys.token})
            client.headers["x-csrf-token"] = answer.json()["csrf"]
            refused = await client.post("/api/call", json={"scope": "", "name": "x"})
            assert refused.status_code == 400 and "switched off" in refused.text
