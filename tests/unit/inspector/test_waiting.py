"""Questions of turns that wait, in the page's inbox: shown, answered, and gone on with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.inspector import inspected
from tests.support.journal import application, effects, go_on, note, program_of, resuming, say_result, start

from dsh_tools.agent import Agent
from dsh_tools.errors import ApprovalError, SessionError
from dsh_tools.inspector import LiveSource, Resume
from dsh_tools.inspector.desk import Desk
from dsh_tools.inspector.hub import Hub
from dsh_tools.inspector.stored import StoredQuestions
from dsh_tools.inspector.waiting import WaitingTurns
from dsh_tools.kernel import Context
from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.session import SessionHeader
from dsh_tools.session.events import Completed, Waiting
from dsh_tools.tools import tool

TWO = """
return await Promise.all([tools.pay({ name: "a", value: 1 }), tools.pay({ name: "b", value: 2 })]);
"""


def one() -> ScriptedModel:
    """A model that makes the one call."""
    return ScriptedModel([say("", call("pay", name="a", value=1)), say_result])


class NotedHub(Hub):
    """Notes what pages are told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, Any]] = []

    def broadcast(self, kind: str, payload: Any) -> None:
        self.told.append((kind, payload))


class Inbox:
    """A desk with its turns that wait, as the inspector puts them together."""

    def __init__(self, ctx: Context, resume: Resume | None = None) -> None:
        self.hub = NotedHub()
        self.ended: list[tuple[str, str]] = []
        turns = WaitingTurns(
            ctx,
            LiveSource(ctx.sessions),
            resume,
            lambda: self.desk.refresh(),
            lambda session, ended: self.ended.append((session, ended)),
        )
        self.turns = turns
        self.desk = Desk(ctx, self.hub, turns)

    async def stored(self) -> dict[str, Any]:
        """The one question in the store."""
        await self.turns.look()
        (question,) = self.desk.pending()
        return question

    async def over(self) -> None:
        """Wait until the turn that went on has ended."""
        async with asyncio.timeout(20):
            while not self.ended:
                await asyncio.sleep(0.005)


async def leave_waiting(folder: Path, model: Callable[[], ScriptedModel], *sessions: str, **settings: Any) -> None:
    """Have sessions wait in an application that has ended."""
    async with application(folder, **{"mode": "native", **settings}) as ctx:
        for session in sessions or ("s1",):
            log = await ctx.sessions.create(id=session)
            agent = await ctx.agents.create(session, model(), session=log)
            assert isinstance((await agent.run("go")).reason, Waiting)


async def last_end(ctx: Context, session: str = "s1") -> str:
    events = (await ctx.sessions.read(session)).events
    return next(event.data["reason"]["kind"] for event in reversed(events) if event.type == "turn/end")


async def test_a_waiting_turn_is_answered_and_goes_on(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, mode="native") as ctx:
        inbox = Inbox(ctx)
        agent = await start(ctx, one())
        (question,) = inbox.desk.pending()
        assert (question["toolName"], question["waiting"], question["session"]) == ("pay", True, "s1")
        assert question["arguments"] == {"name": "a", "value": 1}
        assert question["since"] > 1e12
        assert inbox.hub.told[-1] == ("approvals", [question])
        assert await inbox.desk.answer(question["id"], "allowed-once", None, None) == "goes-on"
        assert await inbox.desk.answer("unknown", "allowed-once", None, None) is None
        await inbox.over()
        assert agent.last_outcome is not None
        assert (agent.last_outcome.reason, agent.last_outcome.text) == (Completed(), "a is paid")
        assert inbox.desk.pending() == []
        assert await inbox.desk.answer(question["id"], "rejected", None, None) is None
        decided = next(event for event in agent.session.events if event.type == "approval/decided")
        assert decided.data["by"] == "page"
    assert effects(tmp_path / "effects") == ["a 1"]


async def test_a_turn_that_cannot_go_on_is_not_answered(tmp_path: Path, no_leaks: None):
    async with application(tmp_path, mode="native") as ctx:
        inbox = Inbox(ctx)
        agent = await start(ctx, one())
        agent.ctx.tools.restrict(deny=["pay"])
        (question,) = inbox.desk.pending()
        with pytest.raises(SessionError, match='the tool "pay" is not there any more'):
            await inbox.desk.answer(question["id"], "allowed-once", None, None)
        assert agent.is_waiting
        assert inbox.desk.pending() == [question]


