"""Field cases on time limits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.process_bodies import deaf

from dsh_tools.content import content_text
from dsh_tools.errors import InvalidTimeoutError
from dsh_tools.kernel.context import Context, create_context
from dsh_tools.pipeline.service import ToolsPlugin
from dsh_tools.services import TimeoutPlugin
from dsh_tools.tools.definition import ToolDefinition
from dsh_tools.tools.execution import ToolCall
from dsh_tools.tools.result import ErrorInfo, ToolFailure

TIMED_OUT = ErrorInfo("ToolTimeoutError", "TOOL_TIMEOUT")


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    context = create_context()
    await context.plugin(ToolsPlugin())
    await context.plugin(TimeoutPlugin())
    yield context
    await context.dispose()


def tool(body: Callable[[Any, Any], Any], timeout_ms: float, **more: Any) -> ToolDefinition:
    return ToolDefinition(
        name="slow",
        description="",
        parameters={"type": "object", "properties": {}},
        output={"schema": {"type": "string"}},
        execute=body,
        timeout_ms=timeout_ms,
        **more,
    )


@pytest.mark.field("field-069")
@pytest.mark.field("field-131")
@pytest.mark.field("field-132")
async def test_a_limit_on_a_body_that_cannot_be_stopped_is_refused_at_registration(ctx: Context):
    def body(args: Any, run: Any) -> str:
        raise AssertionError("never called")

    threads = threading.active_count()
    for _ in range(64):
        with pytest.raises(InvalidTimeoutError, match="cannot be kept") as refused:
            ctx.tools.register(tool(body, 100, isolation="thread"))
        assert "make the body async" in refused.value.message
        assert 'give it isolation="process"' in refused.value.message
    assert threading.active_count() == threads


@pytest.mark.field("field-069")
@pytest.mark.field("field-132")
async def test_a_blocking_body_in_a_process_is_killed_at_its_limit(no_leaks: None, tmp_path: Path):
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin(), {"max_processes": 2, "process_grace_ms": 50})
        await ctx.plugin(TimeoutPlugin())
        ctx.tools.register(tool(deaf, 1_500, isolation="process"))
        threads = threading.active_count()
        call = ToolCall("slow", {"folder": str(tmp_path)})
        results = await asyncio.gather(*(ctx.tools.execute(call) for _ in range(5)))
        assert threading.active_count() == threads
    for result in results:
        assert isinstance(result, ToolFailure)
        assert result.error.info == TIMED_OUT
        first, *_, last = content_text(result.content).splitlines()
        assert first == "Error: tool call timed out after 1500ms"
        # Which of them had got as far as running depends on the machine; none of them runs any more.
        assert last.startswith(("[the tool has stopped", "[the tool was not started"))


@pytest.mark.field("field-071")
async def test_after_a_timeout_the_coroutine_has_been_cancelled_and_is_over(ctx: Context):
    events: list[str] = []

    async def body(args: Any, run: Any) -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            events.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            events.append("cleaned up")
        return "late"

    ctx.tools.register(tool(body, 100))
    threads, tasks = threading.active_count(), len(asyncio.all_tasks())
    result = await ctx.tools.execute(ToolCall("slow"))
    assert isinstance(result, ToolFailure)
    assert result.error.info == TIMED_OUT
    assert events == ["cancelled", "cleaned up"]
    assert (threading.active_count(), len(asyncio.all_tasks())) == (threads, tasks)


@pytest.mark.field("field-122")
async def test_the_output_before_a_timeout_is_kept(ctx: Context):
    async def body(args: Any, run: Any) -> str:
        for line in ("compiling", "linking", "testing"):
            run.progress(line)
        await asyncio.sleep(30)
        return "late"

    ctx.tools.register(tool(body, 100))
    result = await ctx.tools.execute(ToolCall("slow"))
    assert isinstance(result, ToolFailure)
    assert result.error.info == TIMED_OUT
    assert "\ncompiling\nlinking\ntesting\n" in content_text(result.content)


@pytest.mark.field("field-133")
async def test_a_body_that_swallows_its_cancellation_has_timed_out_all_the_same(ctx: Context):
    ended: list[float] = []

    async def body(args: Any, run: Any) -> str:
        for _ in range(10):
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                pass
        ended.append(asyncio.get_running_loop().time())
        return "x"

    ctx.tools.register(tool(body, 200))
    result = await ctx.tools.execute(ToolCall("slow"))
    assert isinstance(result, ToolFailure)
    assert result.error.info == TIMED_OUT
    assert ended, "the call waits for its body"
    text = content_text(result.content)
    assert text.splitlines()[0] == "Error: tool call timed out after 200ms"
    assert "the tool has stopped" in text
