"""What every session store must do, as tests to inherit.

Subclass :class:`StoreConformance`, define the fixture ``make_store``, and pytest (in asyncio's
auto mode) runs the suite against your store::

    class TestMyStore(StoreConformance):
        durable = True

        @pytest.fixture
        async def make_store(self, tmp_path):
            stores = []

            def make():
                stores.append(MyStore(tmp_path / "sessions"))
                return stores[-1]

            yield make
            for store in stores:
                await store.close()

Every call of ``make_store()`` is a further process, so to speak: it sees the same sessions and
shares no memory. A store with ``durable = False`` is asked for one instance only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ..errors import SessionError
from ..json_value import snapshot
from ..messages import record_json, user_message
from ..session import Event, SessionHeader, SessionStore

__all__ = ["StoreConformance", "refused", "sample_events"]

MakeStore = Callable[[], SessionStore]

# Values that stores have been seen to lose: lone surrogates, NUL, depth, long integers, float forms.
AWKWARD: dict[str, Any] = {
    "surrogate": "a\ud835b",
    "nul": "\x00",
    "emoji": "🙂",
    "int": 9007199254740993,
    "long": 10**30,
    "tiny": 5e-324,
    "float": 1e300,
    "text": 'quote " backslash \\ newline \n tab \t é',
    "empty": [{}, [], "", None, False],
}


def sample_events(count: int, *, start: int = 0, tag: str = "event") -> list[Event]:
    """Return ``count`` contiguous events from place ``start`` on."""
    return [
        Event(seq, 1000 + seq, "note", snapshot({"tag": tag, "number": seq}), ignorable=True)
        for seq in range(start, start + count)
    ]


def refused(code: str) -> Any:
    """Return a context that expects a ``SessionError`` with this code."""
    return pytest.raises(SessionError, check=lambda error: error.code == code)


def _header(session_id: str = "s1", created_at: int = 1000) -> SessionHeader:
    return SessionHeader(id=session_id, created_at=created_at, cwd="/somewhere", delegation_depth=0)


class StoreConformance:
    """The suite; see the module's text."""

    durable = True

    # ── keeping and reading ────────────────────────────────────────────────────

    async def test_what_is_stored_is_read(self, make_store: MakeStore) -> None:
        """Header and events come back equal, in order (HOST-107, 116)."""
        store = make_store()
        events = sample_events(5)
        writer = await store.create(_header(), events[:2])
        await writer.append(events[2:4])
        await writer.append(events[4:])
        found = await store.read("s1")
        assert found.header == _header()
        assert found.events == tuple(events)
        await writer.close()

    async def test_awkward_values_survive(self, make_store: MakeStore) -> None:
        """Lone surrogates, NULs, long integers and all else that is lossless comes back as it was."""
        store = make_store()
        event = Event(0, 1, "note", snapshot(AWKWARD), ignorable=True)
        await (await store.create(_header(), [event])).close()
        (found,) = (await store.read("s1")).events
        assert found == event
        assert {key: type(value) for key, value in found.data.items()} == {
            key: type(value) for key, value in event.data.items()
        }

    async def test_depth_is_no_limit(self, make_store: MakeStore) -> None:
        """A value nested 20,000 levels is stored and read (HOST-117)."""
        deep: Any = 1
        for _ in range(20_000):
            deep = [deep]
        store = make_store()
        event = Event(0, 1, "note", snapshot(deep), ignorable=True)
        await (await store.create(_header(), [event])).close()
        inner: Any = (await store.read("s1")).events[0].data
        depth = 0
        while type(inner) is not int:
            (inner,) = inner
            depth += 1
        assert (depth, inner) == (20_000, 1)

    async def test_what_is_read_is_frozen(self, make_store: MakeStore) -> None:
        """Nobody changes a log by changing what was read (HOST-107)."""
        store = make_store()
        await (await store.create(_header(), sample_events(1))).close()
        data = (await store.read("s1")).events[0].data
        with pytest.raises(TypeError):
            data["number"] = 7
        assert (await store.read("s1")).events[0].data["number"] == 0

    async def test_an_empty_batch_is_fine(self, make_store: MakeStore) -> None:
        """Nothing to store is not a fault."""
        store = make_store()
        writer = await store.create(_header())
        await writer.append([])
        assert (await store.read("s1")).events == ()
        await writer.close()

    async def test_the_list_shows_the_latest_first(self, make_store: MakeStore) -> None:
        """Summaries have header, length, time of the last event and a title."""
        store = make_store()
        message = snapshot(record_json(user_message("  Find the bug\nplease")))
        first = Event(0, 5000, "user/message", message, "append")
        for session_id, events in (("old", sample_events(2)), ("new", [first]), ("none", [])):
            await (await store.create(_header(session_id, 900), events)).close()
        rows = await store.list_sessions()
        assert [(row.header.id, row.length, row.updated_at, row.title) for row in rows] == [
            ("new", 1, 5000, "Find the bug"),
            ("old", 2, 1001, ""),
            ("none", 0, 900, ""),
        ]

    async def test_the_list_says_which_sessions_wait(self, make_store: MakeStore) -> None:
        """A session waits when its last turn has ended so, and no turn has begun since (D34)."""
        store = make_store()
        begun = Event(0, 1, "turn/start", snapshot({"turn": 1}))
        ended = Event(1, 2, "turn/end", snapshot({"turn": 1, "reason": {"kind": "waiting"}}))
        answered = Event(2, 3, "approval/decided", snapshot({"id": "q", "outcome": "rejected"}))
        resumed = Event(3, 4, "turn/start", snapshot({"turn": 2}))
        events = (begun, ended, answered, resumed)
        for length in range(5):
            await (await store.create(_header(str(length)), events[:length])).close()
        waiting = {row.header.id for row in await store.list_sessions() if row.waiting}
        assert waiting == {"2", "3"}

    # ── refusing ───────────────────────────────────────────────────────────────

    async def test_an_id_is_taken_once(self, make_store: MakeStore) -> None:
        """A second session of one id is refused, whether the first is open or not (HOST-114)."""
        store = make_store()
        writer = await store.create(_header(), sample_events(1))
        with refused("SESSION_ALREADY_EXISTS"):
            await store.create(_header(), sample_events(3))
        await writer.close()
        with refused("SESSION_ALREADY_EXISTS"):
            await store.create(_header())
        assert len((await store.read("s1")).events) == 1

    async def test_what_is_not_there_is_not_found(self, make_store: MakeStore) -> None:
        """Reading, opening and deleting say so (HOST-114)."""
        store = make_store()
        for attempt in (store.read, store.open, store.delete):
            with refused("SESSION_NOT_FOUND"):
                await attempt("nobody")

    @pytest.mark.parametrize("session_id", ["", "x" * 201, "a\nb", "a\x00b", "\ud800"])
    async def test_bad_ids_are_refused(self, make_store: MakeStore, session_id: str) -> None:
        """An id is 1 to 200 printable characters."""
        with refused("INVALID_SESSION_ID"):
            await make_store().create(_header(session_id))

    async def test_a_gap_is_refused(self, make_store: MakeStore) -> None:
        """Numbers are contiguous; a batch that leaves one out is not stored at all (HOST-107)."""
        store = make_store()
        writer = await store.create(_header(), sample_events(2))
        with refused("SESSION_CONFLICT"):
            await writer.append(sample_events(2, start=3))
        assert len((await store.read("s1")).events) == 2
        await writer.close()

    async def test_the_same_batch_again_is_fine(self, make_store: MakeStore) -> None:
        """A batch whose fate is unknown is sent again; it is stored once."""
        store = make_store()
        events = sample_events(6)
        writer = await store.create(_header(), events[:2])
        await writer.append(events[2:4])
        await writer.append(events[2:4])
        await writer.append(events[2:])
        assert (await store.read("s1")).events == tuple(events)
        await writer.close()

    async def test_other_events_in_the_same_places_conflict(self, make_store: MakeStore) -> None:
        """A second writer is noticed, and what the first one stored stays."""
        store = make_store()
        events = sample_events(4)
        writer = await store.create(_header(), events)
        with refused("SESSION_CONFLICT"):
            await writer.append(sample_events(3, start=2, tag="other"))
        with refused("SESSION_CONFLICT"):
            await writer.append(events[2:3])
        assert (await store.read("s1")).events == tuple(events)
        await writer.close()

    async def test_a_closed_writer_writes_no_more(self, make_store: MakeStore) -> None:
        """Closing gives the right back, and closing again does nothing."""
        store = make_store()
        writer = await store.create(_header())
        await writer.close()
        await writer.close()
        with refused("SESSION_NOT_LIVE"):
            await writer.append(sample_events(1))

    # ── one writer, many readers ───────────────────────────────────────────────

    async def test_there_is_one_writer(self, make_store: MakeStore) -> None:
        """A second one is refused until the first is closed."""
        store = make_store()
        first = await store.create(_header(), sample_events(1))
        with refused("SESSION_BUSY"):
            await store.open("s1")
        with refused("SESSION_BUSY"):
            await store.delete("s1")
        await first.close()
        second = await store.open("s1")
        await second.append(sample_events(1, start=1))
        await second.close()
        assert len((await store.read("s1")).events) == 2

    async def test_many_sessions_are_open_at_once(self, make_store: MakeStore) -> None:
        """Writers of different sessions don't disturb each other."""
        store = make_store()

        async def use(number: int) -> None:
            writer = await store.create(_header(f"s{number}"))
            for seq in range(5):
                await writer.append(sample_events(1, start=seq, tag=f"s{number}"))
            await writer.close()

        await asyncio.gather(*(use(number) for number in range(8)))
        for number in range(8):
            found = await store.read(f"s{number}")
            assert found.events == tuple(sample_events(5, tag=f"s{number}"))

    async def test_deleting_removes_it_all(self, make_store: MakeStore) -> None:
        """A deleted session's id is free again, and nothing of it comes back."""
        store = make_store()
        await (await store.create(_header(), sample_events(3))).close()
        await (await store.create(_header("s2"), sample_events(1))).close()
        await store.delete("s1")
        assert [row.header.id for row in await store.list_sessions()] == ["s2"]
        await (await store.create(_header())).close()
        assert (await store.read("s1")).events == ()

    async def test_closing_the_store_closes_its_writers(self, make_store: MakeStore) -> None:
        """Nothing stays locked behind a closed store."""
        store = make_store()
        writer = await store.create(_header(), sample_events(1))
        await store.close()
        with refused("SESSION_NOT_LIVE"):
            await writer.append(sample_events(1, start=1))
        if self.durable:
            other = make_store()
            await (await other.open("s1")).close()

    # ── further processes ──────────────────────────────────────────────────────

    async def test_a_second_store_is_refused_the_right_to_write(self, make_store: MakeStore) -> None:
        """The right is exclusive between processes; reading is not."""
        if not self.durable:
            return
        one, two = make_store(), make_store()
        writer = await one.create(_header(), sample_events(1))
        with refused("SESSION_BUSY"):
            await two.open("s1")
        with refused("SESSION_ALREADY_EXISTS"):
            await two.create(_header())
        await writer.append(sample_events(1, start=1))
        assert len((await two.read("s1")).events) == 2
        assert [row.length for row in await two.list_sessions()] == [2]
        await writer.close()
        taken = await two.open("s1")
        with refused("SESSION_BUSY"):
            await one.open("s1")
        await taken.close()

    async def test_a_reopened_store_has_it_all(self, make_store: MakeStore) -> None:
        """What was acknowledged is there after the store is closed and opened again."""
        if not self.durable:
            return
        one = make_store()
        await (await one.create(_header(), sample_events(50))).close()
        await one.close()
        assert (await make_store().read("s1")).events == tuple(sample_events(50))

    async def test_stores_that_start_at_once_agree(self, make_store: MakeStore) -> None:
        """Several stores opening an empty place at the same time make one schema and lose nothing."""
        if not self.durable:
            return
        stores = [make_store() for _ in range(4)]
        writers = await asyncio.gather(
            *(store.create(_header(f"s{number}"), sample_events(3)) for number, store in enumerate(stores))
        )
        for writer in writers:
            await writer.close()
        assert {row.header.id for row in await stores[0].list_sessions()} == {"s0", "s1", "s2", "s3"}

    async def test_of_several_creators_one_wins(self, make_store: MakeStore) -> None:
        """Creating one id from several stores at once succeeds exactly once."""
        stores = [make_store() for _ in range(4)] if self.durable else [make_store()] * 4
        results = await asyncio.gather(
            *(store.create(_header(), sample_events(number + 1)) for number, store in enumerate(stores)),
            return_exceptions=True,
        )
        writers = [result for result in results if not isinstance(result, BaseException)]
        codes = [result.code for result in results if isinstance(result, SessionError)]
        assert (len(writers), codes) == (1, ["SESSION_ALREADY_EXISTS"] * 3)
        await writers[0].close()
