"""``dsh-tools session export`` and ``import``: a session goes elsewhere and comes back whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dsh_tools import standard, tool
from dsh_tools.model import ScriptedModel, call, say

COMMAND = Path(sys.executable).with_name("dsh-tools")


def run(*args: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), "session", *args], cwd=cwd, input=stdin, capture_output=True, text=True, timeout=60
    )


@tool
async def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


@pytest.fixture
async def session(tmp_path: Path) -> str:
    """The id of a session in ``here.sqlite``."""
    async with standard(sessions={"path": str(tmp_path / "here.sqlite")}) as ctx:
        ctx.tools.register(shout)
        agent = await ctx.agents.create("main", ScriptedModel([say("", call("shout", text="grüß 🙂")), "done"]))
        await agent.run("hello")
        return agent.session.id


def test_an_export_is_imported_elsewhere_and_is_the_same(session: str, tmp_path: Path) -> None:
    here, there = ("--store", str(tmp_path / "here.sqlite")), ("--store", str(tmp_path / "there.sqlite"))
    exported = run("export", session, *here, cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr
    assert '"hello"' in exported.stdout
    assert run("export", session, "-o", "out.jsonl", *here, cwd=tmp_path).stdout == ""
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == exported.stdout
    imported = run("import", "out.jsonl", *there, cwd=tmp_path)
    assert (imported.returncode, imported.stdout) == (0, f"{session}\n"), imported.stderr
    assert run("export", session, *there, cwd=tmp_path).stdout == exported.stdout
    shown = run("show", session, *there, cwd=tmp_path)
    assert "GRÜSS 🙂" in shown.stdout
    assert run("import", "-", "--id", "copy", *there, cwd=tmp_path, stdin=exported.stdout).stdout == "copy\n"
    assert "copy" in run("list", *there, cwd=tmp_path).stdout


def test_what_cannot_be_imported_is_said(session: str, tmp_path: Path) -> None:
    here = ("--store", str(tmp_path / "here.sqlite"))
    exported = run("export", session, *here, cwd=tmp_path).stdout
    lines = exported.splitlines()
    for text, says in (
        (exported, "exists already"),
        ("", "there is no header"),
        ("{\n", "line 1: not JSON: the text ends too early"),
        ("\n".join([lines[0], lines[2]]), "line 2: event 1 stands in place 0"),
    ):
        refused = run("import", "-", *here, cwd=tmp_path, stdin=text)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert says in refused.stderr
    assert "cannot be read" in run("import", "nowhere.jsonl", *here, cwd=tmp_path).stderr
    assert "cannot be written" in run("export", session, "-o", "no/where.jsonl", *here, cwd=tmp_path).stderr
    assert run("export", "nobody", *here, cwd=tmp_path).returncode == 2


def test_looking_makes_and_changes_nothing(session: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    listed = run("list", cwd=empty)
    assert (listed.returncode, listed.stdout.split()) == (
        0,
        "No sessions are kept here: .dsh-tools/sessions.sqlite is not there.".split(),
    )
    for arguments in (["show"], ["show", "x"], ["export", "x"]):
        done = run(*arguments, cwd=empty)
        assert done.returncode == 2
        assert "sessions.sqlite is not there" in done.stderr
    assert list(empty.iterdir()) == []
    store = tmp_path / "here.sqlite"
    before = store.read_bytes()
    assert session in run("list", "--store", str(store), cwd=tmp_path).stdout
    assert run("show", session, "--store", str(store), cwd=tmp_path).returncode == 0
    assert store.read_bytes() == before
