"""``dsh-tools demo --mode code``: one job, by calls and by a program."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

COMMAND = Path(sys.executable).with_name("dsh-tools")


def test_one_job_twice(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    for number in range(12):
        (root / f"notes{number:02}.md").write_text("a test here\n" * (number + 1) + "and nothing there\n" * 40)
    store = tmp_path / "demo.sqlite"
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    done = subprocess.run(
        [str(COMMAND), "demo", "--mode", "code", "--folder", str(root), "--store", str(store)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 files; 12 mention tests, 78 times in all" in done.stdout
    assert "notes11.md: 12 times in 52 lines" in done.stdout
    assert "no-such-file.md: read failed: no-such-file.md does not exist" in done.stdout
    rows = {}
    for line in done.stdout.splitlines():
        found = re.fullmatch(r"(native|code) +(\d+) +(\d+) +(\d+) +([\d,]+) +([\d,]+) *", line)
        if found:
            rows[found[1]] = [int(figure.replace(",", "")) for figure in found.groups()[1:]]
    native, code = rows["native"], rows["code"]
    assert native[:3] == [3, 11, 1]
    assert code[:3] == [2, 11, 1]
    assert code[4] < native[4]

    shown = subprocess.run(
        [str(COMMAND), "session", "show", "--store", str(store), "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    # The newest session is the one in Code Mode; all its calls are in the log, and the reads overlapped.
    events = [json.loads(line) for line in shown.stdout.splitlines()][1:]
    dispatches = [event for event in events if event["type"].startswith("tool/code-dispatch")]
    reads = [event["type"] for event in dispatches if event["data"]["name"] == "read"]
    assert len(reads) == 18
    # Not each of them overlaps: the first may be done before the second arrives.
    opened = list(accumulate(1 if kind == "tool/code-dispatch-start" else -1 for kind in reads))
    assert max(opened) >= 2
