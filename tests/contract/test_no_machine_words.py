"""Nothing in the tree depends on, or tells of, the machine it was written on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|tmp|root|home|Users)/[A-Za-z]")
# Spelt in pieces, so that this file may be searched like all others.
REGISTRY_HOST = re.compile(
    "|".join(
        re.escape(".".join(pieces))
        for pieces in [
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("registry", "npmjs"),
            ("registry", "yarnpkg"),
            ("proxy", "golang"),
            ("deb", "debian"),
            ("crates", "io"),
        ]
    )
)


def tracked_texts() -> dict[str, str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=60)
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
    else:  # an unpacked archive has no repository
        hidden = re.compile(r"(^|/)(\.(?!ci|gitignore)|__pycache__|node_modules)")
        paths = (str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file())
        names = [name for name in paths if not hidden.search(name)]
    texts: dict[str, str] = {}
    for name in names:
        path = ROOT / name
        if path.is_file() and path.suffix not in {".png", ".jpg", ".woff2", ".sqlite"}:
            texts[name] = path.read_text(encoding="utf-8", errors="replace")
    return texts


def places(pattern: re.Pattern[str], texts: dict[str, str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_paths_of_one_machine():
    outside_tests = {name: text for name, text in tracked_texts().items() if not name.startswith("tests/")}
    assert places(MACHINE_PATH, outside_tests) == []


def test_no_registry_addresses():
    assert places(REGISTRY_HOST, tracked_texts()) == []


def test_no_lock_file_that_carries_download_addresses():
    locks = {"uv.lock", "poetry.lock", "package-lock.json", "pnpm-lock.yaml", "yarn.lock"}
    assert [name for name in tracked_texts() if Path(name).name in locks] == []


def test_the_patterns_match_what_they_should():
    texts = {"a": "cd /work/main\nsee /tmp/x and docs/tmp/x\nhttps://pypi" + ".org/simple"}
    assert len(places(MACHINE_PATH, texts)) == 2
    assert len(places(REGISTRY_HOST, texts)) == 1
