"""A process that dies while a person is asked about a call of the model: the answer counts in whichever comes next."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from tests.support.journal import answer_all, application, effects, go_on

from dsh_tools.session.events import Completed

CHILD = """
import asyncio, os, sys
from pathlib import Path
from tests.support.journal import application, go_on, note, start
from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.services import APPROVAL_ASKED
from dsh_tools.session import SESSION_EVENT
from dsh_tools.session.durable import DurableModelCall

folder, moment = Path(sys.argv[1]), sys.argv[2]

async def main():
    async with application(folder, mode="native", approval={}) as ctx:
        if moment == "asked":
            ctx.approval.open_desk()
            # Once the question is stored, too.
            ctx.on(APPROVAL_ASKED, lambda _request: asyncio.get_running_loop().call_later(0.3, os._exit, 9))
            await start(ctx, ScriptedModel([say("", call("pay", name="a", value=1))]))
        agent = await go_on(ctx)
        if moment == "body":
            def die(*_):
                note(folder / "effects", "a 1")
                os._exit(9)
            entry = agent.ctx.tools.view(agent.scope).entries["pay"]
            object.__setattr__(entry, "execute", die)
        elif moment == "begin":
            DurableModelCall.begin = lambda _call, _execution: os._exit(9)
        else:
            ctx.on(SESSION_EVENT, lambda _log, event: os._exit(9) if event.type == moment else None)
        await agent.resume()

asyncio.run(main())
"""


async def die(folder: Path, moment: str) -> None:
    words = (sys.executable, "-c", CHILD, str(folder), moment)
    process = await asyncio.create_subprocess_exec(*words, cwd=Path(__file__).parents[3], stderr=-1)
    _, errors = await process.communicate()
    assert process.returncode == 9, errors.decode()


async def answered(folder: Path) -> None:
    """Answer in the store, after a process has found the session and left it waiting."""
    async with application(folder, mode="native") as ctx:
        log = await ctx.sessions.open("s1", resume=True)
        assert log.is_waiting
        await log.close()
        assert await answer_all(ctx) == 1


@pytest.mark.parametrize(
    "moments", [(), ("turn/start",), ("step/start",), ("begin",), ("begin", "turn/start", "begin")]
)
async def test_what_was_allowed_runs_once_however_often_the_next_ones_die_before_it(
    tmp_path: Path, moments: tuple[str, ...]
) -> None:
    # D34: only between a body's start and its commit is the outcome unknown.
    await die(tmp_path, "asked")
    await answered(tmp_path)
    for moment in moments:
        await die(tmp_path, moment)
    async with application(tmp_path, mode="native") as ctx:
        agent = await go_on(ctx)
        outcome = await agent.resume()
        assert (outcome.reason, outcome.text) == (Completed(), "a is paid")
    assert effects(tmp_path / "effects") == ["a 1"]


async def test_what_had_begun_does_not_run_again(tmp_path: Path) -> None:
    await die(tmp_path, "asked")
    await answered(tmp_path)
    await die(tmp_path, "body")
    async with application(tmp_path, mode="native") as ctx:
        agent = await go_on(ctx)
        assert "its outcome is unknown" in (await agent.resume()).text
    assert effects(tmp_path / "effects") == ["a 1"]


async def test_what_was_rejected_does_not_run(tmp_path: Path) -> None:
    await die(tmp_path, "asked")
    async with application(tmp_path, mode="native") as ctx:
        log = await ctx.sessions.open("s1", resume=True)
        await log.close()
        await answer_all(ctx, "rejected", reason="too dear")
        assert "too dear" in (await (await go_on(ctx)).resume()).text
    assert effects(tmp_path / "effects") == []
