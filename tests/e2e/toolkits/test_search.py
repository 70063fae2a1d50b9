"""``glob`` and ``grep`` through the pipeline."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from tests.support.calls import run, text_of
from tests.support.toolkits import SessionAgent, error_of, failed, mounted, value_of

from dsh_tools.content import text
from dsh_tools.errors import ConfigError
from dsh_tools.kernel import Context
from dsh_tools.kernel.abort import AbortController
from dsh_tools.kernel.scope import Scope
from dsh_tools.services import TimeoutPlugin
from dsh_tools.services.spill import LocalSpillPlugin
from dsh_tools.toolkits import SearchPlugin, search
from dsh_tools.tools import Accept, ToolCall, view_of_call, view_of_result
from dsh_tools.tools.cards import FileMatches, GenericCall, LineMatch, Location, SearchMatches, SearchPaths
from dsh_tools.tools.definition import PresentedResult

ENGINES = ["library", pytest.param("ripgrep", marks=pytest.mark.needs("rg"))]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for path, words in {
        "a.py": "import os\nneedle = 1\n",
        "src/b.py": "def needle():\n    return needle\n",
        "src/c.md": "no match\n",
        ".github/d.yml": "needle: yes\n",
        "build/e.py": "needle\n",
        ".gitignore": "build/\n",
        ".git/config": "needle\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(words)
    return root


@pytest.fixture(params=ENGINES)
async def ctx(no_leaks: None, tree: Path, request: pytest.FixtureRequest) -> AsyncIterator[Context]:
    async with mounted(SearchPlugin(), root=str(tree), engine=request.param) as context:
        yield context


# ── glob ───────────────────────────────────────────────────────────────────────


async def test_files_are_found(ctx: Context):
    # HOST-218
    result = await run(ctx, "glob", {"pattern": "*.py"})
    assert result.value == {"root": ".", "paths": ["a.py", "src/b.py"]}
    assert text_of(result) == "a.py\nsrc/b.py"
    assert (await value_of(ctx, "glob", {"pattern": "*.yml"}))["paths"] == [".github/d.yml"]
    inside = await value_of(ctx, "glob", {"pattern": "*", "path": "src"})
    assert inside == {"root": "src/", "paths": ["src/b.py", "src/c.md"]}


async def test_an_ignored_folder_that_is_named_is_searched(ctx: Context):
    assert (await value_of(ctx, "glob", {"pattern": "*", "path": "build"}))["paths"] == ["build/e.py"]


async def test_nothing_found_is_no_error(ctx: Context):
    # HOST-220
    result = await run(ctx, "glob", {"pattern": "*.rs"})
    assert (result.value["paths"], text_of(result)) == ([], "No files found")
    result = await run(ctx, "grep", {"pattern": "nowhere at all"})
    assert (result.value["matches"], text_of(result)) == ([], "No matches found")


async def test_bad_patterns_and_folders(ctx: Context, tree: Path):
    # HOST-220
    assert (await error_of(ctx, "glob", {"pattern": "{a"}))[0] == "SEARCH_INVALID_PATTERN"
    assert (await error_of(ctx, "grep", {"pattern": "("}))[0] == "SEARCH_INVALID_PATTERN"
    assert (await error_of(ctx, "glob", {"pattern": "*", "path": "nope"}))[0] == "FS_NOT_FOUND"
    assert (await error_of(ctx, "glob", {"pattern": "*", "path": "a.py"}))[0] == "FS_NOT_REGULAR_FILE"
    assert (await error_of(ctx, "grep", {"pattern": "x", "path": "/etc"}))[0] == "FS_SANDBOX_DENIED"
    (tree / "out").symlink_to("/etc")
    assert (await error_of(ctx, "grep", {"pattern": "root", "path": "out"}))[0] == "FS_SANDBOX_DENIED"
    os.mkfifo(tree / "fifo")
    assert (await error_of(ctx, "grep", {"pattern": "x", "path": "fifo"}))[0] == "FS_NOT_REGULAR_FILE"


# ── grep ───────────────────────────────────────────────────────────────────────


async def test_lines_are_found(ctx: Context):
    # HOST-218
    result = await run(ctx, "grep", {"pattern": r"needle\b"})
    assert result.value["matches"] == [
        {"path": ".github/d.yml", "lineNumber": 1, "line": "needle: yes"},
        {"path": "a.py", "lineNumber": 2, "line": "needle = 1"},
        {"path": "src/b.py", "lineNumber": 1, "line": "def needle():"},
        {"path": "src/b.py", "lineNumber": 2, "line": "    return needle"},
    ]
    assert text_of(result) == (
        "4 matches in 3 files\n.github/d.yml\n  1: needle: yes\na.py\n  2: needle = 1\n"
        "src/b.py\n  1: def needle():\n  2:     return needle"
    )


async def test_one_file_and_some_files(ctx: Context):
    # HOST-222
    paths = lambda value: [match["path"] for match in value["matches"]]  # noqa: E731
    assert paths(await value_of(ctx, "grep", {"pattern": "needle", "path": "src/b.py"})) == ["src/b.py"] * 2
    assert paths(await value_of(ctx, "grep", {"pattern": "needle", "path": "build/e.py"})) == ["build/e.py"]
    assert paths(await value_of(ctx, "grep", {"pattern": "needle", "include": "/*.py"})) == ["a.py"]
    assert paths(await value_of(ctx, "grep", {"pattern": "needle", "include": "build/*"})) == []
    assert (await error_of(ctx, "grep", {"pattern": "x", "include": "*.py,*.md"}))[0] == "SEARCH_INVALID_PATTERN"


@pytest.mark.parametrize(
    "words",
    ["--files", "-e", "--pre=touch pwned", "--help", "-", "--", "--no-ignore", "$(touch pwned)", "`touch pwned`"],
)
async def test_no_argument_is_taken_for_an_option(ctx: Context, tree: Path, words: str):
    # HOST-221
    (tree / "strange").write_text(f"text {words}\n")
    escaped = words.translate({ord(char): f"\\{char}" for char in "$()`"})
    matches = (await value_of(ctx, "grep", {"pattern": escaped.replace("\\`", "`"), "include": "strange"}))["matches"]
    assert [match["line"] for match in matches] == [f"text {words}"]
    for name, arguments in (
        ("grep", {"pattern": "needle", "include": words}),
        ("glob", {"pattern": words}),
        ("grep", {"pattern": "needle", "path": words}),
    ):
        result = await run(ctx, name, arguments)
        if result.is_error:
            assert failed(result)[0] == "FS_NOT_FOUND"
        else:
            assert not any(result.value[key] for key in ("matches", "paths") if key in result.value)
    assert not (tree / "pwned").exists()


@pytest.mark.needs("rg")
async def test_the_users_own_configuration_of_ripgrep_has_no_say(
    no_leaks: None, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # HOST-221
    (tmp_path / "rc").write_text("--invert-match\n--no-ignore\n")
    (tree / ".ignore").write_text("a.py\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
    async with mounted(SearchPlugin(), root=str(tree), engine="ripgrep") as ctx:
        assert (await value_of(ctx, "glob", {"pattern": "*.py"}))["paths"] == ["a.py", "src/b.py"]


# ── limits ─────────────────────────────────────────────────────────────────────


async def test_the_value_is_complete_and_the_page_is_not(no_leaks: None, tree: Path):
    # HOST-218, 219
    for number in range(30):
        (tree / f"n{number:02}.txt").write_text("needle\n" * 3)
    async with mounted(SearchPlugin(), root=str(tree), max_paths=4, max_matches=5) as ctx:
        result = await run(ctx, "glob", {"pattern": "n*.txt"})
        assert len(result.value["paths"]) == 30
        assert text_of(result).splitlines() == [
            *(f"n0{n}.txt" for n in range(4)),
            "",
            "(Showing 4 of 30 files. Use a narrower pattern or path.)",
        ]
        result = await run(ctx, "grep", {"pattern": "needle", "include": "n*.txt"})
        assert len(result.value["matches"]) == 90
        assert text_of(result).splitlines()[0] == "90 matches in 30 files"
        assert text_of(result).splitlines()[-1] == (
            "(Showing 5 of 90 matches. Use a narrower pattern, path or include.)"
        )
    config = {"max_paths": 3, "sample_over_cap_glob_results": True}
    async with mounted(SearchPlugin(), root=str(tree), **config) as ctx:
        shown = text_of(await run(ctx, "glob", {"pattern": "n*.txt"})).splitlines()[:3]
        assert shown == ["n00.txt", "n10.txt", "n20.txt"]


async def test_a_long_line_is_cut_on_the_page_only(ctx: Context, tree: Path):
    # HOST-219
    (tree / "long").write_text("needle" + "é" * 5000 + "\n")
    result = await run(ctx, "grep", {"pattern": "needle", "include": "long"})
    assert len(result.value["matches"][0]["line"]) == 5006
    line = text_of(result).splitlines()[2]
    assert line.endswith("é (line truncated)")
    assert len(line.encode()) < 2100


async def test_too_much_is_an_error_that_says_what_to_do(no_leaks: None, tree: Path):
    # HOST-220
    (tree / "many").write_text("needle in a line of some length\n" * 1000)
    for engine in ("library", "auto"):
        async with mounted(SearchPlugin(), root=str(tree), engine=engine, max_raw_bytes=10_000) as ctx:
            code, message = await error_of(ctx, "grep", {"pattern": "needle"})
            assert code == "SEARCH_RAW_OUTPUT_OVERFLOW"
            assert "narrower" in message
        async with mounted(SearchPlugin(), root=str(tree), engine=engine, max_raw_bytes=10) as ctx:
            assert (await error_of(ctx, "glob", {"pattern": "*"}))[0] == "SEARCH_RAW_OUTPUT_OVERFLOW"


@pytest.mark.parametrize("config", [{"max_paths": 0}, {"timeout_ms": "soon"}, {"engine": "grep"}, {"x": 1}])
async def test_bad_settings_are_load_errors(tree: Path, config: dict[str, Any]):
    # HOST-219
    with pytest.raises(ValueError):
        async with mounted(SearchPlugin(), root=str(tree), **config):
            pass


async def test_a_ripgrep_that_is_not_there_is_a_load_error(tree: Path, monkeypatch: pytest.MonkeyPatch):
    for config in ({"ripgrep": "no-such-program"}, {"engine": "ripgrep", "ripgrep": "no-such-program"}):
        with pytest.raises(ConfigError, match="no-such-program"):
            async with mounted(SearchPlugin(), root=str(tree), **config):
                pass
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="ripgrep"):
        async with mounted(SearchPlugin(), root=str(tree), engine="ripgrep"):
            pass
    async with mounted(search, root=str(tree)) as ctx:
        assert (await value_of(ctx, "glob", {"pattern": "a.py"}))["paths"] == ["a.py"]


async def test_both_tools_run_alone(ctx: Context):
    # HOST-224
    for name in ("glob", "grep"):
        assert ctx.tools.execution_mode(ToolCall(name, {"pattern": "x"})) == "exclusive"


async def test_a_ripgrep_that_fails_says_so(no_leaks: None, tree: Path, tmp_path: Path):
    # HOST-220
    script = tmp_path / "rg"
    script.write_text("#!/bin/sh\necho 'error: something broke' >&2\nexit 2\n")
    script.chmod(0o755)
    async with mounted(SearchPlugin(), root=str(tree), ripgrep=str(script)) as ctx:
        code, message = await error_of(ctx, "grep", {"pattern": "x"})
        assert (code, message) == ("SEARCH_FAILED", "ripgrep failed: something broke")
        script.write_text("#!/bin/sh\nkill -9 $$\n")
        assert (await error_of(ctx, "glob", {"pattern": "x"}))[1] == "ripgrep failed: it ended with SIGKILL"
        script.unlink()
        assert "could not be started" in (await error_of(ctx, "glob", {"pattern": "x"}))[1]


# ── being stopped ──────────────────────────────────────────────────────────────


async def test_a_search_that_hangs_is_stopped_with_all_it_started(no_leaks: None, tree: Path, tmp_path: Path):
    # HOST-219, 220
    script = tmp_path / "rg"
    script.write_text("#!/bin/bash\ntrap '' TERM\nsleep 331 & sleep 332\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    config = {"ripgrep": str(script), "timeout_ms": 200, "grace_ms": 100}
    async with mounted(SearchPlugin(), root=str(tree), **config) as ctx:
        await ctx.plugin(TimeoutPlugin())
        started = time.monotonic()
        assert (await error_of(ctx, "grep", {"pattern": "x"}))[0] == "TOOL_TIMEOUT"
        assert time.monotonic() - started < 3
        assert not any(sleepers("331", "332"))

        controller = AbortController()
        asyncio.get_running_loop().call_later(0.1, controller.abort)
        result = await run(ctx, "glob", {"pattern": "x"}, signal=controller.signal)
        assert failed(result)[0] in ("ABORTED", "SEARCH_ABORTED")
        assert not any(sleepers("331", "332"))

        task = asyncio.create_task(run(ctx, "glob", {"pattern": "x"}))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not any(sleepers("331", "332"))


async def test_the_library_stops_between_files(no_leaks: None, tree: Path):
    # HOST-220
    (tree / "large").write_bytes(b"0123456789\n" * 3_000_000)
    controller = AbortController()
    async with mounted(SearchPlugin(), root=str(tree), engine="library") as ctx:
        asyncio.get_running_loop().call_later(0.02, controller.abort)
        started = time.monotonic()
        result = await run(ctx, "grep", {"pattern": "[0-9]{9}x|needle"}, signal=controller.signal)
        assert failed(result)[0] in ("ABORTED", "SEARCH_ABORTED")
        assert time.monotonic() - started < 3


def sleepers(*arguments: str) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.name() == "sleep" and process.cmdline()[1:2] and process.cmdline()[1] in arguments:
                found.append(process)
        except psutil.Error:
            continue
    return found


# ── cards ──────────────────────────────────────────────────────────────────────


async def card_of(ctx: Context, name: str, arguments: Any) -> Any:
    result = await run(ctx, name, arguments)
    presented = PresentedResult(result.content, result.is_error, result.meta)
    return view_of_result(ctx.tools.get(name), arguments, presented)


async def test_the_cards(ctx: Context):
    # HOST-225; PIPE-215
    card = await card_of(ctx, "grep", {"pattern": "needle =|needle:"})
    assert card == SearchMatches(
        (
            FileMatches(".github/d.yml", (LineMatch(1, "needle: yes"),)),
            FileMatches("a.py", (LineMatch(2, "needle = 1"),)),
        ),
        truncated=False,
        total=2,
    )
    assert await card_of(ctx, "glob", {"pattern": "*.py"}) == SearchPaths(("a.py", "src/b.py"), False, 2)
    assert await card_of(ctx, "grep", {"pattern": "("}) is None
    assert view_of_call(ctx.tools.get("grep"), {"pattern": "x", "path": "src", "include": "*.py"}) == GenericCall(
        "Search x in src (*.py)", kind="search", locations=(Location("src"),)
    )
    assert view_of_call(ctx.tools.get("glob"), {"pattern": "*"}) == GenericCall("Find *", kind="search")


async def test_a_large_card_is_cut_from_its_end(no_leaks: None, tree: Path):
    # HOST-225
    for number in range(50):
        (tree / f"n{number:02}.txt").write_text("needle " + "x" * 100 + "\n")
    config = {"max_meta_bytes": 1000, "max_matches": 40, "max_paths": 40}
    async with mounted(SearchPlugin(), root=str(tree), **config) as ctx:
        for name, arguments in (("grep", {"pattern": "needle x"}), ("glob", {"pattern": "n*.txt"})):
            result = await run(ctx, name, arguments)
            assert len(msgspec.json.encode(result.meta)) <= 1000
            assert result.meta["truncated"] is True
            assert result.meta["total"] == 50
    async with mounted(SearchPlugin(), root=str(tree), max_meta_bytes=1) as ctx:
        assert len((await run(ctx, "grep", {"pattern": "needle x"})).meta["files"]) == 1
        assert len((await run(ctx, "glob", {"pattern": "n*.txt"})).meta["paths"]) == 1


@pytest.mark.parametrize("meta", [None, {}, {"files": 1, "truncated": False, "total": 1}, {"paths": "a"}])
async def test_a_replay_with_other_meta_shows_no_card(ctx: Context, meta: Any):
    # HOST-225
    for name in ("glob", "grep"):
        assert view_of_result(ctx.tools.get(name), {"pattern": "x"}, PresentedResult((), False, meta)) is None


# ── what is not shown ──────────────────────────────────────────────────────────


@pytest.fixture
async def keeping(no_leaks: None, tree: Path, tmp_path: Path) -> AsyncIterator[Context]:
    for number in range(30):
        (tree / f"n{number:02}.txt").write_text("needle\n")
    async with mounted(SearchPlugin(), root=str(tree), max_paths=4, max_matches=4) as context:
        await context.plugin(LocalSpillPlugin(), {"root": str(tmp_path / "kept")})
        yield context


async def test_the_rest_of_a_long_result_is_kept(keeping: Context, tree: Path, tmp_path: Path):
    # HOST-223
    for name, arguments in (("glob", {"pattern": "n*.txt"}), ("grep", {"pattern": "needle"})):
        result = await run(keeping, name, arguments, agent=SessionAgent(tree))
        last = text_of(result).splitlines()[-1]
        assert last.startswith("(All of it is stored at session-")
        kept = next((tmp_path / "kept").rglob(f"*-{name}-*"))
        assert "n29.txt" in kept.read_text()
    result = await run(keeping, "glob", {"pattern": "a.py"}, agent=SessionAgent(tree))
    assert text_of(result) == "a.py"


async def test_the_rest_is_not_kept_where_it_is_somebody_elses_business(keeping: Context, tree: Path, tmp_path: Path):
    # HOST-223
    agent = SessionAgent(tree)
    arguments = {"pattern": "n*.txt"}

    # A call that a program makes.
    async def outer(args: Any, run_: Any) -> str:
        result = await keeping.tools.execute(ToolCall("glob", arguments, agent=agent, parent=run_.token))
        return text_of(result)

    from tests.support.calls import make_tool

    keeping.tools.register(make_tool("outer", outer))
    assert "stored" not in text_of(await run(keeping, "outer", agent=agent))
    # A caller without a session.
    assert "stored" not in text_of(await run(keeping, "glob", arguments))
    # A listener further in has replaced the content.
    dispose = keeping.on("tools/post-execute", lambda review, next: Accept(content=text("replaced")))
    assert text_of(await run(keeping, "glob", arguments, agent=agent)) == "replaced"
    await dispose()
    # Another tool of the same name is the visible one.
    scoped = SessionAgent(tree)
    scoped.scope = Scope("s")
    other = keeping.create_scope("other")
    scoped.scope = other.scope
    other.tools.register(make_tool("glob", schema={}, execute=lambda args, run: answer({"paths": ["x"] * 50})))
    assert "stored" not in text_of(await run(keeping, "glob", arguments, agent=scoped))
    assert not (tmp_path / "kept").exists()


async def answer(value: Any) -> Any:
    return value


async def test_a_store_that_fails_leaves_the_page(no_leaks: None, tree: Path, caplog: pytest.LogCaptureFixture):
    # HOST-224
    class Broken:
        async def save_text(self, **_: Any) -> Any:
            raise OSError("disk full")

    for number in range(30):
        (tree / f"n{number:02}.txt").write_text("needle\n")
    async with mounted(SearchPlugin(), root=str(tree), max_paths=2) as ctx:
        ctx.provide("spill", Broken())
        result = await run(ctx, "glob", {"pattern": "n*.txt"}, agent=SessionAgent(tree))
        assert not result.is_error
        assert text_of(result).splitlines()[-1] == "(The rest was not saved.)"
        assert "could not be saved" in caplog.text


async def test_paths_start_at_the_sessions_folder(no_leaks: None, tree: Path, monkeypatch: pytest.MonkeyPatch):
    # HOST-213
    monkeypatch.chdir(tree)
    async with mounted(SearchPlugin()) as ctx:
        agent = SessionAgent(tree / "src")
        assert (await value_of(ctx, "glob", {"pattern": "*.py"}, agent=agent))["paths"] == ["b.py"]
        assert (await error_of(ctx, "glob", {"pattern": "*", "path": ".."}, agent=agent))[0] == "FS_SANDBOX_DENIED"
        assert (await value_of(ctx, "glob", {"pattern": "*.py"}))["paths"] == ["a.py", "src/b.py"]


@pytest.mark.needs("rg")
async def test_hidden_files_that_fill_the_output_hide_nothing_else(tmp_path: Path):
    # HOST-218, 222: what an ignore file hides counts for nothing, however much of it there is
    (tmp_path / ".gitignore").write_text("bundle.js\n")
    (tmp_path / "bundle.js").write_text("needle\n" * 10_000)
    (tmp_path / "own.js").write_text("needle\n")
    async with mounted(SearchPlugin(), root=str(tmp_path), engine="ripgrep", max_raw_bytes=2_000) as ctx:
        found = await value_of(ctx, "grep", {"pattern": "needle", "include": "*.js"})
    assert found == {"matches": [{"path": "own.js", "lineNumber": 1, "line": "needle"}]}
