"""kill -9 at every state of a journal: the same end, and nothing done twice (D34)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.support.journal import answer_all, application, effects, go_on, start
from tests.support.journal_programs import EFFECTS, ONCE, model_for
from tests.support.sessions import unanswered

from dsh_tools.agent import Agent

from .kill_child import WAITING

ROOT = Path(__file__).parents[3]
UNKNOWN = "TOOL_OUTCOME_UNKNOWN"
NUMBERS = {1: "first", 4: "third", 5: "fourth", 6: "fifth", 7: "sixth"}
AT_ONCE = 3


async def kill_everywhere(folder: Path, *arguments: str) -> list[Path]:
    """Have a child die at each point; return the folders they leave, the last one of a child that lived."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.e2e.journal.kill_child",
        str(folder),
        *arguments,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    _, errors = await child.communicate()
    assert child.returncode == 0, errors.decode()
    *killed, last = sorted(place for place in folder.iterdir() if place.name != WAITING)
    assert not (last / "point").exists()
    assert all((place / "point").exists() for place in killed)
    return killed


async def finish(place: Path, language: str, mode: str) -> tuple[Agent, str]:
    """Go on with what a killed process left, answering what is asked, to the end; return the agent and its last text."""
    for _ in range(4):
        async with application(place, language, mode=mode) as ctx:
            agent = await go_on(ctx)
            if agent.is_waiting:
                await answer_all_of_live(agent)
                outcome = await agent.resume()
                if agent.is_waiting:
                    continue
                return agent, outcome.text
            return agent, ""
    raise AssertionError("it waits for ever")


async def answer_all_of_live(agent: Agent) -> None:
    """Answer what a killed process has asked, under the session's lock, which this process holds."""
    await answer_all(agent.ctx)


def window(point: str) -> str | None:
    """The effect that may have been done, or not, where a process died: between its start and its outcome."""
    entry = re.fullmatch(r"(before|after) entry \w+ (\d+) (\w+)", point)
    if entry is not None:
        moment, number, state = entry.groups()
        return NUMBERS.get(int(number)) if (moment, state) in {("after", "started"), ("before", "value")} else None
    effect = re.fullmatch(r"\w+ effect (\w+) .*", point)
    return effect[1] if effect is not None and effect[1] in ONCE else None


async def check(place: Path, language: str) -> str:
    """Finish what was killed and check the end; return what its result was."""
    point = (place / "point").read_text()
    agent, text = await finish(place, language, "code")
    log = agent.session
    assert unanswered(log) == []
    assert log.turn is None
    done = Counter(line.split()[0] for line in effects(place / "effects"))
    assert all(done[name] <= 1 for name in ONCE), (point, done)
    starts = [event.data["subCallId"] for event in log.events if event.type == "tool/code-dispatch-start"]
    ends = [event.data["subCallId"] for event in log.events if event.type == "tool/code-dispatch"]
    assert len(set(starts)) == len(starts)
    assert sorted(starts) == sorted(ends)
    if not text:
        # The call itself was not durable yet: nothing had begun, and nothing waits.
        assert "entry 4" in point
        assert not done
        return "nothing"
    results = json.loads(text)
    unknown = {name for name, result in zip(EFFECTS, results, strict=True) if result.startswith(UNKNOWN)}
    assert [result for result in results if not result.startswith(UNKNOWN)] == [
        "fifth is paid" if name == "fifth" else f"{name} is done" for name in EFFECTS if name not in unknown
    ]
    between = window(point)
    assert unknown == ({between} if between else set()), (point, results)
    assert all(done[name] == 1 for name in ONCE - unknown), (point, done)
    assert 1 <= done["second"] <= 2
    values = {line.split()[1] for line in effects(place / "effects") if not line.startswith("fifth")}
    assert len(values) == 1, "another run had another chance"
    return "unknown" if unknown else "same"


async def check_all(places: list[Path], language: str) -> Counter[str]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(place: Path) -> str:
        async with gate:
            return await check(place, language)

    return Counter(await asyncio.gather(*(one(place) for place in places)))


def entry_points(places: list[Path]) -> set[str]:
    return {re.sub(r" \d+$", "", (place / "point").read_text()) for place in places}


