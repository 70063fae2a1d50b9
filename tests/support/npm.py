"""Finding the programs of npm packages that some tests talk to (``scripts/npm-packages.txt``)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "node_modules" / ".bin"


def npm_program(name: str) -> str:
    """The path of a program; where it is not installed the test is skipped, or fails where programs are required."""
    found = FOLDER / name
    if not found.exists():
        reason = f"{name} is missing (scripts/npm-packages.sh installs it)"
        if os.environ.get("DSH_TOOLS_REQUIRE_PROGRAMS") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return str(found)


def npm_file(package: str, path: str) -> Path:
    """A file of a package; where it is not installed the test is skipped, or fails where programs are required."""
    found = FOLDER.parent / package / path
    if not found.is_file():
        reason = f"{package} is missing (scripts/npm-packages.sh installs it)"
        if os.environ.get("DSH_TOOLS_REQUIRE_PROGRAMS") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return found
