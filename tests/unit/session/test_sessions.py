"""All sessions: creating, resuming, forking, listing, importing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
from tests.support.sessions import Clock, answer, begin, call, end, say, settle

from dsh_tools.errors import ConfigError, SessionError
from dsh_tools.kernel.context import create_context
from dsh_tools.kernel.hooks import HookBus
from dsh_tools.session import (
    SESSION_EVENT,
    SESSION_OPEN,
    EventDraft,
    EventLog,
    MemoryStore,
    PostgresStore,
    Sessions,
    SessionsConfig,
    SessionsPlugin,
    SqliteStore,
    open_store,
)
from dsh_tools.session.sessions import new_session_id
from dsh_tools.testing.store_conformance import refused

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.fixture
async def sessions() -> AsyncIterator[Sessions]:
    found = Sessions(MemoryStore(), clock=Clock())
    yield found
    await found.close()


def turn(log: EventLog, *, ended: str | None = "completed") -> None:
    say(log, "please")
    begin(log)
    answer(log, "", ("c1", "t", "{}"))
    settle(log, call(log, "c1"))
    if ended:
        end(log, ended)


async def test_a_session_is_created_with_its_header(sessions: Sessions):
    # HOST-116
    log = await sessions.create(id="a", cwd="/w", origin="cli", delegation_depth=0, agent_preset="p")
    assert (log.header.id, log.header.cwd, log.header.origin, log.header.delegation_depth) == ("a", "/w", "cli", 0)
    assert (log.header.version, log.header.agent_preset, log.header.created_at) == (0, "p", 1001)
    assert sessions.live("a") is log
    assert sessions.live("b") is None
    with refused("SESSION_ALREADY_EXISTS"):
        await sessions.create(id="a")
    assert (await sessions.store.read("a")).header == log.header


async def test_ids_are_made_where_none_is_given(sessions: Sessions):
    one, two = await sessions.create(), await sessions.create()
    assert one.id != two.id
    assert one.id.startswith("19700101-000001-")
    assert new_session_id(1_700_000_000_000).startswith("20231114-221320-")


async def test_a_session_is_resumed_where_it_was(sessions: Sessions):
    log = await sessions.create(id="a")
    turn(log)
    with refused("SESSION_BUSY"):
        await sessions.open("a")
    await log.close()
    assert sessions.live("a") is None
    again = await sessions.open("a")
    assert tuple(again.events) == tuple(log.events)
    assert again.derive_messages() == log.derive_messages()
    begin(again)
    await again.close()
    assert len((await sessions.read("a")).events) == len(log.events) + 2


async def test_resuming_repairs_and_keeps_the_repair(sessions: Sessions):
    # HOST-128, 129
    log = await sessions.create(id="a")
    turn(log, ended=None)
    await log.close()
    unrepaired = await sessions.open("a", repair=False)
    assert unrepaired.turn == 1
    await unrepaired.close()
    again = await sessions.open("a")
    assert again.turn is None
    assert again.stored_length == len(again.events)
    assert (await sessions.store.read("a")).events[-1].data["reason"] == {"kind": "interrupted"}


async def test_reading_repairs_nothing_and_sees_the_live_log(sessions: Sessions):
    # HOST-129
    log = await sessions.create(id="a")
    turn(log, ended=None)
    assert len((await sessions.read("a")).events) == len(log.events)
    view = await sessions.view("a")
    assert view.turn == 1
    assert view.derive_messages() == log.derive_messages()
    with refused("SESSION_NOT_LIVE"):
        say(view, "x")
    say(log, "goes on")
    with refused("SESSION_NOT_FOUND"):
        await sessions.view("nobody")


async def test_a_log_that_is_not_understood_is_not_resumed(sessions: Sessions):
    # HOST-115
    sessions.vocabulary.declare("todo/set")
    log = await sessions.create(id="a", seed=[EventDraft("todo/set", [])])
    await log.close()
    stranger = Sessions(sessions.store)
    with refused("UNKNOWN_EVENT_TYPE"):
        await stranger.open("a")
    with refused("UNKNOWN_EVENT_TYPE"):
        await stranger.view("a")
    assert len((await stranger.read("a")).events) == 2
    await (await sessions.open("a")).close()


async def test_a_failed_resume_gives_the_right_to_write_back(sessions: Sessions):
    log = await sessions.create(id="a", seed=[EventDraft("other", 1, ignorable=True)])
    await log.close()
    sessions.store._events["a"][0] = sessions.store._events["a"][1]
    with refused("CORRUPT_LOG"):
        await sessions.open("a")
    await (await sessions.store.open("a")).close()


async def test_a_fork_begins_with_the_others_events(sessions: Sessions):
    # HOST-113, 114
    log = await sessions.create(id="a", cwd="/w", agent_preset="p", delegation_depth=2)
    turn(log)
    boundary = len(log.events)
    turn(log)
    fork = await sessions.fork("a", boundary, id="b", origin="fork")
    assert tuple(fork.events[:-1]) == tuple(log.events[:boundary])
    assert fork.events[-1].type == "session/end-seed"
    header = fork.header
    assert (header.parent_session, header.seed_length, header.cwd) == ("a", boundary, "/w")
    assert (header.agent_preset, header.delegation_depth, header.origin) == ("p", 2, "fork")
    assert fork.stored_length == len(fork.events)
    begin(fork)
    assert log.last_turn == 2
    whole = await sessions.fork("a")
    assert len(whole.events) == len(log.events) + 1
    await log.close()
    assert len((await sessions.fork("a", 0)).events) == 0


async def test_a_fork_does_not_cut_through_a_turn(sessions: Sessions):
    # HOST-114
    log = await sessions.create(id="a")
    turn(log)
    before = len(log.events)
    for boundary in range(2, before):
        with refused("OPEN_TURN"):
            await sessions.fork("a", boundary)
    turn(log, ended=None)
    with refused("OPEN_TURN"):
        await sessions.fork("a")
    for bad in (-1, len(log.events) + 1, True, 1.0, "1"):
        with refused("INVALID_BOUNDARY"):
            await sessions.fork("a", bad)
    with refused("SESSION_NOT_FOUND"):
        await sessions.fork("nobody")
    with refused("SESSION_ALREADY_EXISTS"):
        await sessions.fork("a", before, id="a")


async def test_a_waiting_turn_is_not_forked(sessions: Sessions):
    # D34: its calls belong to the session that waits.
    log = await sessions.create(id="a")
    turn(log, ended="waiting")
    with refused("OPEN_TURN"):
        await sessions.fork("a")


async def test_a_bad_seed_creates_nothing(sessions: Sessions):
    # HOST-113
    with refused("INVALID_NESTING"):
        await sessions.create(id="a", seed=[EventDraft("turn/start", {"turn": 2})])
    assert await sessions.list() == []


async def test_sessions_are_listed_and_found(sessions: Sessions):
    for name, cwd, words in (("a", "/x", "Fix the Parser"), ("b", "/y", "write docs")):
        say(await sessions.create(id=name, cwd=cwd), words)
    for log in (sessions.live("a"), sessions.live("b")):
        await log.flush()
    await sessions.fork("a", id="c")
    assert [row.header.id for row in await sessions.list()] == ["c", "b", "a"]
    assert [row.header.id for row in await sessions.list(text="pARSer")] == ["c", "a"]
    assert [row.header.id for row in await sessions.list(cwd="/y")] == ["b"]
    assert [row.header.id for row in await sessions.list(parent_session="a")] == ["c"]
    assert [row.header.id for row in await sessions.list(text="b")] == ["b"]


async def test_an_export_is_imported_elsewhere(sessions: Sessions):
    log = await sessions.create(id="a", cwd="/w")
    turn(log)
    exported = await sessions.read("a")
    other = Sessions(MemoryStore())
    await other.import_session(exported)
    assert await other.read("a") == exported
    assert other.live("a") is None
    with refused("SESSION_ALREADY_EXISTS"):
        await other.import_session(exported)
    await other.import_session(exported, id="copy")
    assert (await other.read("copy")).header.id == "copy"
    sessions.vocabulary.declare("todo/set")
    log.append("todo/set", 1)
    with refused("UNKNOWN_EVENT_TYPE"):
        await other.import_session(await sessions.read("a"), id="third")
    assert len(await other.list()) == 2


async def test_sessions_that_are_live_are_not_deleted(sessions: Sessions):
    log = await sessions.create(id="a")
    with refused("SESSION_BUSY"):
        await sessions.delete("a")
    await log.close()
    await sessions.delete("a")
    with refused("SESSION_NOT_FOUND"):
        await sessions.read("a")


async def test_closing_closes_all_and_reports_all():
    class Broken(MemoryStore):
        def put(self, writer: Any, events: Any) -> None:
            raise OSError(writer.session_id)

    sessions = Sessions(Broken())
    logs = [await sessions.create(id=name) for name in "ab"]
    for log in logs:
        say(log, "x")
    with pytest.raises(ExceptionGroup) as caught:
        await sessions.close()
    assert [type(error) for error in caught.value.exceptions] == [SessionError] * 2
    assert not any(log.is_live for log in logs)
    await sessions.close()


async def test_events_are_dispatched_after_the_commit():
    # HOST-107, 113
    told: list[tuple[str, Any]] = []

    class Spy(HookBus):
        def emit(self, hook: Any, *args: Any, scope: Any = None) -> None:
            told.append((hook.name, *(arg.id if isinstance(arg, EventLog) else arg.seq for arg in args), scope))

    assert (SESSION_EVENT.name, SESSION_OPEN.name) == ("session/event", "session/open")
    bus = Spy()
    sessions = Sessions(MemoryStore(), bus=bus)
    log = await sessions.create(id="a", seed=[EventDraft("other", 1, ignorable=True)])
    say(log, "x")

    class Agent:
        scope = "the agent's scope"

    log.claim(Agent())
    say(log, "y")
    assert told == [
        ("session/open", "a", None),
        ("session/event", "a", 2, None),
        ("session/event", "a", 3, "the agent's scope"),
    ]
    await sessions.close()


async def test_the_plugin_stores_everything_at_its_end(tmp_path: Path):
    ctx = create_context()
    path = tmp_path / "s.sqlite"
    fiber = ctx.plugin(SessionsPlugin, {"path": str(path)})
    await fiber
    sessions = ctx.require("sessions")
    assert isinstance(sessions, Sessions)
    told: list[int] = []
    ctx.on(SESSION_EVENT, lambda log, event: told.append(event.seq))
    log = await sessions.create(id="a")
    say(log, "x")
    await fiber.dispose()
    assert not log.is_live
    assert told == [0]
    await ctx.dispose()
    store = SqliteStore(path)
    assert len((await store.read("a")).events) == 1
    await store.close()


async def test_the_configuration_is_checked():
    for bad in ({"store": "redis"}, {"store": "postgres"}, {"paht": "x"}, {"synchronous": "off"}):
        with pytest.raises(pydantic.ValidationError):
            SessionsConfig.model_validate(bad)
    assert isinstance(open_store(SessionsConfig(store="memory")), MemoryStore)
    postgres = open_store(SessionsConfig(store="postgres", conninfo="host=/nowhere"))
    assert isinstance(postgres, PostgresStore)
    with pytest.raises(ConfigError):
        open_store(SessionsConfig.model_construct(store="postgres", conninfo=None))
