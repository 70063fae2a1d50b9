"""Finding the programs of the system that some tests need."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

LIST = Path(__file__).parents[2] / "scripts" / "system-packages.txt"


@cache
def known_programs() -> dict[str, str]:
    """The programs that a test may need, with the Debian package that brings each."""
    lines = (line.split() for line in LIST.read_text(encoding="utf-8").splitlines())
    return {words[0]: words[1] for words in lines if words and words[0] != "#"}


@cache
def find_program(name: str) -> Path | None:
    """Where a program is; PostgreSQL's server is looked for where Debian keeps it, too."""
    found = shutil.which(name)
    if found:
        return Path(found)
    if name == "postgres":
        versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: path.parts[4])
        return versions[-1] if versions else None
    return None
