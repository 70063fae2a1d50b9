"""What is durable when: batches, flushes, failing stores, and the checkpoint before a body."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.sessions import begin, end, new_log, say

from dsh_tools.errors import AbortError, SessionError
from dsh_tools.kernel import NEVER, AbortController
from dsh_tools.session import Event, EventLog, MemoryStore, checkpoint
from dsh_tools.testing.store_conformance import refused

pytestmark = pytest.mark.usefixtures("no_leaks")


class Writer:
    """A writer that notes its batches, can be held up, and can fail."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.failures: list[Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.closed = False

    async def append(self, events: Sequence[Event]) -> None:
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append([event.seq for event in events])

    async def close(self) -> None:
        self.closed = True


def kept(writer: Writer) -> EventLog:
    log = new_log()
    log.keep(writer, 0)
    return log


async def test_events_of_one_tick_are_one_batch():
    writer = Writer()
    log = kept(writer)
    for word in "abc":
        say(log, word)
    assert writer.batches == []
    assert log.stored_length == 0
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert writer.batches == [[0, 1, 2]]
    assert log.stored_length == 3
    await log.flush()
    assert writer.batches == [[0, 1, 2]]


async def test_storing_goes_on_tick_after_tick():
    writer = Writer()
    log = kept(writer)
    for word in "abc":
        say(log, word)
        await asyncio.sleep(0.01)
    assert writer.batches == [[0], [1], [2]]


async def test_after_a_flush_that_worked_storing_goes_on_by_itself():
    writer = Writer()
    log = kept(writer)
    writer.failures = [OSError("gone")]
    say(log, "a")
    await asyncio.sleep(0.01)
    await log.flush()
    say(log, "b")
    await asyncio.sleep(0.01)
    assert writer.batches == [[0], [1]]


async def test_what_comes_while_a_batch_is_written_is_the_next_batch():
    writer = Writer()
    log = kept(writer)
    writer.gate.clear()
    say(log, "a")
    flushing = asyncio.ensure_future(log.flush())
    await asyncio.sleep(0.01)
    say(log, "b")
    say(log, "c")
    assert not flushing.done()
    writer.gate.set()
    await flushing
    await log.flush()
    assert writer.batches == [[0], [1, 2]]


async def test_a_flush_waits_for_its_own_events_only():
    writer = Writer()
    log = kept(writer)
    say(log, "a")
    writer.gate.clear()
    flushing = asyncio.ensure_future(log.flush())
    await asyncio.sleep(0.01)
    say(log, "b")
    later = asyncio.ensure_future(log.flush())
    writer.gate.set()
    await flushing
    assert log.stored_length >= 1
    await later
    assert log.stored_length == 2


async def test_a_log_without_a_store_has_nothing_to_wait_for():
    log = new_log()
    say(log, "a")
    await log.flush()
    assert log.stored_length == 0


def test_events_appended_without_a_loop_are_stored_by_the_next_flush():
    store = MemoryStore()
    log = new_log()
    log.keep(asyncio.run(store.create(log.header)), 0)
    say(log, "a")
    asyncio.run(log.flush())
    assert len(asyncio.run(store.read("s1")).events) == 1


@pytest.mark.parametrize(
    ("raised", "code"), [(SessionError("full", "STORE_FAILED"), "STORE_FAILED"), (OSError("full"), "STORE_FAILED")]
)
async def test_a_failing_store_fails_the_flush_and_loses_nothing(
    raised: Exception, code: str, caplog: pytest.LogCaptureFixture
):
    # HOST-127: fails closed.
    writer = Writer()
    log = kept(writer)
    writer.failures = [raised]
    say(log, "a")
    with refused(code):
        await log.flush()
    assert "not stored" in caplog.text
    assert len(log.derive_messages()) == 1
    say(log, "b")
    await asyncio.sleep(0.01)
    assert writer.batches == [], "nothing is stored behind a failure until somebody flushes"
    await log.flush()
    assert writer.batches == [[0, 1]]


async def test_a_failure_in_the_background_surfaces_at_the_flush():
    writer = Writer()
    log = kept(writer)
    writer.failures = [OSError("gone"), OSError("still gone")]
    say(log, "a")
    await asyncio.sleep(0.01)
    assert writer.failures != []
    with pytest.raises(SessionError, match="the session store failed: still gone"):
        await log.flush()
    with pytest.raises(SessionError):
        writer.failures = [OSError("x")]
        await log.close()
    assert writer.closed


async def test_all_waiting_flushes_hear_of_a_failure():
    writer = Writer()
    log = kept(writer)
    writer.gate.clear()
    say(log, "a")
    one, two = asyncio.ensure_future(log.flush()), asyncio.ensure_future(log.flush())
    await asyncio.sleep(0.01)
    writer.failures = [OSError("gone")]
    writer.gate.set()
    assert [type(error) for error in await asyncio.gather(one, two, return_exceptions=True)] == [SessionError] * 2


async def test_cancelling_a_flush_does_not_stop_the_storing():
    writer = Writer()
    log = kept(writer)
    writer.gate.clear()
    say(log, "a")
    flushing = asyncio.ensure_future(log.flush())
    await asyncio.sleep(0.01)
    flushing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flushing
    writer.gate.set()
    await log.flush()
    assert writer.batches == [[0]]


async def test_closing_stores_the_rest_and_gives_the_writer_back():
    writer = Writer()
    log = kept(writer)
    say(log, "a")
    await log.close()
    assert writer.batches == [[0]]
    assert writer.closed
    with refused("SESSION_NOT_LIVE"):
        say(log, "b")


async def test_a_writer_gets_what_is_there_already():
    writer = Writer()
    log = new_log()
    for word in "abc":
        say(log, word)
    log.keep(writer, 1)
    await log.flush()
    assert writer.batches == [[1, 2]]


async def test_a_log_has_one_writer():
    log = kept(Writer())
    with refused("SESSION_BUSY"):
        log.keep(Writer(), 0)


async def test_a_checkpoint_flushes_or_gives_way_to_an_abort():
    # HOST-127
    writer = Writer()
    log = kept(writer)
    say(log, "a")
    await checkpoint(log, NEVER)
    assert log.stored_length == 1
    say(log, "b")
    writer.gate.clear()
    controller = AbortController()
    waiting = asyncio.ensure_future(checkpoint(log, controller.signal))
    await asyncio.sleep(0.01)
    controller.abort("stop")
    with pytest.raises(AbortError):
        await waiting
    writer.gate.set()
    await log.flush()


async def test_a_second_writer_is_noticed_by_the_log(caplog: pytest.LogCaptureFixture):
    # Two logs of one session: the second's events are refused, and its flush says so.
    store = MemoryStore()
    one = new_log()
    one.keep(await store.create(one.header), 0)
    begin(one)
    end(one)
    await one.flush()
    other = new_log()
    other.keep(one._tail._writer, 0)
    say(other, "mine")
    with refused("SESSION_CONFLICT"):
        await other.flush()
    assert (await store.read("s1")).events == tuple(one.events)


async def test_streams_of_appends_keep_their_order():
    writer = Writer()
    log = kept(writer)

    async def talk(name: str) -> None:
        for number in range(30):
            say(log, f"{name}{number}")
            if number % 7 == 0:
                await log.flush()
            else:
                await asyncio.sleep(0)

    await asyncio.gather(*(talk(name) for name in "abcd"))
    await log.flush()
    flat: list[Any] = [seq for batch in writer.batches for seq in batch]
    assert flat == list(range(120))
