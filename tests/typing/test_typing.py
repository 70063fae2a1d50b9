"""What a type checker must accept, and what it must not.

``accept/`` holds code that checks cleanly. In ``reject/`` exactly the lines that end in ``# error`` must
be complained about. basedpyright checks all files; mypy those whose first line is ``# also: mypy``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ACCEPT = sorted((HERE / "accept").glob("*.py"))
REJECT = sorted((HERE / "reject").glob("*.py"))
FILES = [*ACCEPT, *REJECT]

Complaints = dict[Path, dict[int, list[str]]]


def for_mypy(path: Path) -> bool:
    """Whether mypy should check the file, too."""
    return path.read_text(encoding="utf-8").startswith("# also: mypy\n")


def expected_lines(path: Path) -> set[int]:
    """The lines of a file that must be complained about."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# error")}


def name(path: Path) -> str:
    """How a test of the file is called."""
    return f"{path.parent.name}/{path.name}"


@cache
def basedpyright() -> Complaints:
    """All errors that basedpyright has about the files, by line."""
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, *map(str, FILES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(FILES)
    found: Complaints = {path: {} for path in FILES}
    for item in report["generalDiagnostics"]:
        if item["severity"] == "error":
            lines = found[Path(item["file"])]
            lines.setdefault(item["range"]["start"]["line"] + 1, []).append(item["message"])
    return found


@cache
def mypy(cache_dir: Path) -> Complaints:
    """All errors that mypy has about the files meant for it, by line."""
    files = [path for path in FILES if for_mypy(path)]
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(cache_dir)]
    command += ["--config-file=", "--show-absolute-path", "--explicit-package-bases", *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: Complaints = {path: {} for path in files}
    for line in done.stdout.splitlines():
        match = re.match(r"(.+?):(\d+): error: (.*)", line)
        if match is not None:
            path = Path(match[1])
            assert path in found, line
            found[path].setdefault(int(match[2]), []).append(match[3])
    return found


def check(path: Path, complaints: Complaints) -> None:
    """Fail unless exactly the expected lines were complained about."""
    found = complaints[path]
    expected = expected_lines(path)
    surprising = {line: found[line] for line in found if line not in expected}
    assert not surprising, f"{name(path)}: complaints about sound lines: {surprising}"
    silent = sorted(expected - found.keys())
    assert not silent, f"{name(path)}: no complaint about lines {silent}"


@pytest.fixture(scope="session")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.limit(300)
@pytest.mark.parametrize("path", FILES, ids=name)
def test_basedpyright(path: Path):
    check(path, basedpyright())


@pytest.mark.limit(300)
@pytest.mark.parametrize("path", [path for path in FILES if for_mypy(path)], ids=name)
def test_mypy(path: Path, mypy_cache: Path):
    check(path, mypy(mypy_cache))


def test_there_is_something_to_reject():
    assert all(expected_lines(path) for path in REJECT)
    assert not any(expected_lines(path) for path in ACCEPT)
