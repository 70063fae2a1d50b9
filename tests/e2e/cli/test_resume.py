"""``dsh-tools demo --mode code --suspend`` and ``dsh-tools session resume``: waiting in one process, going on in another."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.journal import application, program_of, start

COMMAND = Path(sys.executable).with_name("dsh-tools")
ENVIRONMENT = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}


def run(*args: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *args],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env=ENVIRONMENT,
        check=False,
        **options,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    for number in range(5):
        (root / f"notes{number}.md").write_text("a note\n")
    return root


def suspended(project: Path) -> tuple[list[str], str]:
    """Run the demo until it waits; return the arguments of the command that it proposes, and what it showed."""
    done = run(
        "demo", "--mode", "code", "--suspend", "--folder", str(project), "--store", "demo.sqlite", cwd=project.parent
    )
    assert done.returncode == 0, done.stdout + done.stderr
    proposed = re.search(r"^ *(\S*dsh-tools) (session resume \S+ --store \S+)$", done.stdout, re.MULTILINE)
    assert proposed is not None, done.stdout
    assert Path(proposed[1]).name == "dsh-tools"
    return proposed[2].split(), done.stdout


def events(project: Path, session_id: str) -> list[dict[str, Any]]:
    shown = run("session", "show", session_id, "--store", "demo.sqlite", "--json", cwd=project.parent)
    return [json.loads(line) for line in shown.stdout.splitlines()][1:]


def test_the_demo_waits_and_goes_on_from_its_journal(project: Path) -> None:
    resume, shown = suspended(project)
    assert "the program waits for a person" in shown
    assert "nobody has answered about bash" in shown
    listed = run("session", "list", "--store", "demo.sqlite", cwd=project.parent)
    assert re.search(rf"{resume[2]} .* waiting ", listed.stdout)

    # Without an answer it waits on, and shows what is asked.
    still = run(*resume, cwd=project.parent)
    assert still.returncode == 0, still.stderr
    assert "ls | wc -l" in still.stdout
    assert "--allow or --reject" in still.stdout

    done = run(*resume, "--allow", cwd=project.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the shell counts 5 entries" in done.stdout
    tickets = re.findall(r"ticket (\d+)", done.stdout)
    assert len(set(tickets)) == 1
    log = events(project, resume[2])
    settled = [event["data"]["name"] for event in log if event["type"] == "tool/code-dispatch"]
    assert settled == ["glob", "bash"], "the files were listed twice"
    assert "waiting" not in run("session", "list", "--store", "demo.sqlite", cwd=project.parent).stdout

    over = run(*resume, "--allow", cwd=project.parent)
    assert over.returncode == 1
    assert "waits for nobody" in over.stderr


def test_a_rejection_and_its_reason_reach_the_program(project: Path) -> None:
    resume, _ = suspended(project)
    done = run(*resume, "--reject", "--reason", "not on a Friday", cwd=project.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'the user rejected tool "bash"' in done.stdout
    assert "not on a Friday" in done.stdout


def test_a_session_of_the_demo_takes_no_other_model(project: Path) -> None:
    resume, _ = suspended(project)
    for option in (("--model", "openai:gpt-5"), ("--base-url", "http://localhost:9")):
        refused = run(*resume, "--allow", *option, cwd=project.parent)
        assert refused.returncode == 2
        assert "a session of the demo goes on with its own model" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert not [event for event in events(project, resume[2]) if event["type"] == "approval/decided"]
    assert run(*resume, "--allow", cwd=project.parent).returncode == 0


def test_nobody_is_asked_about_what_cannot_go_on(project: Path) -> None:
    resume, _ = suspended(project)
    journals = project.parent / "demo.sqlite.programs"
    journals.rename(project.parent / "elsewhere")
    refused = run(*resume, "--allow", cwd=project.parent)
    assert refused.returncode == 1
    assert "its journal is not there" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not [event for event in events(project, resume[2]) if event["type"] == "approval/decided"]
    shutil.rmtree(journals, ignore_errors=True)
    (project.parent / "elsewhere").rename(journals)
    assert run(*resume, "--allow", cwd=project.parent).returncode == 0


def test_of_two_processes_that_answer_at_once_one_wins_and_runs(project: Path) -> None:
    resume, _ = suspended(project)
    rivals = [
        subprocess.Popen(
            [str(COMMAND), *resume, flag],
            cwd=project.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        for flag in ("--allow", "--allow", "--reject")
    ]
    ended = [(*rival.communicate(timeout=60), rival.returncode) for rival in rivals]
    assert sorted(status for _, _, status in ended) == [0, 1, 1], ended
    for _, errors, status in ended:
        if status:
            assert re.search(
                "answered already: (allowed-once|rejected)|another process has it open|waits for nobody", errors
            ), errors
    log = events(project, resume[2])
    assert sum(event["type"] == "approval/decided" for event in log) == 1
    bash = [event for event in log if event["type"] == "tool/code-dispatch" and event["data"]["name"] == "bash"]
    assert len(bash) == 1
    assert [event["data"]["reason"]["kind"] for event in log if event["type"] == "turn/end"] == ["waiting", "completed"]


def test_the_question_is_put_in_a_terminal(project: Path) -> None:
    resume, _ = suspended(project)
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [str(COMMAND), *resume], cwd=project.parent, stdin=theirs, stdout=theirs, stderr=theirs, env=ENVIRONMENT
    )
    os.close(theirs)
    seen = ""
    answered = False
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([ours], [], [], 1)
            if not ready:
                if child.poll() is not None:
                    break
                continue
            try:
                seen += os.read(ours, 65536).decode()
            except OSError:  # the other end is closed
                break
            if not answered and "yes, this once" in seen and seen.endswith("> "):
                os.write(ours, b"y\n")
                answered = True
    finally:
        os.close(ours)
        child.wait(timeout=30)
    assert child.returncode == 0, seen
    assert "the shell counts 5 entries" in seen


def test_ctrl_c_leaves_a_session_that_can_go_on(project: Path) -> None:
    # Beside the page the demo stays after it has been suspended.
    arguments = ["demo", "--mode", "code", "--suspend", "--inspect", "--folder", str(project), "--store", "demo.sqlite"]
    child = subprocess.Popen(
        [str(COMMAND), *arguments],
        cwd=project.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert child.stdout is not None
    shown = ""
    for line in child.stdout:
        shown += line
        if " session resume " in line:
            break
    child.send_signal(signal.SIGINT)
    rest, errors = child.communicate(timeout=60)
    assert child.returncode == 130, shown + rest + errors
    assert "Traceback" not in errors
    proposed = re.search(r"session resume \S+ --store \S+", shown)
    assert proposed is not None, shown
    done = run(*proposed[0].split(), "--allow", cwd=project.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the shell counts 5 entries" in done.stdout


async def test_any_other_session_needs_a_model(tmp_path: Path) -> None:
    async with application(tmp_path) as ctx:
        await start(ctx, program_of('return await tools.pay({ name: "a", value: 1 });'))
    store = ("--store", str(tmp_path / "sessions.sqlite"))
    refused = run("session", "resume", "s1", *store, cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--model" in refused.stderr
    # The tools of the program are not there: nothing runs, and the session still waits.
    gone = run(
        "session", "resume", "s1", *store, "--model", "openai:x", "--base-url", "http://127.0.0.1:9", cwd=tmp_path
    )
    assert gone.returncode == 1
    assert "there is no code runtime" in gone.stderr
    assert " waiting " in run("session", "list", *store, cwd=tmp_path).stdout
    unknown = run("session", "resume", "nobody", *store, cwd=tmp_path)
    assert unknown.returncode == 2
    assert 'no session "nobody"' in unknown.stderr


def test_flags_that_make_no_sense(project: Path) -> None:
    for flags, says in (
        (("--allow", "--reject"), "exclude each other"),
        (("--reason", "x"), "goes with --reject"),
    ):
        refused = run("session", "resume", "x", *flags, cwd=project)
        assert refused.returncode == 2
        assert says in refused.stderr
    refused = run("demo", "--suspend", cwd=project)
    assert refused.returncode == 2
    assert "--mode code" in refused.stderr


async def test_the_demo_is_answered_in_the_page_and_goes_on(project: Path) -> None:
    arguments = ["demo", "--mode", "code", "--suspend", "--inspect", "--folder", str(project), "--store", "demo.sqlite"]
    child = await asyncio.create_subprocess_exec(
        str(COMMAND), *arguments, cwd=project.parent, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, env=ENVIRONMENT
    )
    try:
        assert child.stdout is not None
        shown = ""
        while " session resume " not in shown:
            line = (await child.stdout.readline()).decode()
            assert line, shown
            shown += line
        page = re.search(r"(http://127\.0\.0\.1:\d+/)#token=(\S+)", shown)
        assert page is not None, shown
        async with httpx.AsyncClient(base_url=page[1]) as client:
            client.headers["x-csrf-token"] = (await client.post("/api/login", json={"token": page[2]})).json()["csrf"]
            (question,) = (await client.get("/api/approvals")).json()["pending"]
            assert (question["toolName"], question["waiting"]) == ("bash", True)
            answer = await client.post(f"/api/approvals/{question['id']}", json={"outcome": "allowed-once"})
            assert answer.json() == {"accepted": True, "turn": "goes-on"}, answer.text
        while "when the calls ran" not in shown:
            line = (await asyncio.wait_for(child.stdout.readline(), 60)).decode()
            assert line, shown
            shown += line
        assert "the shell counts 5 entries" in shown
    finally:
        child.send_signal(signal.SIGINT)
        _, errors = await child.communicate()
    assert child.returncode == 130, errors.decode()


def test_an_export_of_what_waits_says_that_it_cannot_go_on_elsewhere(project: Path) -> None:
    resume, _ = suspended(project)
    exported = run("session", "export", resume[2], "-o", "w.jsonl", "--store", "demo.sqlite", cwd=project.parent)
    assert exported.returncode == 0
    assert "cannot go on there" in exported.stderr
    run("session", "import", "w.jsonl", "--store", "other.sqlite", cwd=project.parent)
    refused = run("session", "resume", resume[2], "--store", "other.sqlite", "--allow", cwd=project.parent)
    assert refused.returncode == 1
    assert "its journal is not there" in refused.stderr
