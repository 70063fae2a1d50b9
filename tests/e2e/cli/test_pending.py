"""``dsh-tools session show`` of sessions that wait for a person."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.journal import answer_all, application, go_on, program_of, start

from dsh_tools.model import ScriptedModel, call, say

COMMAND = Path(sys.executable).with_name("dsh-tools")
SHOW = ("session", "show", "s1", "--store", "sessions.sqlite")


def show(folder: Path) -> str:
    done = subprocess.run([str(COMMAND), *SHOW], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_session_that_waits_shows_its_program_and_the_question(tmp_path: Path) -> None:
    async with application(tmp_path) as ctx:
        await start(ctx, program_of('// the rent\nreturn await tools.pay({ name: "rent", value: 700 });'))
    shown = show(tmp_path)
    assert 'return await tools.pay({ name: "rent", value: 700 });' in shown
    assert "pay needs approval: it costs money" in shown
    assert '"name": "rent"' in shown
    assert "dsh-tools session resume s1 --store sessions.sqlite --model NAME --allow" in shown


async def test_a_session_that_waits_shows_its_call_until_somebody_goes_on(tmp_path: Path) -> None:
    async with application(tmp_path, mode="native") as ctx:
        await start(ctx, ScriptedModel([say("", call("pay", name="rent", value=700))]))
    shown = show(tmp_path)
    assert shown.count('"rent"') == 1, shown
    assert "pay needs approval: it costs money" in shown
    async with application(tmp_path, mode="native") as ctx:
        await answer_all(ctx)
    answered = show(tmp_path)
    assert '"rent"' in answered
    assert "needs approval" not in answered
    assert re.search(r"go on with:\n  \S*dsh-tools session resume s1 --store sessions.sqlite --model NAME\n", answered)
    async with application(tmp_path, mode="native") as ctx:
        await (await go_on(ctx)).resume()
    assert "session resume" not in show(tmp_path)
