"""Field cases on tools of other servers and other libraries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp.client import Client
from tests.support.calls import app, make_tool
from tests.support.mcp import FakeServer, answer, listed, mount, until

from dsh_tools import standard
from dsh_tools.kernel import AbortController, Context
from dsh_tools.toolkits.mcp.server import Publisher
from dsh_tools.tools import EXECUTE, TOOL_PROGRESS, ErrorInfo, ToolCall, ToolFailure, ToolResult, ToolSuccess

INTEGER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ERAS = pytest.mark.parametrize("modern", [False, True])


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with app() as context:
        yield context


def names(ctx: Context) -> list[str]:
    return [schema.name for schema in ctx.tools.schemas()]


async def call(ctx: Context, name: str, arguments: Any = None, **more: Any) -> ToolResult:
    return await ctx.tools.execute(ToolCall(name, arguments or {}, **more))


@pytest.mark.field("field-043")
async def test_two_servers_with_the_same_tool_keep_both(ctx: Context):
    first, second = FakeServer(listed("send_email")), FakeServer(listed("send_email"))
    await mount(ctx, first, "server1")
    await mount(ctx, second, "server2")
    assert names(ctx) == ["mcp__server1__send_email", "mcp__server2__send_email"]
    await call(ctx, "mcp__server1__send_email", {"to": "a"})
    assert (len(first.calls), len(second.calls)) == (1, 0)


@pytest.mark.field("field-045")
async def test_prefixes_do_not_run_into_each_other_or_into_other_tools(ctx: Context, caplog: pytest.LogCaptureFixture):
    ctx.tools.register(make_tool("a_b_c"))
    await mount(ctx, FakeServer(listed("b_c")), "a")
    await mount(ctx, FakeServer(listed("c")), "a_b")
    assert names(ctx) == ["a_b_c", "mcp__a__b_c", "mcp__a_b__c"]
    # Where two names do come out the same, the later server is refused, and the log names the tool.
    await mount(ctx, FakeServer(listed("y__z")), "x")
    await mount(ctx, FakeServer(listed("z")), "x__y")
    assert names(ctx)[3:] == ["mcp__x__y__z"]
    assert 'MCP server "x__y": none of its tools is registered' in caplog.text
    assert "mcp__x__y__z" in caplog.text


@pytest.mark.field("field-075")
@ERAS
async def test_every_abandoned_call_is_cancelled_on_the_server(ctx: Context, modern: bool):
    async def slow(*_: Any) -> Any:
        await asyncio.sleep(60)

    fake = FakeServer(listed("slow"), handler=slow, modern=modern)
    await mount(ctx, fake, tool_call_timeout_ms=50)
    results = await asyncio.gather(*(call(ctx, "mcp__fake__slow") for _ in range(50)))
    assert {result.error.info.code for result in results if isinstance(result, ToolFailure)} == {"TOOL_TIMEOUT"}
    await until(lambda: fake.live == 0)
    assert fake.cancelled == 50


@pytest.mark.field("field-075")
@ERAS
async def test_every_aborted_call_is_cancelled_on_the_server(ctx: Context, modern: bool):
    async def slow(*_: Any) -> Any:
        await asyncio.sleep(60)

    fake = FakeServer(listed("slow"), handler=slow, modern=modern)
    await mount(ctx, fake)
    for _ in range(50):
        controller = AbortController()
        calling = asyncio.create_task(call(ctx, "mcp__fake__slow", signal=controller.signal))
        await until(lambda: fake.live == 1)
        controller.abort("deadline")
        assert (await calling).is_error
        await until(lambda: fake.live == 0)
    assert fake.cancelled == 50


@pytest.mark.field("field-076")
@ERAS
async def test_after_a_cancelled_call_the_next_one_is_answered_once(ctx: Context, modern: bool):
    async def handler(request: Any, params: Any) -> Any:
        if params.arguments["slow"]:
            await asyncio.sleep(60)
        return answer(f"answer {params.arguments['n']}")

    fake = FakeServer(listed("t"), handler=handler, modern=modern)
    await mount(ctx, fake)
    for number in range(10):
        task = asyncio.create_task(call(ctx, "mcp__fake__t", {"slow": True, "n": number}))
        await until(lambda: fake.live == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        result = await call(ctx, "mcp__fake__t", {"slow": False, "n": number})
        assert isinstance(result, ToolSuccess)
        assert result.value["content"][0]["text"] == f"answer {number}"
    await until(lambda: fake.live == 0)
    assert fake.connections == 1
    assert len(fake.calls) == 20


@pytest.mark.field("field-115")
@pytest.mark.parametrize("path", ["direct", "wrapped", "listed again"])
async def test_output_schemas_hold_on_every_path(ctx: Context, path: str):
    fake = FakeServer(listed("t", output_schema=INTEGER))
    fake.raw = lambda kind, result: {"content": [], "structuredContent": {"n": "x"}} if kind == "call" else result
    await mount(ctx, fake)
    if path == "wrapped":

        async def wrap(execution: Any, next: Any) -> Any:
            return await next()

        ctx.on(EXECUTE, wrap)
    if path == "listed again":
        lists = fake.lists
        await fake.changed()
        await until(lambda: fake.lists > lists)
    result = await call(ctx, "mcp__fake__t")
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("ToolOutputError", "INVALID_TOOL_OUTPUT")


@pytest.mark.field("field-116")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_structured_content_is_demanded_and_survives_a_proxy(no_leaks: None, mode: str):
    fake = FakeServer(listed("t", output_schema=INTEGER))
    text = {"content": [{"type": "text", "text": "three"}]}
    async with standard() as ctx:
        await mount(ctx, fake)
        publisher = Publisher(ctx)
        try:
            async with Client(publisher.server, mode=mode) as client:
                fake.raw = lambda kind, result: text if kind == "call" else result
                missing = await client.call_tool("mcp__fake__t", {})
                assert missing.is_error
                assert "structuredContent" in missing.content[0].text  # type: ignore[union-attr]
                fake.raw = lambda kind, result: {**text, "structuredContent": {"n": 3}} if kind == "call" else result
                there = await client.call_tool("mcp__fake__t", {})
                assert there.structured_content == {"n": 3}
                assert there.content[0].text == "three"  # type: ignore[union-attr]
        finally:
            await publisher.close()


@pytest.mark.field("field-123")
async def test_progress_comes_in_order_with_its_call_and_ends_with_it(ctx: Context):

    late: list[Any] = []

    async def work(request: Any, params: Any) -> Any:
        for value in (10, 50):
            await request.session.report_progress(value, 100)
        late.append(request.session)
        await asyncio.sleep(0.02)
        return answer("done")

    seen: list[tuple[str, Any]] = []
    ctx.on(TOOL_PROGRESS, lambda execution, value: seen.append((execution.call_id, value["progress"])))
    await mount(ctx, FakeServer(listed("t"), handler=work))
    result = await call(ctx, "mcp__fake__t", call_id="one")
    await late[0].report_progress(99, 100)
    await asyncio.sleep(0.02)
    assert seen == [("one", 10), ("one", 50)]
    assert isinstance(result, ToolSuccess)
    assert "10" not in result.value["content"][0]["text"]
