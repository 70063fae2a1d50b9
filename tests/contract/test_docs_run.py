"""The Python examples of the documents and the files under ``examples/`` run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

ROOT = Path(__file__).parents[2]
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").rglob("*.md"))] if page.is_file()]
FENCES = [fence for fence in find_examples(*PAGES) if fence.prefix.startswith(("python", "py"))]
FILES = sorted((ROOT / "examples").glob("*.py"))
LONGEST_EXAMPLE = 60


@pytest.mark.parametrize("fence", FENCES, ids=str)
def test_fences_run(fence: CodeExample, eval_example: EvalExample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    if "#>" in fence.source:
        eval_example.run_print_check(fence)  # the text after "#>" is what the line above prints
    else:
        eval_example.run(fence)


@pytest.mark.parametrize("example", FILES, ids=lambda path: path.name)
def test_examples_run_and_are_short(example: Path, tmp_path: Path):
    lines = example.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LONGEST_EXAMPLE
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_something_to_run():
    assert FENCES, "README.md and docs/guide have no Python example"
    assert FILES, "examples/ is empty"