async def test_a_stored_session_goes_on_where_something_can_resume_it(tmp_path: Path, no_leaks: None):
    # D34: the process that asked is gone.
    await leave_waiting(tmp_path, one)
    async with application(tmp_path, mode="native") as ctx:
        inbox = Inbox(ctx, resuming(ctx))
        question = await inbox.stored()
        assert (question["session"], question["goesOn"], question["answerable"]) == ("s1", True, True)
        with pytest.raises(ApprovalError, match="other arguments"):
            await inbox.desk.answer(question["id"], "allowed-once", None, None, "0" * 64)
        with pytest.raises(ApprovalError, match="cannot be remembered"):
            await inbox.desk.answer(question["id"], "allowed-once", None, "tool")
        with pytest.raises(ApprovalError, match="no answer"):
            await inbox.desk.answer(question["id"], "cancelled", None, None)
        digest = question["argumentsDigest"]
        assert await inbox.desk.answer(question["id"], "allowed-once", None, None, digest) == "goes-on"
        await inbox.over()
        assert inbox.ended == [("s1", "completed")]
        assert await last_end(ctx) == "completed"
        await inbox.turns.look()
        assert inbox.desk.pending() == []
        assert ctx.sessions.live("s1") is None
    assert effects(tmp_path / "effects") == ["a 1"]


async def test_without_anything_to_resume_it_the_answer_is_kept(tmp_path: Path, no_leaks: None):
    await leave_waiting(tmp_path, one)
    async with application(tmp_path, mode="native") as ctx:
        inbox = Inbox(ctx)
        question = await inbox.stored()
        assert not question["goesOn"]
        assert "agent.resume()" in question["goOnWith"]
        assert await inbox.desk.answer(question["id"], "rejected", "not today", None) == "kept"
        assert await inbox.desk.answer(question["id"], "allowed-once", None, None) is None
        agent = await go_on(ctx)
        outcome = await agent.resume()
        assert "not today" in outcome.text
    assert effects(tmp_path / "effects") == []


async def test_an_answer_from_elsewhere_was_faster(tmp_path: Path, no_leaks: None):
    await leave_waiting(tmp_path, one)
    async with application(tmp_path, mode="native") as ctx, application(tmp_path, mode="native") as rival:
        inbox, other = Inbox(ctx, resuming(ctx)), Inbox(rival)
        question = await inbox.stored()
        await other.stored()
        assert await other.desk.answer(question["id"], "rejected", None, None) == "kept"
        assert await inbox.desk.answer(question["id"], "allowed-once", None, None) is None
        assert inbox.ended == []


async def test_while_another_process_has_it_nothing_is_answered(tmp_path: Path, no_leaks: None):
    await leave_waiting(tmp_path, one)
    async with application(tmp_path, mode="native") as ctx, application(tmp_path, mode="native") as rival:
        inbox = Inbox(ctx, resuming(ctx))
        question = await inbox.stored()
        await rival.sessions.open("s1", resume=True)
        with pytest.raises(SessionError, match="has a writer"):
            await inbox.desk.answer(question["id"], "allowed-once", None, None)
        assert await inbox.stored() == question


async def second_question(inbox: Inbox) -> dict[str, Any]:
    """Answer what waits, and return the question that the turn then asks."""
    first = await inbox.stored()
    assert await inbox.desk.answer(first["id"], "allowed-once", None, None) == "goes-on"
    async with asyncio.timeout(20):
        while True:
            for question in inbox.desk.pending():
                if question["id"] != first["id"]:
                    return question
            await asyncio.sleep(0.005)


async def test_a_turn_that_went_on_asks_again(tmp_path: Path, no_leaks: None):
    await leave_waiting(tmp_path, lambda: program_of(TWO), mode="code")
    async with application(tmp_path, approval={"suspend_after": 30}) as ctx:
        inbox = Inbox(ctx, resuming(ctx))
        question = await second_question(inbox)
        assert "waiting" not in question
        assert await inbox.desk.answer(question["id"], "allowed-once", None, None) == "answered"
        await inbox.over()
        assert inbox.ended == [("s1", "completed")]
    assert effects(tmp_path / "effects") == ["a 1", "b 2"]


async def test_a_turn_that_asks_again_when_the_page_closes_waits_on(tmp_path: Path, no_leaks: None):
    await leave_waiting(tmp_path, lambda: program_of(TWO), mode="code")
    async with application(tmp_path, approval={"suspend_after": 30}) as ctx:
        inbox = Inbox(ctx, resuming(ctx))
        question = await second_question(inbox)
        await inbox.turns.dispose()
        assert await last_end(ctx) == "waiting"
        assert (await inbox.stored())["id"] == question["id"]
    assert effects(tmp_path / "effects") == ["a 1"]


