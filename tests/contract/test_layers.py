"""A folder imports at run time only from folders below it (``[tool.importlinter]`` in pyproject.toml)."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dsh_tools"

# What stands outside the layers: the front door, and the helpers for people's own tests, which nothing imports.
OUTSIDE = {"__init__", "testing"}


def declared_layers() -> set[str]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = config["tool"]["importlinter"]["contracts"]
    return {name.strip(" ()") for line in contract["layers"] for name in line.split("|")}


def test_imports_follow_the_layers():
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as run; run()",
        "--no-cache",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_part_of_the_package_has_its_layer():
    parts = {
        path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path.is_dir() and any(path.rglob("*.py")))
    }
    assert parts - OUTSIDE - declared_layers() == set()


def test_nothing_imports_the_test_helpers():
    users = [
        str(path.relative_to(ROOT))
        for path in SOURCE.rglob("*.py")
        if "testing" not in path.relative_to(SOURCE).parts
        and any(name in path.read_text(encoding="utf-8") for name in ("dsh_tools.testing import", ".testing import"))
    ]
    assert users == []
