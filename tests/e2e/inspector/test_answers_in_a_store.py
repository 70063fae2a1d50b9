"""``dsh-tools inspect`` on a store: a session that another process left waiting is answered in the page, and goes on."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import expect
from tests.support.journal import application, effects, resuming
from tests.support.model_server import Reply, model_server, sse
from tests.support.postgres import postgres_server

from dsh_tools.inspector import InspectorPlugin

COMMAND = Path(sys.executable).with_name("dsh-tools")
ENVIRONMENT = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "OPENAI_API_KEY": "none"}

PLUGIN = '''
from pathlib import Path
from dsh_tools import tool

@tool
async def pay(amount: int) -> str:
    """Pay."""
    with Path("effects").open("a") as out:
        out.write(f"{amount}\\n")
    return f"paid {amount}"
'''
CONFIG = """
plugins: ["mine:pay"]
approval: {suspend_after: 0}
policy: {rules: [{tool: pay, action: ask, reason: money}]}
"""
FILE = "sessions: {path: sessions.sqlite}\n"


async def run(*words: str, cwd: Path) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        str(COMMAND), *words, cwd=cwd, stdin=-3, stdout=-1, stderr=-1, env=ENVIRONMENT
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def inspecting(folder: Path, *words: str) -> AsyncIterator[tuple[str, httpx.AsyncClient]]:
    """The page in a process of its own: its address, and a client that has logged in."""
    process = await asyncio.create_subprocess_exec(
        str(COMMAND), "inspect", *words, cwd=folder, stdin=-3, stdout=-1, stderr=-1, env=ENVIRONMENT
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        line = (await process.stdout.readline()).decode()
        found = re.fullmatch(r"open ((http://\S+/)#token=(\S+))\n", line)
        assert found is not None, line
        async with httpx.AsyncClient(base_url=found[2], timeout=60) as client:
            about = (await client.post("/api/login", json={"token": found[3]})).json()
            client.headers["x-csrf-token"] = about["csrf"]
            yield found[1], client
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
    assert process.returncode == 130, errors.decode()
    assert b"Traceback" not in errors, errors.decode()


def kept(folder: Path) -> list[str]:
    """The files of a folder, without those that SQLite itself needs for reading."""
    return sorted(path.name for path in folder.rglob("*") if not path.name.endswith(("-shm", "-wal")))


async def waiting(client: httpx.AsyncClient) -> list[Any]:
    return (await client.get("/api/approvals")).json()["pending"]


async def answer(
    client: httpx.AsyncClient, question: Any, outcome: str = "allowed-once", **more: str
) -> httpx.Response:
    given = {"outcome": outcome, "digest": question["argumentsDigest"], **more}
    return await client.post(f"/api/approvals/{question['id']}", json=given)


async def over(client: httpx.AsyncClient, session: str) -> None:
    """Wait until the session waits for nobody."""
    async with asyncio.timeout(60):
        while True:
            rows = {row["id"]: row for row in (await client.get("/api/sessions")).json()}
            if not rows[session]["waiting"]:
                return
            await asyncio.sleep(0.05)


async def events(folder: Path, session: str, store: str) -> list[dict[str, Any]]:
    async with asyncio.timeout(60):
        while True:
            _, out, _ = await run("session", "show", session, "--store", store, "--json", cwd=folder)
            found = [json.loads(line) for line in out.splitlines()][1:]
            if found[-1]["type"] == "turn/end":
                return found


@pytest.fixture
async def demo(tmp_path: Path) -> Path:
    """A folder with a store in which the demo waits."""
    project = tmp_path / "project"
    project.mkdir()
    for number in range(5):
        (project / f"notes{number}.md").write_text("a note\n")
    arguments = ("demo", "--mode", "code", "--suspend", "--folder", "project", "--store", "demo.sqlite")
    status, out, err = await run(*arguments, cwd=tmp_path)
    assert status == 0, out + err
    return tmp_path


async def test_what_a_process_left_waiting_goes_on_in_the_page_of_another(demo: Path) -> None:
    files = kept(demo)
    async with inspecting(demo, "--session", "demo.sqlite") as (_url, client):
        (question,) = await waiting(client)
        assert (question["toolName"], question["goesOn"]) == ("bash", True)
        assert kept(demo) == files, "looking has changed something"
        other = await client.post(
            f"/api/approvals/{question['id']}", json={"outcome": "allowed-once", "digest": "0" * 64}
        )
        assert other.status_code == 400
        assert "other arguments" in other.text
        done = await answer(client, question)
        assert done.json() == {"accepted": True, "turn": "goes-on"}, done.text
        late = await answer(client, question, "rejected")
        assert (late.status_code, late.json()) == (409, {"accepted": False})
        await over(client, question["session"])
        log = await events(demo, question["session"], "demo.sqlite")
    assert [event["data"]["reason"]["kind"] for event in log if event["type"] == "turn/end"] == ["waiting", "completed"]
    settled = [event["data"]["name"] for event in log if event["type"] == "tool/code-dispatch"]
    assert settled == ["glob", "bash"], "the files were listed twice"
    (decided,) = [event["data"] for event in log if event["type"] == "approval/decided"]
    assert (decided["outcome"], decided["by"]) == ("allowed-once", "page")
    assert "the shell counts 5 entries" in json.dumps(log)


async def test_a_page_and_a_terminal_answer_at_once(demo: Path) -> None:
    async with inspecting(demo, "--session", "demo.sqlite") as (_url, client):
        (question,) = await waiting(client)
        session = question["session"]
        resume = run("session", "resume", session, "--store", "demo.sqlite", "--reject", cwd=demo)
        (status, _out, err), done = await asyncio.gather(resume, answer_late(client, question))
        assert (status == 0) != (done.status_code == 200), (err, done.text)
        await over(client, session)
        log = await events(demo, session, "demo.sqlite")
    assert sum(event["type"] == "approval/decided" for event in log) == 1
    bash = [event for event in log if event["type"] == "tool/code-dispatch" and event["data"]["name"] == "bash"]
    assert len(bash) == 1


async def answer_late(client: httpx.AsyncClient, question: Any) -> httpx.Response:
    # About as long as the other process takes to start.
    await asyncio.sleep(0.4)
    return await answer(client, question)


async def test_what_cannot_go_on_is_not_answered(demo: Path) -> None:
    (demo / "demo.sqlite.programs").rename(demo / "elsewhere")
    async with inspecting(demo, "--session", "demo.sqlite") as (_url, client):
        (question,) = await waiting(client)
        refused = await answer(client, question)
        assert refused.status_code == 400
        assert "its journal is not there" in refused.text
        assert await waiting(client) == [question]
    log = await events(demo, question["session"], "demo.sqlite")
    assert not [event for event in log if event["type"] == "approval/decided"]


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]}


def pays(*amounts: int) -> Reply:
    calls = [
        {
            "index": place,
            "id": f"call-{amount}",
            "type": "function",
            "function": {"name": "pay", "arguments": json.dumps({"amount": amount})},
        }
        for place, amount in enumerate(amounts)
    ]
    return Reply([sse(chunk({"tool_calls": calls}), chunk({}, "tool_calls"), "[DONE]")])


def says(text: str) -> Reply:
    return Reply([sse(chunk({"content": text}), chunk({}, "stop"), "[DONE]")])


@asynccontextmanager
async def chatted(folder: Path, *replies: Reply, sessions: str = FILE) -> AsyncIterator[tuple[str, str]]:
    """A chat that has ended while it waits; gives its server and its session."""
    (folder / "mine.py").write_text(PLUGIN)
    (folder / "dsh.yaml").write_text(CONFIG + sessions)
    async with model_server(*replies) as server:
        where = ("--model", "openai:m-1", "--base-url", server.url)
        process = await asyncio.create_subprocess_exec(
            str(COMMAND), "chat", *where, cwd=folder, stdin=-1, stdout=-1, stderr=-1, env=ENVIRONMENT
        )
        out, err = await process.communicate(b"pay\n")
        assert process.returncode == 0, out.decode() + err.decode()
        _, listed, _ = await run("session", "list", cwd=folder)
        found = re.search(r"^(\S+) .* waiting ", listed, re.MULTILINE)
        assert found is not None, listed
        yield server.url, found[1]


async def test_any_session_goes_on_with_a_model_and_asks_again_in_the_page(tmp_path: Path) -> None:
    async with chatted(tmp_path, pays(7, 8), says("All is paid.")) as (url, session):
        async with inspecting(tmp_path, "--model", "openai:m-1", "--base-url", url) as (_url, client):
            (first,) = await waiting(client)
            assert (first["session"], first["arguments"], first["goesOn"]) == (session, {"amount": 7}, True)
            assert (await answer(client, first)).json() == {"accepted": True, "turn": "goes-on"}
            async with asyncio.timeout(60):
                while not (second := [one for one in await waiting(client) if one["id"] != first["id"]]):
                    await asyncio.sleep(0.05)
            # This one is asked by the turn that runs, and holds it up.
            assert second[0]["arguments"] == {"amount": 8}
            assert (await answer(client, second[0], "rejected", reason="once is enough")).json() == {"accepted": True}
            await over(client, session)
            log = await events(tmp_path, session, "sessions.sqlite")
    assert "All is paid." in json.dumps(log)
    assert "once is enough" in json.dumps(log)
    assert (tmp_path / "effects").read_text() == "7\n"


async def test_without_a_model_the_answer_is_kept_for_whoever_goes_on(tmp_path: Path) -> None:
    async with chatted(tmp_path, pays(7), says("It is paid.")) as (url, session):
        async with inspecting(tmp_path) as (_url, client):
            (question,) = await waiting(client)
            assert not question["goesOn"]
            command = question["goOnWith"]
            assert command == f"dsh-tools session resume {session} --store sessions.sqlite --model NAME"
            assert (await answer(client, question)).json() == {"accepted": True, "turn": "kept"}
            assert await waiting(client) == []
        assert not (tmp_path / "effects").exists()
        words = command.replace("NAME", "openai:m-1").split()[1:]
        status, out, err = await run(*words, "--base-url", url, cwd=tmp_path)
        assert status == 0, out + err
        assert "It is paid." in out
    assert (tmp_path / "effects").read_text() == "7\n"


@pytest.mark.needs("postgres")
async def test_what_waits_in_a_database_is_answered_and_goes_on(tmp_path: Path) -> None:
    with postgres_server() as server:
        sessions = f'sessions: {{store: postgres, conninfo: "{server.conninfo}"}}\n'
        async with chatted(tmp_path, pays(7), says("It is paid."), sessions=sessions) as (url, session):
            async with inspecting(tmp_path) as (_url, client):
                (question,) = await waiting(client)
                assert question["goOnWith"] == f"dsh-tools session resume {session} --model NAME"
            async with inspecting(tmp_path, "--model", "openai:m-1", "--base-url", url) as (_url, client):
                assert await waiting(client) == [
                    {key: value for key, value in question.items() if key != "goOnWith"} | {"goesOn": True}
                ]
                assert (await answer(client, question)).json() == {"accepted": True, "turn": "goes-on"}
                await over(client, session)
                async with asyncio.timeout(60):
                    while "It is paid." not in (await client.get("/api/export", params={"session": session})).text:
                        await asyncio.sleep(0.05)
    assert (tmp_path / "effects").read_text() == "7\n"


async def test_a_wrong_model_is_told_before_anything_is_served(demo: Path) -> None:
    status, out, err = await run("inspect", "--session", "demo.sqlite", "--model", "nobody:x", cwd=demo)
    assert (status, out) == (2, "")
    assert 'the provider is "openai" or "anthropic"' in err


async def test_a_turn_that_asks_when_the_page_ends_waits_on(tmp_path: Path) -> None:
    async with chatted(tmp_path, pays(7, 8), says("All is paid.")) as (url, session):
        async with inspecting(tmp_path, "--model", "openai:m-1", "--base-url", url) as (_url, client):
            (first,) = await waiting(client)
            await answer(client, first)
            async with asyncio.timeout(60):
                while not [one for one in await waiting(client) if one["id"] != first["id"]]:
                    await asyncio.sleep(0.05)
        _, listed, _ = await run("session", "list", cwd=tmp_path)
        assert re.search(rf"{session} .* waiting ", listed)
        where = ("--model", "openai:m-1", "--base-url", url)
        status, out, err = await run("session", "resume", session, "--allow", *where, cwd=tmp_path)
        assert status == 0, out + err
        assert "All is paid." in out
    assert (tmp_path / "effects").read_text() == "7\n8\n"


@pytest.mark.needs("chromium")
async def test_a_person_answers_and_sees_it_go_on(demo: Path, new_page: Any, picture: Any) -> None:
    async with inspecting(demo, "--session", "demo.sqlite") as (url, client):
        page = await new_page(url)
        await expect(page.get_by_text("waits for a person")).to_be_visible()
        await expect(page.locator("#banner")).to_contain_text("1 call waits for approval: bash")
        await page.get_by_role("link", name="Review").click()
        card = page.locator(".question")
        await expect(card).to_contain_text("ls | wc -l")
        await expect(card).to_contain_text("With the answer it goes on here.")
        await picture(page, "waiting")
        (question,) = await waiting(client)
        await card.get_by_role("link", name="session").click()
        await page.go_back()
        await page.get_by_role("button", name="Allow once").click()
        await expect(page.get_by_text("Nothing waits for an answer.")).to_be_visible()
        await expect(page.locator("#toasts")).to_contain_text("the turn went on and is completed")
        await page.goto(f"{url.partition('#')[0]}#/session/{question['session']}")
        await expect(page.locator("main")).to_contain_text("the shell counts 5 entries")


@pytest.mark.needs("chromium")
async def test_the_page_says_how_else_it_goes_on_and_why_not(tmp_path: Path, demo: Path, new_page: Any) -> None:
    folder = tmp_path / "chat"
    folder.mkdir()
    async with chatted(folder, pays(7)) as (_server, session), inspecting(folder) as (url, _client):
        page = await new_page(f"{url}")
        await page.get_by_role("link", name="Review").click()
        await expect(page.locator(".question code").last).to_have_text(
            f"dsh-tools session resume {session} --store sessions.sqlite --model NAME"
        )
        await page.get_by_role("button", name="Allow once").click()
        await expect(page.locator("#toasts")).to_contain_text("The answer is kept in the session")
    (demo / "demo.sqlite.programs").rename(demo / "elsewhere")
    async with inspecting(demo, "--session", "demo.sqlite") as (url, _client):
        page = await new_page(url)
        await page.get_by_role("link", name="Review").click()
        await page.get_by_role("button", name="Allow once").click()
        await expect(page.get_by_role("alert")).to_contain_text("its journal is not there")
        await expect(page.get_by_role("button", name="Allow once")).to_be_enabled()


ASKING = """
import asyncio, sys
from pathlib import Path
from tests.support.journal import application, program_of, start
from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.services import APPROVAL_ASKED

