"""What do the search tools cost beside plain ripgrep?

    make bench WHAT=search [ARGS="--rounds 15 --files 50000 --json out.json"]

A tree of 50,000 text files that this makes. Our rows are whole calls through the pipeline, from the arguments to the
final result: every match parsed, validated, frozen and rendered. Plain ripgrep is started and its output read, and
nothing done with it. Rounds are interleaved and the best of each counts, so that a busy machine hurts all alike.
The bar: each grep within 1.3 times the wall time of plain ripgrep; the last line is the worst of their ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from tree import COMMON, RARE, make_tree

from dsh_tools.kernel import Context, create_context
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.toolkits import SearchPlugin
from dsh_tools.tools import ToolCall, ToolSuccess

BAR = 1.3
TOKENS = r"^\s*parse token \w+$"


@dataclass
class Row:
    """One question, asked of everybody."""

    title: str
    tool: str
    arguments: dict[str, Any]
    plain: list[str]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    found: int = 0

    def best(self, party: str) -> float:
        return min(self.seconds[party])

    @property
    def ratio(self) -> float:
        return self.best("dsh-tools") / self.best("ripgrep")


def rows() -> list[Row]:
    lines = ["rg", "--no-heading", "--with-filename", "--line-number", "--no-require-git"]
    return [
        Row("grep, 8 matches", "grep", {"pattern": RARE}, [*lines, RARE, "./"]),
        Row("grep, no match", "grep", {"pattern": "nowhere_in_it"}, [*lines, "nowhere_in_it", "./"]),
        Row(
            "grep, an expression in *.py",
            "grep",
            {"pattern": TOKENS, "include": "*.py"},
            [*lines, "--glob=*.py", TOKENS, "./"],
        ),
        Row(
            "grep, many matches",
            "grep",
            {"pattern": f"^{COMMON} (read|write) "},
            [*lines, f"^{COMMON} (read|write) ", "./"],
        ),
        Row("glob *.py", "glob", {"pattern": "*.py"}, ["rg", "--files", "--no-require-git", "--glob=*.py", "./"]),
    ]


async def ask(ctx: Context, row: Row) -> None:
    result = await ctx.tools.execute(ToolCall(row.tool, row.arguments))
    assert isinstance(result, ToolSuccess), result
    row.found = len(result.value.get("matches", result.value.get("paths")))


async def measure(root: Path, table: list[Row], rounds: int) -> None:
    async with create_context() as one, create_context() as other:
        for ctx, engine in ((one, "ripgrep"), (other, "library")):
            await ctx.plugin(ToolsPlugin())
            await ctx.plugin(SearchPlugin(), {"root": str(root), "engine": engine})
        parties: dict[str, Callable[[Row], Awaitable[None]]] = {
            "dsh-tools": lambda row: ask(one, row),
            "ripgrep": lambda row: plain(root, row),
            "dsh-tools without ripgrep": lambda row: ask(other, row),
        }
        for number in range(rounds + 1):
            for row in table:
                for party, run in parties.items():
                    # The engine in Python is slow; a few rounds tell how slow.
                    if party.endswith("without ripgrep") and number > 3:
                        continue
                    started = time.perf_counter()
                    await run(row)
                    # The first round warms the disk's cache and counts for nobody.
                    if number:
                        row.seconds.setdefault(party, []).append(time.perf_counter() - started)


async def plain(root: Path, row: Row) -> None:
    # Nothing else runs meanwhile, so it may block.
    subprocess.run(row.plain, cwd=root, capture_output=True, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if shutil.which("rg") is None:
        print("this needs ripgrep (Debian package: ripgrep)")
        return 2
    root = Path(tempfile.mkdtemp(prefix="dsh-tools-search-"))
    try:
        size = make_tree(root, options.files)
        print(f"{options.files:,} files, {size / 1e6:.0f} MB; {options.rounds} rounds, the best in milliseconds\n")
        table = rows()
        asyncio.run(measure(root, table, options.rounds))
    finally:
        shutil.rmtree(root)
    show(table)
    if options.json:
        figures = {row.title: {"found": row.found, "ms": {p: row.best(p) * 1000 for p in row.seconds}} for row in table}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    worst = max(row.ratio for row in table if row.tool == "grep")
    print(f"\nbar for grep: {BAR} x ripgrep: {'met' if worst <= BAR else 'MISSED'}")
    print(f"ratio_vs_ripgrep {worst:.2f}")
    return 0 if worst <= BAR else 1


def show(table: list[Row]) -> None:
    print(f"{'':32} {'found':>7} {'ripgrep':>9} {'dsh-tools':>10} {'ratio':>6} {'without ripgrep':>16}")
    for row in table:
        ours, plain_ms, library = (row.best(p) * 1000 for p in ("dsh-tools", "ripgrep", "dsh-tools without ripgrep"))
        print(f"{row.title:32} {row.found:7,} {plain_ms:9.1f} {ours:10.1f} {row.ratio:6.2f} {library:16.1f}")


if __name__ == "__main__":
    sys.exit(main())
