"""Field cases on commands, files and searches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.calls import run, text_of
from tests.support.toolkits import failed

from dsh_tools.kernel import Context, create_context
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.services import TimeoutPlugin
from dsh_tools.toolkits import FilesPlugin, SearchPlugin, ShellPlugin
from dsh_tools.tools import ToolCall


@pytest.fixture
async def ctx(no_leaks: None, tmp_path: Path) -> AsyncIterator[Context]:
    context = create_context()
    await context.plugin(ToolsPlugin())
    await context.plugin(TimeoutPlugin())
    await context.plugin(FilesPlugin(), {"root": str(tmp_path)})
    await context.plugin(SearchPlugin(), {"root": str(tmp_path)})
    await context.plugin(ShellPlugin(), {"cwd": str(tmp_path), "grace_ms": 200})
    yield context
    await context.dispose()


def command(line: str, **more: Any) -> dict[str, Any]:
    return {"command": line, "description": "test", **more}


@pytest.mark.field("field-122")
async def test_what_a_command_printed_before_its_time_limit_is_kept(ctx: Context):
    result = await run(ctx, "bash", command("echo one; echo two; echo three; sleep 30", timeoutMs=200))
    assert text_of(result) == "one\ntwo\nthree\n[timed out after 200ms]\n[killed by signal: SIGTERM]"


@pytest.mark.field("field-069")
@pytest.mark.field("field-132")
async def test_a_command_that_is_stopped_has_stopped(ctx: Context, tmp_path: Path):
    started = time.monotonic()
    line = "sleep 0.6; touch late"
    results = await asyncio.gather(*(run(ctx, "bash", command(line, timeoutMs=100)) for _ in range(20)))
    assert all(result.value["timedOut"] for result in results)
    assert time.monotonic() - started < 5
    assert [child for child in psutil.Process().children() if child.name() in ("bash", "sleep")] == []
    await asyncio.sleep(0.7)
    assert not (tmp_path / "late").exists()


@pytest.mark.field("field-121")
async def test_a_huge_result_is_short_for_the_model_and_whole_for_programs(ctx: Context, tmp_path: Path):
    (tmp_path / "huge.txt").write_text("needle in a line\n" * 100_000)
    found = await run(ctx, "grep", {"pattern": "needle"})
    assert len(found.value["matches"]) == 100_000
    assert len(text_of(found)) < 20_000
    assert "Showing 250 of 100000 matches" in text_of(found)
    printed = await run(ctx, "bash", command("cat huge.txt"))
    assert len(text_of(printed)) < 70_000
    spilled = printed.value["stdout"]["spillPath"]
    assert Path(spilled).stat().st_size == 1_700_000
    assert f"[output truncated; full output: {spilled}]" in text_of(printed)
    read = await run(ctx, "read", {"file_path": "huge.txt"})
    assert len(text_of(read)) < 60_000
    assert "Go on with offset 2001" in text_of(read)


@pytest.mark.field("field-123")
async def test_a_command_streams_what_it_prints(ctx: Context):
    said: list[Any] = []
    ctx.on("tools/progress", lambda execution, value: said.append(value))
    await run(ctx, "bash", command("echo 10; sleep 0.3; echo 50; sleep 0.3; echo done"))
    assert said == ["10\n", "50\n", "done\n"]


@pytest.mark.field("field-035")
async def test_an_expression_that_would_never_end_ends(ctx: Context, tmp_path: Path):
    (tmp_path / "f").write_text("a" * 30_000 + "!\n")
    started = time.monotonic()
    result = await run(ctx, "grep", {"pattern": "^(a+)+$"})
    assert result.value["matches"] == []
    assert time.monotonic() - started < 1


@pytest.mark.field("field-002")
async def test_arguments_that_are_cut_off_delete_nothing(ctx: Context, tmp_path: Path):
    (tmp_path / "a.tx").write_text("keep me")
    result = await ctx.tools.execute(ToolCall("delete", '{"file_path": "a.tx'))
    assert failed(result)[0] == "INVALID_ARGS"
    assert (tmp_path / "a.tx").exists()
