"""The inspector's verbs, as a person runs them."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import httpx
import pytest
from tests.support.inspector import scripted, show_tool

from dsh_tools import standard
from dsh_tools.errors import ConfigError
from dsh_tools.inspector import InspectorPlugin
from dsh_tools.model import call

COMMAND = Path(sys.executable).parent / "dsh-tools"


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.sqlite"
    async with standard(sessions={"path": str(path)}) as ctx:
        ctx.tools.register(show_tool("shell"))
        log = await ctx.sessions.create(id="kept")
        agent = await ctx.agents.create("a", scripted(call("shell")), session=log)
        await agent.run("Build it")
    return path


async def run(*words: str, cwd: Path) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(str(COMMAND), *words, cwd=cwd, stdout=-1, stderr=-1)
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_the_timeline_is_printed_as_a_picture_or_a_table(store: Path, tmp_path: Path) -> None:
    status, out, _ = await run("session", "timeline", str(store), "--svg", cwd=tmp_path)
    assert status == 0
    texts = [element.text for element in ElementTree.fromstring(out).iter("{http://www.w3.org/2000/svg}text")]
    assert "shell" in texts and "kept" in texts
    status, out, _ = await run("session", "timeline", str(store), cwd=tmp_path)
    assert status == 0 and "shell" in out
    status, _, err = await run("session", "timeline", "none.sqlite", cwd=tmp_path)
    assert status == 2 and "is not a file" in err


async def test_inspect_serves_a_store_until_it_is_stopped(store: Path, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        str(COMMAND), "inspect", "--session", str(store), cwd=tmp_path, stdout=-1, stderr=-1
    )
    assert process.stdout is not None
    await process.stdout.readline()
    match = re.fullmatch(r"open (http://127\.0\.0\.1:\d+/)#token=(\S+)\n", (await process.stdout.readline()).decode())
    assert match is not None
    async with httpx.AsyncClient(base_url=match[1]) as client:
        about = (await client.post("/api/login", json={"token": match[2]})).json()["about"]
        assert about == {"label": "store.sqlite", "live": False, "answers": True, "calls": True}
        (session,) = (await client.get("/api/sessions")).json()
        assert session["id"] == "kept" and session["live"] is False
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == 130, err.decode()
    assert b"Traceback" not in err


async def test_without_a_file_inspect_says_what_it_needs(tmp_path: Path) -> None:
    status, _, err = await run("inspect", cwd=tmp_path)
    assert status == 2 and "--session FILE" in err


async def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "dsh_tools.inspector.server", raising=False)
    async with standard() as ctx:
        with pytest.raises(ConfigError, match=r"pip install 'dsh-tools\[inspect\]'"):
            await ctx.plugin(InspectorPlugin())
