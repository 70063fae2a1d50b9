"""The tree that is searched: 50,000 text files, some of them ignored, the same at each run."""

from __future__ import annotations

import random
from pathlib import Path

__all__ = ["COMMON", "RARE", "make_tree"]

RARE = "unlikely_identifier"
COMMON = "handler"

_TEXT = """
return value import from class def self name result error handler index count buffer stream parse token node
config option default path file read write open close line text data key item list map filter reduce async
"""
_WORDS = _TEXT.split()


def make_tree(root: Path, files: int) -> int:
    """Write the files and return how many bytes they have."""
    choose = random.Random(7)
    lines = [
        " " * choose.choice((0, 4, 8)) + " ".join(choose.choices(_WORDS, k=choose.randint(3, 10))) for _ in range(4000)
    ]
    size = 0
    endings = ("py", "ts", "md", "json", "log")
    for number in range(files):
        folder = root / f"package{number % 50:02}" / ("build" if number % 10 == 9 else f"module{number // 50 % 20:02}")
        folder.mkdir(parents=True, exist_ok=True)
        body = choose.choices(lines, k=choose.randint(10, 80))
        if number % 400 == 20:
            body.insert(5, "    parse token stream")
        if number % 5000 == 17:
            body.insert(3, f"def {RARE}():")
        text = "\n".join(body) + "\n"
        size += len(text)
        (folder / f"file{number}.{endings[number % len(endings)]}").write_text(text)
    (root / ".gitignore").write_text("build/\n*.log\n")
    return size
