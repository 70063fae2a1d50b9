"""The demo, from its first line to the session that shows it again."""

from __future__ import annotations

import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

COMMAND = Path(sys.executable).with_name("dsh-tools")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    for name, text in {
        "README.md": "# A project\n\nLicense: MIT\n",
        "main.py": "def test() -> None: ...\n",
        "notes.txt": "todo: everything\n",
        "build/out.txt": "old\n",
    }.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return root


def command(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *args],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
    )


def events(store: Path) -> list[dict[str, object]]:
    shown = command("session", "show", "--store", str(store), "--json", cwd=store.parent)
    return [json.loads(line) for line in shown.stdout.splitlines()][1:]


def test_the_demo_shows_what_it_promises(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "demo.sqlite"
    done = command("demo", "--folder", str(folder), "--store", str(store), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    log = events(store)
    calls = {event["data"]["callId"]: event for event in log if event["type"] == "tool/call"}  # type: ignore[index]
    results = {
        event["data"]["message"]["content"][0]["toolCallId"]: event  # type: ignore[index]
        for event in log
        if event["type"] == "tool/result"
    }
    assert calls.keys() == results.keys()
    texts = {
        key: event["data"]["message"]["content"][0]["content"][0]["text"]  # type: ignore[index]
        for key, event in results.items()
    }
    names = [event["data"]["name"] for event in calls.values()]  # type: ignore[index]
    assert names == ["glob", "read", "read", "read", "grep", "bash", "bash", "deep_scan"]
    assert any("deleting files is not allowed" in text for text in texts.values())
    assert any("timed out after 700ms" in text for text in texts.values())
    assert [event["data"]["outcome"] for event in log if event["type"] == "approval/decided"] == ["allowed-once"]  # type: ignore[index]
    # The three reads ran at the same time: all were started before the first was committed.
    reads = [event["seq"] for event in calls.values() if event["data"]["name"] == "read"]  # type: ignore[index]
    first_result = min(results[key]["seq"] for key, event in calls.items() if event["data"]["name"] == "read")  # type: ignore[index, type-var]
    assert max(reads) < first_result  # type: ignore[type-var]
    assert (folder / "build" / "out.txt").exists()
    for said in ("a person was asked about bash", "when the calls ran", "█", "dsh-tools session show"):
        assert said in done.stdout
    assert "2 calls did not go through (one by policy, one by its time limit), and a person allowed one." in done.stdout


def test_the_closing_text_knows_that_the_person_said_no(folder: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(COMMAND), "demo", "--folder", str(folder), "--store", str(tmp_path / "demo.sqlite")],
        cwd=tmp_path,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
    )
    os.close(theirs)
    try:
        # What is typed before the question is not an answer to it.
        assert process.stdout is not None
        while "yes, this once" not in (line := process.stdout.readline()):
            assert line, process.communicate()
        os.write(ours, b"n\n")
        shown, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert process.returncode == 0, errors
    assert "(one by policy, one that a person did not allow, one by its time limit). Nothing was changed." in shown
    assert "a person allowed one" not in shown


def test_the_session_is_shown_again_without_running_anything(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "demo.sqlite"
    command("demo", "--folder", str(folder), "--store", str(store), cwd=tmp_path)
    listed = command("session", "list", "--store", str(store), cwd=tmp_path)
    assert "What is in this folder" in listed.stdout
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()
    shown = command("session", "show", "--store", str(store), cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    for said in (
        "License: MIT",
        "deleting files is not allowed",
        "TOOL_TIMEOUT",
        "approval: allowed-once",
        "completed",
    ):
        assert said in shown.stdout
    assert command("session", "show", "nobody", "--store", str(store), cwd=tmp_path).returncode == 2
    assert command("session", "show", "--store", str(tmp_path / "empty.sqlite"), cwd=tmp_path).returncode == 2


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    done = command("demo", "--folder", "nowhere", cwd=tmp_path)
    assert done.returncode == 2
    assert "--folder nowhere: is not a folder" in done.stderr


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopping_the_demo_keeps_a_result_for_every_call(folder: Path, tmp_path: Path, sent: int, status: int) -> None:
    store = tmp_path / "demo.sqlite"
    process = subprocess.Popen(
        [str(COMMAND), "demo", "--folder", str(folder), "--store", str(store)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + 30
    while time.monotonic() < until and not _scanning(store):
        time.sleep(0.02)
    process.send_signal(sent)
    _, said = process.communicate(timeout=20)
    assert process.returncode == status, said
    assert b"Traceback" not in said
    log = events(store)
    called = [event for event in log if event["type"] == "tool/call"]
    answered = [event for event in log if event["type"] == "tool/result"]
    assert len(called) == len(answered) > 0
    assert log[-1]["data"]["reason"]["kind"] == "aborted"  # type: ignore[index]
    assert not [child for child in psutil.Process().children(recursive=True) if child.pid == process.pid]


def _scanning(store: Path) -> bool:
    """Whether the log says that the long call has started."""
    if not store.exists():
        return False
    try:
        connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        try:
            rows = connection.execute("SELECT line FROM events WHERE type = 'tool/call'").fetchall()
        finally:
            connection.close()
    except sqlite3.Error:
        return False
    return any("deep_scan" in str(row[0]) for row in rows)
