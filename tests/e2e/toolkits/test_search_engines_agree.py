"""Both search engines find the same, in whatever tree and for whatever pattern."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.calls import run
from tests.support.toolkits import failed, mounted

from dsh_tools.toolkits import SearchPlugin
from dsh_tools.tools import ToolSuccess

pytestmark = pytest.mark.needs("rg")

NAMES = ["a", "b", "ab.py", "x.log", "a.txt", ".hidden", "build", "é.py", "a b", "[x]", "#c", "!d"]
FOLDERS = ["", "a/", "build/", "a/b/", "a/build/", ".hid/", "build/x/", "a/b/a/"]
IGNORES = [
    "*.log", "build", "build/", "/build", "/a/b", "a/b/", "!x.log", "!build/", "*", "!*/", "!*.py", "**/b", "b/**", "a/**/a",
    "/*", "!/a", "a/*", "?", "[ab]", "[!a]*.py", "*.{py,log}", "\\#c", "\\!d", "# comment", "", "a b", "x.log ", "é.py", "?.py",
    "**", "**/", "/**/a", "a/**/", ".hidden", "[z-a]", "[", "ab\\", "a*b*", "**.py", "a**b", "\\[x\\]", "[[]x]",
]  # fmt: skip

trees = st.fixed_dictionaries(
    {},
    optional={
        folder + name: st.sampled_from(
            [b"", b"needle\n", b"one\nneedle two\r\nNEEDLE\n", b"needle\0", b"caf\xe9 needle\n"]
        )
        for folder in FOLDERS
        for name in NAMES
    },
)
ignore_files = st.dictionaries(
    st.sampled_from(FOLDERS), st.lists(st.sampled_from(IGNORES), min_size=1, max_size=5), max_size=4
)
repositories = st.sets(st.sampled_from(["", "a/", "a/b/"]), max_size=2)
searched = st.sampled_from([".", "a", "a/b", "build", "a/build"])


def grow(root: Path, files: dict[str, bytes], ignores: dict[str, list[str]], repositories: set[str]) -> None:
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        if not (root / path).is_dir():
            (root / path).write_bytes(data)
    for folder, lines in ignores.items():
        (root / folder / ".gitignore").write_text("\n".join(lines) + "\n")
    for folder in repositories:
        (root / folder / ".git" / "info").mkdir(parents=True)
        (root / folder / ".git" / "config").write_text("needle")


async def outcomes(root: Path, calls: list[tuple[str, dict[str, Any]]]) -> list[list[Any]]:
    """For each engine, what each call gives: the value, or code of the error."""
    found: list[list[Any]] = []
    for engine in ("ripgrep", "library"):
        async with mounted(SearchPlugin(), root=str(root), engine=engine) as ctx:
            results = [await run(ctx, name, arguments) for name, arguments in calls]
            found.append([r.value if isinstance(r, ToolSuccess) else failed(r)[0] for r in results])
    return found


def compare(files: dict[str, bytes], ignores: dict[str, list[str]], repos: set[str], calls: list[Any]) -> None:
    # A folder without .gitignore files above it.
    root = Path(tempfile.mkdtemp(prefix="dsh-tools-test-"))
    try:
        grow(root, files, ignores, repos)
        one, other = asyncio.run(outcomes(root, calls))
        for call, left, right in zip(calls, one, other, strict=True):
            assert left == right, call
    finally:
        shutil.rmtree(root)


@given(trees, ignore_files, repositories, searched)
@settings(max_examples=120)
def test_the_same_files_are_hidden(files: dict[str, bytes], ignores: dict[str, list[str]], repos: set[str], path: str):
    # HOST-218
    compare(
        files,
        ignores,
        repos,
        [
            ("glob", {"pattern": "**", "path": path}),
            ("grep", {"pattern": "needle", "path": path}),
            ("grep", {"pattern": "needle", "path": path, "include": "*.py"}),
            ("grep", {"pattern": "needle", "path": path, "include": "**/[xb]*"}),
            ("grep", {"pattern": "needle", "path": path, "include": "b*"}),
        ],
    )


PATTERNS = [
    "needle", "NEEDLE", "(?i)needle", "^needle", "needle$", "^needle$", "two$", "caf", "e{2}", "n.*e", "needle|one", "[^n]eedle",
    r"\bneedle\b", r"\w+ two", "", "(", "a{", "[", r"\p{Lu}+", r"(?P<x>n)", "x*", "needle\\", "(?=x)", r"\1", "-e", "--files", "$",
    r"needle two\r$", "é", r"\x6eeedle", r"\\", "[[:upper:]]", "(?x) needle # words", r"[$]", r"\$",
]  # fmt: skip
INCLUDES = [
    "*.py",
    "*.{py,log}",
    "a/*",
    "/a*",
    "**/b/*",
    "*",
    "!a",
    "a,b",
    "a b",
    "é.py",
    "[a-b]*",
    "[",
    "build/",
    ".*",
    "-x",
    "#c",
]


@given(trees, ignore_files, searched, st.sampled_from(PATTERNS), st.none() | st.sampled_from(INCLUDES))
@settings(max_examples=150)
def test_the_same_lines_are_found(
    files: dict[str, bytes], ignores: dict[str, list[str]], path: str, pattern: str, include: str | None
):
    # HOST-218, 220, 222
    arguments = {"pattern": pattern, "path": path, **({} if include is None else {"include": include})}
    compare(files, ignores, set(), [("grep", arguments)])


@given(trees, ignore_files, st.sampled_from(NAMES), st.sampled_from(PATTERNS))
@settings(max_examples=40)
def test_the_same_lines_of_one_file_are_found(
    files: dict[str, bytes], ignores: dict[str, list[str]], name: str, pattern: str
):
    # HOST-218
    compare(files, ignores, set(), [("grep", {"pattern": pattern, "path": name})])


@pytest.mark.parametrize(
    "data",
    [
        "needle\nzwei needle\n".encode("utf-16"),
        "\ufeffneedle\nx\n".encode("utf-16-be"),
        b"\xef\xbb\xbfneedle\n",
        b"x\n" * 100_000 + b"needle\n",
        b"x\n" * 100_000 + b"needle\n" + b"\0",
        b"needle\n" + b"x\n" * 100_000 + b"\0",
        b"needle" * 100_000,
        b"needle\r\n" * 3 + b"needle",
        b"\n\n\nneedle\n\n",
        b"\xff\xfe needle\n",
        b"a\rneedle\rb\n",
    ],
)
async def test_the_same_lines_of_odd_files_are_found(tmp_path: Path, data: bytes):
    (tmp_path / "f").write_bytes(data)
    calls = [("grep", {"pattern": p, **w}) for p in ("needle", "^needle", "needle$", "x") for w in ({}, {"path": "f"})]
    one, other = await outcomes(tmp_path, calls)
    assert one == other


async def test_the_same_files_are_no_files(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real").write_text("needle")
    (tmp_path / "folder").symlink_to("/etc")
    (tmp_path / "secret").write_text("needle")
    (tmp_path / "secret").chmod(0)
    one, other = await outcomes(tmp_path, [("glob", {"pattern": "**"}), ("grep", {"pattern": "needle"})])
    assert one == other
    assert one[0]["paths"] == ["real", "secret"]