async def test_an_answer_waits_for_the_session_that_goes_on(
    tmp_path: Path, no_leaks: None, monkeypatch: pytest.MonkeyPatch
):
    await leave_waiting(tmp_path, one)
    async with application(tmp_path, mode="native") as ctx:
        inbox = Inbox(ctx, resuming(ctx))
        question = await inbox.stored()
        answers = [inbox.desk.answer(question["id"], "allowed-once", None, None) for _ in range(3)]
        # The store is not looked at in between, so the question still seems to be open.
        assert await asyncio.gather(*answers) == ["goes-on", None, None]
        await inbox.over()
        monkeypatch.setattr("dsh_tools.inspector.desk.PATIENCE_SECONDS", 0.0)
        monkeypatch.setattr(inbox.turns, "is_going_on", lambda _session: True)
        with pytest.raises(SessionError, match="goes on with another answer"):
            await inbox.desk.answer(question["id"], "allowed-once", None, None)
    assert effects(tmp_path / "effects") == ["a 1"]


async def test_a_body_is_cancelled_and_waited_for_when_the_page_closes(tmp_path: Path, no_leaks: None):
    await leave_waiting(tmp_path, one)

    async def pay(name: str, value: int) -> str:
        """Do something that a person has to allow."""
        note(tmp_path / "effects", "begun")
        try:
            await asyncio.sleep(60)
        finally:
            note(tmp_path / "effects", "stopped")
        return ""

    async with application(tmp_path, mode="native") as ctx:
        scoped = ctx.create_scope("slow")
        scoped.tools.register(tool(pay))

        @asynccontextmanager
        async def resume(header: SessionHeader) -> AsyncIterator[Agent]:
            log = await ctx.sessions.open(header.id, resume=True)
            agent = await ctx.agents.create("main", ScriptedModel([say_result]), session=log, parent=scoped.scope)
            try:
                yield agent
            finally:
                await agent.dispose()

        inbox = Inbox(ctx, resume)
        question = await inbox.stored()
        assert await inbox.desk.answer(question["id"], "allowed-once", None, None) == "goes-on"
        async with asyncio.timeout(20):
            while effects(tmp_path / "effects") != ["begun"]:
                await asyncio.sleep(0.005)
        await inbox.turns.dispose()
        assert effects(tmp_path / "effects") == ["begun", "stopped"]
        assert await last_end(ctx) == "aborted"


async def test_a_page_is_told_of_what_another_process_leaves_waiting(tmp_path: Path, no_leaks: None):
    path = str(tmp_path / "sessions.sqlite")
    async with inspected({"poll_ms": 20}, sessions={"path": path}) as (_ctx, inspector):
        async with httpx.AsyncClient(base_url=inspector.address, timeout=20) as client:
            await client.post("/api/login", json={"token": inspector.keys.token})
            told: list[Any] = []
            async with client.stream("GET", "/api/stream") as answer:
                kind = ""
                async for line in answer.aiter_lines():
                    kind = line[7:] if line.startswith("event: ") else kind
                    if kind == "sessions" and line.startswith("data: ") and not told:
                        await leave_waiting(tmp_path, one)
                    if kind == "approvals" and line.startswith("data: "):
                        told = json.loads(line[6:])
                        if told:
                            break
            assert [(question["session"], question["goesOn"]) for question in told] == [("s1", False)]


async def test_sessions_are_read_again_only_when_they_have_changed(tmp_path: Path, no_leaks: None):
    await leave_waiting(tmp_path, one, "s1", "s2")
    read: list[str] = []

    class Noted(LiveSource):
        async def events(self, session_id: str, start: int) -> Any:
            read.append(session_id)
            return await super().events(session_id, start)

    async with application(tmp_path, mode="native") as ctx:
        stored = StoredQuestions(Noted(ctx.sessions))
        assert await stored.look()
        assert {question.header.id for question in stored.found} == {"s1", "s2"}
        assert not await stored.look()
        assert sorted(read) == ["s1", "s2"]
        inbox = Inbox(ctx, resuming(ctx))
        await inbox.turns.look()
        await inbox.desk.answer(inbox.desk.pending()[0]["id"], "allowed-once", None, None)
        await inbox.over()
        assert await stored.look()
        assert len(read) == 3
        assert len(stored.found) == 1
