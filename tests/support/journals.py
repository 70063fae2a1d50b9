"""What every journal must do, as tests to inherit, each with a fixture ``journal``."""

from __future__ import annotations

from dsh_tools.code_mode import JournalStep, ProgramFacts
from dsh_tools.json_value import snapshot
from dsh_tools.session import Journal, JournalRun, ParkedCall, new_run
from dsh_tools.testing.store_conformance import AWKWARD

__all__ = ["JournalConformance", "written"]

FACTS = ProgramFacts("typescript", "deno 1", "p" * 64, {"echo": "e" * 64, "ec\ud800ho": "f" * 64})


async def written(journal: Journal, *steps: JournalStep, run: JournalRun | None = None) -> JournalRun:
    """Write a program's journal, and read it again."""
    run = run if run is not None else new_run(FACTS)
    program = await journal.begin_run("s1", 7, run)
    for step in steps:
        kept = program.write(step)
        if kept is not None:
            await kept
    await program.end("suspended")
    program.close()
    return (await journal.load("s1")).runs[7]


class JournalConformance:
    """What every journal must do."""

    async def test_what_is_written_is_read(self, journal: Journal):
        # D34
        run = new_run(FACTS)
        begun = JournalStep(1, "call", "ec\ud800ho", "a" * 64, "started")
        ended = JournalStep(
            1, "call", "ec\ud800ho", "a" * 64, "value", 2, 1_700, snapshot(AWKWARD), snapshot({"x": [1]})
        )
        timer = JournalStep(2, "timer", "sleep", "5", "value", 1, 1_600)
        failed = JournalStep(3, "call", "pay", "", "error", 3, 1_800, "it failed\nhere")
        found = await written(journal, begun, timer, ended, failed, run=run)
        assert (found.facts, found.seed, found.started_at, found.state) == (
            FACTS,
            run.seed,
            run.started_at,
            "suspended",
        )
        assert list(found.steps) == [ended, timer, failed]
        assert FACTS.changes(found.facts) == []

    async def test_a_run_is_gone_on_with(self, journal: Journal):
        run = await written(journal, JournalStep(1, "call", "t", "a", "started"))
        again = await journal.reopen_run("s1", 7, run, {"c:code:1": None})
        assert list(again.steps) == [JournalStep(1, "call", "t", "a", "started")]
        assert again.logged == {"c:code:1": None}
        kept = again.write(JournalStep(1, "call", "t", "a", "error", 1, 5, "unknown"))
        if kept is not None:
            await kept
        await again.end("done")
        again.close()
        found = (await journal.load("s1")).runs[7]
        assert found.state == "done"
        assert [step.outcome for step in found.steps] == ["unknown"]

    async def test_calls_are_parked(self, journal: Journal):
        call = ParkedCall(3, "pay", snapshot({"deep": [AWKWARD]}), "d" * 64, "s" * 64)
        await journal.park("s1", call)
        assert (await journal.load("s1")).parked == {3: call}
        started = ParkedCall(3, "pay", call.arguments, "d" * 64, "s" * 64, "started")
        await journal.park("s1", started)
        journal.announce("s1", 9)
        await written(journal)
        contents = await journal.load("s1")
        assert contents.parked == {3: started}
        assert contents.announced == {9}
        assert set(await journal.known("s1")) == {3, 7, 9}
        assert (await journal.load("s2")).runs == {}
        assert set(await journal.known("s2")) == set()

    async def test_what_is_over_is_dropped(self, journal: Journal):
        await written(journal, JournalStep(1, "call", "t", "a", "value", 1, 5, "old"))
        again = await journal.begin_run("s1", 8, new_run(FACTS), drop_others=True)
        again.close()
        assert set(await journal.known("s1")) == {8}
        await journal.forget("s1")
        assert set(await journal.known("s1")) == set()
        await journal.forget("s1")

    async def test_long_outcomes(self, journal: Journal):
        long = snapshot({"text": "ü" * 1_000_000, "rows": [{"n": n} for n in range(10_000)]})
        found = await written(journal, *(JournalStep(n, "call", "t", "a", "value", n, 5, long) for n in range(1, 4)))
        assert [step.outcome for step in found.steps] == [long] * 3
