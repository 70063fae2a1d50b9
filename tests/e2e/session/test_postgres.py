"""The PostgreSQL store against a real server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.support.journal import answer_all, application, effects, go_on, program_of, start
from tests.support.journals import JournalConformance
from tests.support.postgres import PostgresServer, postgres_server

from dsh_tools.errors import SessionError
from dsh_tools.session import EventLog, Journal, PostgresStore, SessionHeader, SessionStore
from dsh_tools.testing.store_conformance import StoreConformance, refused, sample_events

pytestmark = pytest.mark.needs("postgres")

HEADER = SessionHeader(id="s1", created_at=1)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture
async def stores_of(server: PostgresServer) -> AsyncIterator[Callable[[], SessionStore]]:
    import psycopg

    schema = f"t{next(_numbers)}"
    async with await psycopg.AsyncConnection.connect(server.conninfo, autocommit=True) as db:
        await db.execute(f"CREATE SCHEMA {schema}")
    stores: list[PostgresStore] = []

    def make() -> PostgresStore:
        stores.append(PostgresStore(f"{server.conninfo} options='-csearch_path={schema}'"))
        return stores[-1]

    yield make
    for store in stores:
        await store.close()


@pytest.fixture
def make_store(no_leaks: None, stores_of: Callable[[], SessionStore]) -> Callable[[], SessionStore]:
    return stores_of


class TestPostgres(StoreConformance):
    pass


async def test_a_lost_connection_loses_nothing(stores_of: Callable[[], PostgresStore], server: PostgresServer):
    store = stores_of()
    log = EventLog(HEADER)
    log.keep(await store.create(HEADER), 0)
    log.append("turn/start", {"turn": 1})
    await log.flush()
    server.stop()
    log.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    with refused("STORE_FAILED"):
        await log.flush()
    assert log.stored_length == 1
    server.start()
    # The next flush connects again, takes the lock again, and stores what waited.
    await log.flush()
    assert (await store.read("s1")).events == tuple(log.events)
    with refused("SESSION_BUSY"):
        await stores_of().open("s1")
    await log.close()


async def test_a_session_taken_meanwhile_is_not_overwritten(
    stores_of: Callable[[], PostgresStore], server: PostgresServer
):
    store = stores_of()
    writer = await store.create(HEADER, sample_events(1))
    server.stop()
    server.start()
    # The restart let the lock go; somebody else is faster.
    other = await stores_of().open("s1")
    with refused("SESSION_BUSY"):
        for _ in range(3):
            try:
                await writer.append(sample_events(1, start=1, tag="mine"))
            except SessionError as error:
                if error.code != "STORE_FAILED":
                    raise
    await other.append(sample_events(1, start=1, tag="theirs"))
    await other.close()
    with refused("SESSION_CONFLICT"):
        await writer.append(sample_events(1, start=1, tag="mine"))
    assert (await store.read("s1")).events[1].data["tag"] == "theirs"


async def test_a_writer_past_the_lock_is_noticed(make_store: Callable[[], PostgresStore]):
    store = make_store()
    writer = await store.create(HEADER, sample_events(1))
    async with store._writing() as db:
        await db.execute("INSERT INTO dsh_events VALUES ('s1', 1, 0, 'note', '{}')")
    with refused("SESSION_CONFLICT"):
        await writer.append(sample_events(1, start=1))


async def test_a_newer_database_is_refused(make_store: Callable[[], PostgresStore]):
    store = make_store()
    await store.list_sessions()
    async with store._writing() as db:
        await db.execute("INSERT INTO dsh_schema VALUES (99)")
    with pytest.raises(SessionError, match="was written by a newer version"):
        await make_store().list_sessions()


async def test_an_address_nobody_listens_at_is_a_clear_failure(tmp_path):
    store = PostgresStore(f"host={tmp_path} user=dsh dbname=postgres")
    with pytest.raises(SessionError, match="the session store failed: "):
        await store.list_sessions()
    await store.close()


async def test_a_cancelled_batch_is_whole_or_absent(make_store: Callable[[], PostgresStore]):
    store = make_store()
    writer = await store.create(HEADER)
    for delay in (0, 0.001, 0.005, 0.02):
        task = asyncio.ensure_future(writer.append(sample_events(300)))
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.wait([task])
        assert len((await store.read("s1")).events) in (0, 300)
    await writer.append(sample_events(300))
    assert len((await store.read("s1")).events) == 300


class TestPostgresJournal(JournalConformance):
    @pytest.fixture
    async def journal(self, no_leaks: None, stores_of: Callable[[], PostgresStore]) -> Journal:
        store = stores_of()
        for session_id in ("s1", "s2"):
            await (await store.create(SessionHeader(id=session_id, created_at=1))).close()
        return store.journal()


async def test_a_program_waits_and_goes_on_with_a_database(
    stores_of: Callable[[], PostgresStore], server: PostgresServer, tmp_path: Path
):
    # D34
    conninfo = stores_of()._conninfo
    program = """
    const first = await tools.effect({ name: "first", value: 1 });
    await new Promise((wake) => setTimeout(wake, 2));
    return [first, await tools.pay({ name: "second", value: 2 }), await tools.effect({ name: "third", value: 3 })];
    """
    settings = {"sessions": {"store": "postgres", "conninfo": conninfo}}
    async with application(tmp_path, **settings) as ctx:
        agent = await start(ctx, program_of(program))
        assert agent.is_waiting
    async with application(tmp_path, **settings) as ctx:
        assert [summary.waiting for summary in await ctx.sessions.list()] == [True]
        await answer_all(ctx)
        outcome = await (await go_on(ctx)).resume()
        assert "third is done" in outcome.text
    assert effects(tmp_path / "effects") == ["first 1", "second 2", "third 3"]
