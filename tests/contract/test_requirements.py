"""The pinned requirement files: exact versions, every file by hash, no address, in step with pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements"
PINNED = sorted(REQUIREMENTS.glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def entries(path: Path) -> list[str]:
    text = re.sub(r"\\\n", " ", path.read_text(encoding="utf-8"))
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def pins(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in entries(path):
        requirement = Requirement(line.split("--hash")[0].strip())
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", line
        found[canonicalize_name(requirement.name)] = specifier.version
    return found


def declared(*extras: str) -> list[Requirement]:
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


def documented() -> str:
    return (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_every_line_is_pinned_by_hash_and_has_no_address(path: Path):
    assert entries(path)
    for line in entries(path):
        assert not line.startswith("-"), f"an option, not a requirement: {line}"
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), line
    text = path.read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"(^|\s)(/|file:|\.\./)", text)


def test_the_demo_set_carries_the_base_dependencies_and_the_build_tool():
    found = pins(REQUIREMENTS / "demo.txt")
    for requirement in [*declared(), Requirement("hatchling")]:
        assert requirement.specifier.contains(found[canonicalize_name(requirement.name)])


def test_the_test_set_carries_every_extra():
    found = pins(REQUIREMENTS / "test.txt")
    extras = [name for name in PROJECT["optional-dependencies"] if name != "all"]
    for requirement in declared(*extras):
        assert requirement.specifier.contains(found[canonicalize_name(requirement.name)]), requirement
    (everything,) = declared("all")[len(declared()) :]
    assert everything.extras == set(extras)


def test_the_demo_runs_the_versions_that_were_tested():
    tested = pins(REQUIREMENTS / "test.txt")
    differing = {name for name, version in pins(REQUIREMENTS / "demo.txt").items() if tested[name] != version}
    assert differing == set()


def test_every_dependency_has_a_reason():
    wanted = {line for name in ("demo", "test", "bench") for line in entries(REQUIREMENTS / f"{name}.in")}
    wanted |= {requirement.name for requirement in declared(*PROJECT["optional-dependencies"])} - {"dsh-tools"}
    text = documented()
    assert sorted(name for name in wanted if f"| `{name}` |" not in text) == []
