"""A journal that is gone, or of an earlier time, is refused; and what keeps a turn that waits from being lost."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.journal import answer_all, application, effects, go_on, program_of, say_result, start

from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.session.events import Completed, Waiting
from dsh_tools.testing.store_conformance import refused

PAYS = """
const done = [];
for (const name of ["a", "b"]) done.push(await tools.pay({ name, value: 1 }));
return done;
"""


def native() -> ScriptedModel:
    return ScriptedModel([say("", call("pay", name="a", value=1)), say_result])


@pytest.mark.parametrize("mode", ["code", "native"])
async def test_a_journal_that_is_gone_is_refused_and_the_turn_waits_on(mode: str, tmp_path: Path, no_leaks: None):
    # D34: the call has not begun, so nothing may be said of its outcome
    model = program_of(PAYS) if mode == "code" else native()
    async with application(tmp_path, mode=mode) as ctx:
        await start(ctx, model)
    journals = tmp_path / "sessions.sqlite.programs"
    journals.rename(tmp_path / "elsewhere")
    async with application(tmp_path, mode=mode) as ctx:
        agent = await go_on(ctx)
        for attempt in (agent.check_resume, agent.resume):
            with refused("RESUME_REFUSED") as caught:
                await attempt()
            assert "its journal is not there" in str(caught.value)
        assert agent.is_waiting
    shutil.rmtree(journals, ignore_errors=True)
    (tmp_path / "elsewhere").rename(journals)
    async with application(tmp_path, mode=mode) as ctx:
        assert await answer_all(ctx) == 1
        outcome = await (await go_on(ctx)).resume()
        assert isinstance(outcome.reason, Waiting if mode == "code" else Completed)
    assert effects(tmp_path / "effects") == ["a 1"]


async def test_a_journal_of_an_earlier_time_is_refused(tmp_path: Path, no_leaks: None):
    # What has been done since would be done again, and an answer for once would count twice.
    journals, copy = tmp_path / "sessions.sqlite.programs", tmp_path / "copy"
    async with application(tmp_path) as ctx:
        await start(ctx, program_of(PAYS))
    shutil.copytree(journals, copy)
    async with application(tmp_path) as ctx:
        await answer_all(ctx)
        await (await go_on(ctx)).resume()
    shutil.rmtree(journals)
    copy.rename(journals)
    async with application(tmp_path) as ctx:
        await answer_all(ctx)
        agent = await go_on(ctx)
        with refused("RESUME_REFUSED") as caught:
            await agent.resume()
        assert "its journal is older than the session: 1 of its calls have ended, and it has 0" in str(caught.value)
    assert effects(tmp_path / "effects") == ["a 1"]


@pytest.mark.parametrize("mode", ["code", "native"])
async def test_an_application_that_ends_while_somebody_is_asked_leaves_the_turn_waiting(
    mode: str, tmp_path: Path, no_leaks: None
):
    # D15, D34: an orderly end costs no more than the death of the process
    model = program_of(PAYS) if mode == "code" else native()
    asked = asyncio.Event()
    async with application(tmp_path, mode=mode, approval={"suspend_after": 3600}) as ctx:
        ctx.on("approval/asked", lambda _request: asked.set())
        log = await ctx.sessions.create(id="s1")
        agent = await ctx.agents.create("main", model, session=log)
        running = asyncio.create_task(agent.run("go"))
        await asyncio.wait_for(asked.wait(), 60)
    assert (await running).reason == Waiting()
    async with application(tmp_path, mode=mode) as ctx:
        assert await answer_all(ctx) == 1
        outcome = await (await go_on(ctx)).resume()
        assert isinstance(outcome.reason, Waiting if mode == "code" else Completed)
    assert effects(tmp_path / "effects") == ["a 1"]


TIMERS = {
    "typescript": """
    const order = [];
    for (const n of [60, 40, 20, 20]) setTimeout(() => order.push(n), n);
    const late = await Promise.race([new Promise((r) => setTimeout(r, 300, "late")), tools.echo({})]);
    await new Promise((r) => setTimeout(r, 100));
    return [order, late];
    """,
    "python": """
import asyncio
order = []

async def wait(n):
    await asyncio.sleep(n / 1000)
    order.append(n)

async def ask():
    await tools.echo({})
    order.append("call")

await asyncio.gather(wait(150), wait(100), wait(50), ask())
return [order[1:], {}]
""",
}


@pytest.mark.parametrize("language", TIMERS)
async def test_timers_of_a_journaled_program_go_off_when_they_are_due(language: str, tmp_path: Path, no_leaks: None):
    # The start of the sandbox takes longer than any of them; it is not the program's time.
    expected: dict[str, Any] = {"typescript": [20, 20, 40, 60], "python": [50, 100, 150]}
    async with application(tmp_path, language) as ctx:
        agent = await start(ctx, program_of(TIMERS[language]))
        assert agent.last_outcome is not None
        text = "".join(agent.last_outcome.text.split())
    assert text == f"[{expected[language]},{{}}]".replace(" ", "")