async def main():
    async with application(Path(sys.argv[1]), mode=sys.argv[2], approval={}) as ctx:
        ctx.approval.open_desk()
        ctx.on(APPROVAL_ASKED, lambda _request: print("asked", flush=True))
        program = 'return await tools.pay({ name: "a", value: 1 });'
        calls = ScriptedModel([say("", call("pay", name="a", value=1))])
        await start(ctx, calls if sys.argv[2] == "native" else program_of(program))

asyncio.run(main())
"""


@pytest.mark.parametrize("mode", ["native", "code"])
async def test_a_process_that_asks_is_the_one_to_answer_to_until_it_has_died(tmp_path: Path, mode: str) -> None:
    words = (sys.executable, "-c", ASKING, str(tmp_path), mode)
    asking = await asyncio.create_subprocess_exec(*words, stdout=-1, cwd=Path(__file__).parents[3])
    assert asking.stdout is not None
    assert await asking.stdout.readline() == b"asked\n"
    async with application(tmp_path, mode=mode) as ctx:
        await ctx.plugin(InspectorPlugin(resume=resuming(ctx)))
        inspector = ctx.require("inspector")
        async with httpx.AsyncClient(base_url=inspector.address, timeout=60) as client:
            login = await client.post("/api/login", json={"token": inspector.keys.token})
            client.headers["x-csrf-token"] = login.json()["csrf"]
            found = (await client.get("/api/approvals")).json()
            assert found["pending"] == []
            (question,) = found["elsewhere"]
            assert (question["waiting"], question["answerable"]) == (False, True)
            refused = await answer(client, question)
            assert refused.status_code == 400
            assert "has a writer" in refused.text
            asking.kill()
            await asking.wait()
            assert (await answer(client, question)).json() == {"accepted": True, "turn": "goes-on"}
            async with asyncio.timeout(60):
                while (await ctx.sessions.read("s1")).events[-1].data.get("reason") != {"kind": "completed"}:
                    await asyncio.sleep(0.02)
    assert effects(tmp_path / "effects") == ["a 1"]
