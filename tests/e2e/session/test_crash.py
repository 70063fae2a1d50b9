"""kill -9 at random points of a running session: nothing acknowledged is lost, and the log is put right."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.postgres import postgres_server
from tests.support.sessions import unanswered

from dsh_tools.session import PostgresStore, Sessions, SessionStore, SqliteStore

ROOT = Path(__file__).parents[3]


async def run_and_kill(place: str, effects: Path, chance: random.Random, *, at_work: bool) -> int:
    """Let a child run for a random while, kill it, and return how many events it had acknowledged.

    ``at_work`` kills it among its turns, otherwise while it starts or repairs.
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.e2e.session.crash_child",
        place,
        str(effects),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout is not None
    assert child.stderr is not None
    first = b""
    try:
        if at_work:
            # Counted in acknowledgements, so that a busy machine does not stop it before it begins.
            for _ in range(chance.randint(2, 20)):
                line = await child.stdout.readline()
                assert line, (await child.stderr.read()).decode()
                first += line
            await asyncio.sleep(chance.uniform(0, 0.005))
        else:
            await asyncio.sleep(chance.uniform(0, 0.6))
    finally:
        child.send_signal(signal.SIGKILL)
        output = (await child.stdout.read()).decode()
        errors = (await child.stderr.read()).decode()
        await child.wait()
    assert child.returncode == -signal.SIGKILL, errors
    acknowledged = [int(line) for line in (first.decode() + output).split("\n")[:-1]]
    return acknowledged[-1] if acknowledged else 0


async def check(store: SessionStore, acknowledged: int, effects: Path) -> int:
    """Check what a kill left behind; return how many events there are."""
    if acknowledged == 0 and not await store.list_sessions():
        return 0
    # HOST-107, 127: the log is readable, and everything that was acknowledged is in it.
    stored = await store.read("s1")
    assert len(stored.events) >= acknowledged
    assert [event.seq for event in stored.events] == list(range(len(stored.events)))
    # HOST-127: no body ran whose call was not in the log, and none ran twice.
    ran = Counter(int(line) for line in effects.read_text().split()) if effects.exists() else Counter[int]()
    assert all(count == 1 for count in ran.values())
    assert all(stored.events[seq].type == "tool/call" for seq in ran)
    # HOST-128: resuming gives every call its result and closes the turn; the next process sees it.
    sessions = Sessions(store)
    log = await sessions.open("s1")
    assert tuple(log.events[: len(stored.events)]) == stored.events
    assert unanswered(log) == []
    assert log.turn is None
    starts = sum(event.type == "tool/code-dispatch-start" for event in log.events)
    assert starts == sum(event.type == "tool/code-dispatch" for event in log.events)
    codes = {
        event.source_event_seqs[0]
        for event in log.events
        if event.type == "tool/result" and event.data.get("error", {}).get("code") == "TOOL_OUTCOME_UNKNOWN"
    }
    answered = {
        event.source_event_seqs[0] for event in log.events if event.type == "tool/result" and "error" not in event.data
    }
    assert set(ran) <= codes | answered, "a call that ran is never said not to have started"
    await log.close()
    return len(log.events)


async def survive(make: Callable[[], SessionStore], place: str, folder: Path, runs: int) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    effects = folder / "effects"
    length = 0
    for run in range(runs):
        at_work = run % 5 != 4
        acknowledged = await run_and_kill(place, effects, chance, at_work=at_work)
        store = make()
        try:
            found = await check(store, acknowledged, effects)
        except AssertionError as error:
            error.add_note(f"run {run} of seed {seed}")
            raise
        finally:
            await store.close()
        assert found > length if at_work else found >= length
        length = found


@pytest.mark.limit(600)
async def test_sqlite_survives_kill_9(no_leaks: None, tmp_path: Path, figure: Callable[[int, int], int]):
    path = tmp_path / "s.sqlite"
    await survive(lambda: SqliteStore(path), str(path), tmp_path, figure(10, 100))


@pytest.fixture(scope="module")
def conninfo() -> Iterator[str]:
    with postgres_server() as server:
        yield server.conninfo


@pytest.mark.limit(600)
@pytest.mark.needs("postgres")
async def test_postgres_survives_kill_9(
    conninfo: str, no_leaks: None, tmp_path: Path, figure: Callable[[int, int], int]
):
    await survive(lambda: PostgresStore(conninfo), conninfo, tmp_path, figure(3, 100))
