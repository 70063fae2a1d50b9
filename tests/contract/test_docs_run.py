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


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("langchain", "langchain_core", "langchain-core"),
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai-slim"),
    ],
)
def test_an_example_says_in_one_line_what_it_needs(name: str, module: str, package: str, tmp_path: Path):
    example = ROOT / "examples" / f"adapter_{name}.py"
    assert f"pip install {package}" in example.read_text(encoding="utf-8").splitlines()[0]
    missing = f"No module named {module!r}"
    (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError({missing!r})")
    done = subprocess.run(
        [sys.executable, str(example)],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == f"{missing}; it needs: pip install {package}\n"


def test_the_readme_leads_to_every_guide_and_the_examples():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs" / "guide").glob("*.md")):
        assert f"](docs/guide/{page.name})" in text
    assert "](examples)" in text


def test_there_is_something_to_run():
    assert FENCES, "README.md and docs/guide have no Python example"
    assert FILES, "examples/ is empty"