@pytest.mark.parametrize("language", ["typescript", "python"])
async def test_killed_at_every_entry_before_it_waits(language: str, tmp_path: Path):
    places = await kill_everywhere(tmp_path, language, "start", "code", "entry")
    points = entry_points(places)
    for number, name, tool in ((1, "first", "effect"), (4, "third", "beside"), (5, "fourth", "beside")):
        assert points >= {
            f"before entry {tool} {number} started",
            f"after entry {tool} {number} started",
            f"before effect {name}",
            f"after effect {name}",
            f"before entry {tool} {number} value",
            f"after entry {tool} {number} value",
        }
    assert points >= {"before entry 0 ", "after entry 0 ", "before effect second", "after entry again 2 value"}
    assert points >= {"before entry sleep 3 value", "before entry 1 suspended", "after entry 1 suspended"}
    found = await check_all(places, language)
    assert found["same"] >= 16
    assert found["unknown"] == 4 * 3
    assert found["nothing"] == 2


@pytest.mark.parametrize("language", ["typescript", "python"])
async def test_killed_at_every_entry_while_it_goes_on(language: str, tmp_path: Path):
    waiting = tmp_path / WAITING
    waiting.mkdir()
    async with application(waiting, language) as ctx:
        await start(ctx, model_for(language, "code"))
    places = await kill_everywhere(tmp_path, language, "resume", "code", "entry")
    points = entry_points(places)
    assert points >= {
        "before entry 1 running",
        "after entry pay 6 started",
        "before effect fifth",
        "after entry 1 done",
    }
    assert not any("first" in point or "third" in point for point in points), "a settled call has run again"
    found = await check_all(places, language)
    assert found["unknown"] == 4 * 2
    assert found["same"] >= 8


async def test_killed_at_every_batch_of_the_log(tmp_path: Path):
    # The log is written beside the program, and may end anywhere before it.
    first, second = tmp_path / "start", tmp_path / "resume"
    waiting = second / WAITING
    for folder in (first, waiting):
        folder.mkdir(parents=True)
    async with application(waiting) as ctx:
        await start(ctx, model_for("typescript", "code"))
    places = await kill_everywhere(first, "typescript", "start", "code", "batch")
    places += await kill_everywhere(second, "typescript", "resume", "code", "batch")
    for place in places:
        # What ran when the log's writer died is not known here; the rest of the checks hold.
        agent, text = await finish(place, "typescript", "code")
        done = Counter(line.split()[0] for line in effects(place / "effects"))
        assert all(done[name] <= 1 for name in ONCE)
        assert unanswered(agent.session) == []
        if text:
            results = json.loads(text)
            assert sum(result.startswith(UNKNOWN) for result in results) <= 2
            assert all(
                done[name] == 1
                for name, result in zip(EFFECTS, results, strict=True)
                if "is done" in result and name in ONCE
            )


async def test_native_calls_killed_while_they_go_on(tmp_path: Path):
    # HOST-128, D34: from the approval on, a native call's own entries say how far it came.
    waiting = tmp_path / WAITING
    waiting.mkdir()
    async with application(waiting, mode="native") as ctx:
        agent = await start(ctx, model_for("typescript", "native"))
        assert agent.is_waiting
    places = await kill_everywhere(tmp_path, "typescript", "resume", "native", "entry")
    points = {(place / "point").read_text(): place for place in places}
    assert list(points) == [
        "before entry 3 started",
        "after entry 3 started",
        "before effect fifth 1",
        "after effect fifth 1",
        "before effect sixth 1",
        "after effect sixth 1",
    ]
    for point, place in points.items():
        agent, _ = await finish(place, "typescript", "native")
        log = agent.session
        done = Counter(line.split()[0] for line in effects(place / "effects"))
        assert all(count == 1 for count in done.values()), (point, done)
        assert unanswered(log) == []
        codes = {
            event.data["message"]["source"]["callId"]: event.data.get("error", {}).get("code")
            for event in log.events
            if event.type == "tool/result"
        }
        assert list(codes) == [f"call_1_{number}" for number in range(1, 7)]
        unknown = [number for number, code in enumerate(codes.values(), 1) if code is not None]
        if "sixth" in point:
            # A call that nobody had to allow is repaired as any other, once it is in the log.
            assert unknown == [6]
            assert codes["call_1_6"] == UNKNOWN
            continue
        assert unknown == ([] if point == "before entry 3 started" else [5])
        assert done["sixth"] == 1
        assert done["fifth"] == (0 if point in ("after entry 3 started", "before effect fifth 1") else 1)


async def test_native_calls_killed_before_they_wait(tmp_path: Path):
    places = await kill_everywhere(tmp_path, "typescript", "start", "native", "entry")
    points = {(place / "point").read_text() for place in places}
    assert points >= {"before entry 3 parked", "after entry 3 parked"}
    for place in places:
        agent, _ = await finish(place, "typescript", "native")
        done = Counter(line.split()[0] for line in effects(place / "effects"))
        assert all(count == 1 for count in done.values())
        assert unanswered(agent.session) == []
        if (place / "point").read_text() == "after entry 3 parked":
            assert done["fifth"] == 1
