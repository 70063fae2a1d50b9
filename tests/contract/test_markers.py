"""The markers of ``tests/conftest.py`` do what they say, in a run of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.programs import find_program, known_programs

ROOT = Path(__file__).parents[2]


def run_tests(folder: Path, source: str, *options: str, **environment: str) -> str:
    module = folder / "test_example.py"
    module.write_text("import asyncio, pytest\n\n" + source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest"]
    cleaned = {name: value for name, value in os.environ.items() if not name.startswith("DSH_TOOLS_")}
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-rs", "--rootdir", str(folder), *options, str(module)],
        cwd=ROOT,
        env=cleaned | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


# A program that no machine has, put in the place of a known one.
MISSING = """
from tests import conftest

conftest.find_program = lambda name: None

@pytest.mark.needs("rg")
def test_search():
    pass
"""


def test_a_missing_program_skips_and_says_which(tmp_path: Path):
    output = run_tests(tmp_path, MISSING)
    assert "1 skipped" in output
    assert "rg is missing (Debian package: ripgrep)" in output


def test_a_missing_program_fails_where_programs_are_required(tmp_path: Path):
    output = run_tests(tmp_path, MISSING, DSH_TOOLS_REQUIRE_PROGRAMS="1")
    assert "rg is missing (Debian package: ripgrep)" in output
    assert "1 error" in output or "1 failed" in output


def test_a_program_nobody_can_install_is_a_mistake(tmp_path: Path):
    output = run_tests(tmp_path, '@pytest.mark.needs("frobnicate")\ndef test_one(): pass\n')
    assert "names no program of scripts/system-packages.txt" in output


def test_a_test_that_hangs_fails(tmp_path: Path):
    output = run_tests(tmp_path, "@pytest.mark.limit(0.3)\nasync def test_one(): await asyncio.sleep(30)\n")
    assert "the test took more than 0.3 s" in output
    assert "1 failed" in output


def test_a_leak_fails_the_test(tmp_path: Path):
    source = "async def test_one(no_leaks):\n    test_one.task = asyncio.create_task(asyncio.sleep(30))\n"
    output = run_tests(tmp_path, source)
    assert "left behind" in output
    assert "1 error" in output


def test_figures_are_reduced_unless_soaking(tmp_path: Path):
    source = "def test_one(figure): print('figure', figure(3, 3000)); assert 0\n"
    assert "figure 3\n" in run_tests(tmp_path, source)
    assert "figure 3000\n" in run_tests(tmp_path, source, DSH_TOOLS_SOAK="1")


def test_soaking_chooses_every_test_with_long_figures(tmp_path: Path):
    source = "def test_one(figure): pass\n\ndef test_two(): pass\n"
    assert "1 passed, 1 deselected" in run_tests(tmp_path, source, "-m", "soak")


def test_programs_are_found_on_the_search_path():
    assert find_program("sh") is not None
    assert find_program("surely-no-such-program") is None
    assert known_programs()["postgres"] == "postgresql"
