"""A server's tools come and go with the connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.calls import app, make_tool
from tests.support.mcp import FakeServer, answer, listed, mount, until

from dsh_tools.content import content_text
from dsh_tools.errors import ServiceConflictError
from dsh_tools.kernel import AbortController, Context
from dsh_tools.toolkits.mcp import McpError, McpPlugin
from dsh_tools.tools import PRE_EXECUTE, TOOL_PROGRESS, Deny, ErrorInfo, ToolCall, ToolFailure, ToolResult, ToolSuccess

QUICK = {"initial_delay_ms": 5, "max_delay_ms": 20, "max_attempts": 4}


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with app() as context:
        yield context


def names(ctx: Context) -> list[str]:
    return [schema.name for schema in ctx.tools.schemas()]


async def call(ctx: Context, name: str, arguments: Any = None, **more: Any) -> ToolResult:
    return await ctx.tools.execute(ToolCall(name, arguments or {}, **more))


async def test_all_pages_are_read_before_anything_is_registered(ctx: Context):
    # HOST-232
    fake = FakeServer(*(listed(f"t{i}") for i in range(7)), page=3)
    await mount(ctx, fake)
    assert names(ctx) == [f"mcp__fake__t{i}" for i in range(7)]
    assert fake.lists == 3


async def test_pages_in_a_circle_and_endless_lists_are_refused(ctx: Context, caplog: pytest.LogCaptureFixture):
    # HOST-232
    fake = FakeServer(listed("a"), listed("b"))
    fake.raw = lambda kind, result: {**result, "nextCursor": "1"} if kind == "list" else result
    await mount(ctx, fake, reconnect={"enabled": False})
    assert names(ctx) == []
    assert "has no end" in caplog.text
    many = FakeServer(listed("a"), listed("b"))
    await mount(ctx, many, "many", max_tools=1, reconnect={"enabled": False})
    assert "more than 1 tools" in caplog.text


async def test_a_call_goes_to_the_server_under_its_own_name(ctx: Context):
    # HOST-231, HOST-236
    fake = FakeServer(listed("do.it", description="Does it."))
    await mount(ctx, fake)
    (name,) = names(ctx)
    assert name.startswith("mcp__fake__do_it_")
    result = await call(ctx, name, {"x": 2**60})
    assert isinstance(result, ToolSuccess)
    assert result.value == {"content": [{"type": "text", "text": "ok"}]}
    assert content_text(result.content) == "ok"
    assert fake.calls == [("do.it", {"x": 2**60})]


async def test_arguments_are_checked_before_the_server_sees_them(ctx: Context):
    # HOST-235, D8
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    fake = FakeServer(listed("t", input_schema=schema))
    await mount(ctx, fake)
    result = await call(ctx, "mcp__fake__t", {"n": "3"})
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("ToolArgsError", "INVALID_ARGS")
    assert fake.calls == []


async def test_tools_that_are_invalid_alone_do_not_hide_the_others(ctx: Context, caplog: pytest.LogCaptureFixture):
    # HOST-235, D32
    fake = FakeServer(listed("good"), listed("odd"))

    def spoil(kind: str, result: dict[str, Any]) -> dict[str, Any]:
        if kind == "list":
            result["tools"][1]["inputSchema"] = {"type": "object", "properties": {"a": 5}}
            result["tools"][1]["annotations"] = "none"
        return result

    fake.raw = spoil
    await mount(ctx, fake)
    assert names(ctx) == ["mcp__fake__good", "mcp__fake__odd"]
    assert "its parameters are not checked" in caplog.text


@pytest.mark.parametrize("structured", [{"n": "x"}, None])
async def test_structured_content_must_be_there_and_fit(ctx: Context, structured: Any):
    # HOST-236
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    fake = FakeServer(listed("t", output_schema=schema))
    more = {} if structured is None else {"structuredContent": structured}
    fake.raw = lambda kind, result: {"content": [], **more} if kind == "call" else result
    await mount(ctx, fake)
    result = await call(ctx, "mcp__fake__t")
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("ToolOutputError", "INVALID_TOOL_OUTPUT")


async def test_errors_of_the_tool_are_failures_with_its_text(ctx: Context):
    # HOST-237
    async def fail(*_: Any) -> Any:
        return answer("disk full", is_error=True)

    await mount(ctx, FakeServer(listed("t"), handler=fail))
    result = await call(ctx, "mcp__fake__t")
    assert isinstance(result, ToolFailure)
    assert result.error.message == "disk full"


async def test_tools_that_must_run_as_tasks_are_listed_and_fail(ctx: Context):
    # HOST-237
    fake = FakeServer(listed("t", execution={"taskSupport": "required"}))
    await mount(ctx, fake)
    result = await call(ctx, "mcp__fake__t")
    assert isinstance(result, ToolFailure)
    assert "only be run as a task" in result.error.message
    assert fake.calls == []


async def test_answers_that_are_none(ctx: Context):
    # HOST-237
    fake = FakeServer(listed("t"))
    fake.raw = lambda kind, result: {"toolResult": [1]} if kind == "call" else result
    await mount(ctx, fake)
    assert content_text((await call(ctx, "mcp__fake__t")).content) == "[1]"
    fake.raw = lambda kind, result: {"resultType": "surprise"} if kind == "call" else result
    result = await call(ctx, "mcp__fake__t")
    assert isinstance(result, ToolFailure)
    assert "no result of a tool" in result.error.message


@pytest.mark.parametrize("modern", [False, True])
async def test_a_changed_list_replaces_the_old_one(ctx: Context, modern: bool):
    # HOST-233, 234
    fake = FakeServer(listed("a"), listed("b"), modern=modern)
    await mount(ctx, fake)
    await asyncio.sleep(0.05)
    fake.tools = [listed("b"), listed("c")]
    await fake.changed()
    await until(lambda: names(ctx) == ["mcp__fake__b", "mcp__fake__c"])
    # Many changes in a row: the last list wins.
    for count in range(20):
        fake.tools = [listed(f"x{count}")]
        await fake.changed()
    await until(lambda: names(ctx) == ["mcp__fake__x19"])


async def test_a_list_that_cannot_be_fetched_or_used_keeps_the_old_one(ctx: Context, caplog: pytest.LogCaptureFixture):
    # HOST-232
    fake = FakeServer(listed("a"))
    await mount(ctx, fake)
    fake.list_error = "busy"
    await fake.changed()
    await until(lambda: "busy" in caplog.text)
    fake.list_error, fake.tools = None, [listed("twin"), listed("twin")]
    await fake.changed()
    await until(lambda: 'which are both "mcp__fake__twin"' in caplog.text)
    assert names(ctx) == ["mcp__fake__a"]
    assert isinstance(await call(ctx, "mcp__fake__a"), ToolSuccess)


async def test_a_conflict_in_the_registry_leaves_the_server_without_tools(
    ctx: Context, caplog: pytest.LogCaptureFixture
):
    # HOST-233
    fake = FakeServer(listed("a"))
    await mount(ctx, fake)
    ctx.tools.register(make_tool("mcp__fake__c"))
    fake.tools = [listed("b"), listed("c")]
    await fake.changed()
    await until(lambda: "none of its tools is registered" in caplog.text)
    assert names(ctx) == ["mcp__fake__c"]


async def test_a_server_name_is_used_once(ctx: Context):
    # HOST-230
    first = await mount(ctx, FakeServer(listed("a")))
    with pytest.raises(ServiceConflictError):
        await mount(ctx, FakeServer(listed("b")))
    assert names(ctx) == ["mcp__fake__a"]
    await first.dispose()
    await mount(ctx, FakeServer(listed("b")))
    assert names(ctx) == ["mcp__fake__b"]


async def test_a_failed_start_goes_on_trying(ctx: Context, caplog: pytest.LogCaptureFixture):
    # HOST-240
    fake = FakeServer(listed("a"))
    fake.refuse = True
    await mount(ctx, fake, reconnect=QUICK)
    assert names(ctx) == []
    assert "cannot connect: ConnectionRefusedError: nobody listens" in caplog.text
    fake.refuse = False
    await until(lambda: names(ctx) == ["mcp__fake__a"])


async def test_a_failed_start_can_fail_the_loading(ctx: Context):
    # HOST-240
    fake = FakeServer(listed("a"))
    fake.refuse = True
    with pytest.raises(McpError, match="nobody listens"):
        await mount(ctx, fake, fail_on_startup_error=True)
    assert fake.connections == 1


async def test_a_lost_connection_fails_calls_and_comes_back(ctx: Context):
    # HOST-241
    started = asyncio.Event()

    async def hang(*_: Any) -> Any:
        started.set()
        await asyncio.sleep(60)

    fake = FakeServer(listed("a"), handler=hang)
    await mount(ctx, fake, reconnect={**QUICK, "initial_delay_ms": 100, "max_delay_ms": 100})
    running = asyncio.create_task(call(ctx, "mcp__fake__a"))
    await started.wait()
    await fake.drop()
    result = await running
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("McpDisconnectedError", "MCP_DISCONNECTED")
    assert "may or may not have run" in result.error.message
    assert names(ctx) == ["mcp__fake__a"]
    result = await call(ctx, "mcp__fake__a")
    assert isinstance(result, ToolFailure)
    assert "not connected now" in result.error.message
    fake.handler = None
    client: Any = ctx.get("mcp:fake")
    await until(lambda: client.is_connected)
    assert isinstance(await call(ctx, "mcp__fake__a"), ToolSuccess)
    assert fake.connections == 2


async def test_after_too_many_failures_the_tools_go(ctx: Context, caplog: pytest.LogCaptureFixture):
    # HOST-241
    fake = FakeServer(listed("a"))
    await mount(ctx, fake, reconnect=QUICK)
    fake.refuse = True
    await fake.drop()
    await until(lambda: names(ctx) == [])
    # The loss, then as many attempts as allowed.
    assert fake.connections == 1 + QUICK["max_attempts"]
    assert "its tools are gone" in caplog.text
    await asyncio.sleep(0.1)
    assert fake.connections == 1 + QUICK["max_attempts"]


async def test_brief_successes_do_not_reset_the_count(ctx: Context):
    # HOST-241
    fake = FakeServer(listed("a"))
    await mount(ctx, fake, reconnect={"initial_delay_ms": 1, "max_delay_ms": 60_000, "max_attempts": 3})
    client: Any = ctx.get("mcp:fake")
    for _ in range(3):
        await until(lambda: client.is_connected)
        await fake.drop()
        await until(lambda: not client.is_connected)
    await until(lambda: client.is_connected)
    await fake.drop()
    await until(lambda: names(ctx) == [])
    assert fake.connections == 4


async def test_a_connection_that_lasts_resets_the_count(ctx: Context):
    # HOST-241
    fake = FakeServer(listed("a"))
    await mount(ctx, fake, reconnect={"initial_delay_ms": 1, "max_delay_ms": 30, "max_attempts": 1})
    client: Any = ctx.get("mcp:fake")
    for _ in range(4):
        await until(lambda: client.is_connected)
        await asyncio.sleep(0.05)
        await fake.drop()
        await until(lambda: not client.is_connected)
    await until(lambda: client.is_connected)
    assert names(ctx) == ["mcp__fake__a"]


async def test_no_new_connection_before_the_old_one_is_closed(ctx: Context, monkeypatch: pytest.MonkeyPatch):
    # HOST-242
    fake = FakeServer(listed("a"))
    await mount(ctx, fake, reconnect=QUICK)
    fake.closing_takes = 0.2
    await fake.drop()
    await asyncio.sleep(0.1)
    assert fake.connections == 1
    await until(lambda: fake.connections == 2)


async def test_a_close_that_takes_too_long_ends_the_attempts(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    # HOST-242
    monkeypatch.setattr("dsh_tools.toolkits.mcp.client._CLOSE_LIMIT", 0.05)
    fake = FakeServer(listed("a"))
    await mount(ctx, fake, reconnect=QUICK)
    fake.closing_takes = 0.1
    await fake.drop()
    await until(lambda: names(ctx) == [])
    assert "closing it took" in caplog.text
    assert fake.connections == 1


@pytest.mark.parametrize("moment", ["connected", "waiting", "calling", "closing"])
async def test_disposal_stops_whatever_goes_on_and_is_silent(
    ctx: Context, moment: str, caplog: pytest.LogCaptureFixture
):
    # HOST-243
    async def hang(*_: Any) -> Any:
        await asyncio.sleep(60)

    fake = FakeServer(listed("a"), handler=hang)
    running: asyncio.Task[ToolResult] | None = None
    fiber = await mount(ctx, fake, reconnect={"initial_delay_ms": 50, "max_delay_ms": 50})
    if moment == "calling":
        running = asyncio.create_task(call(ctx, "mcp__fake__a"))
        await until(lambda: fake.live)
    if moment == "closing":
        fake.closing_takes = 0.1
    if moment in ("waiting", "closing"):
        await fake.drop()
        client: Any = ctx.get("mcp:fake")
        await until(lambda: not client.is_connected)
    caplog.clear()
    connections = fake.connections
    await fiber.dispose()
    assert names(ctx) == []
    await asyncio.sleep(0.1)
    assert fake.connections == connections
    assert [
        record for record in caplog.records if record.levelno >= logging.WARNING and record.name == "dsh_tools"
    ] == []
    if running is not None:
        assert isinstance(await running, ToolFailure)
        assert fake.live == 0


async def test_disposal_ends_an_attempt_to_connect(ctx: Context):
    # HOST-243
    fake = FakeServer(listed("a"))
    fake.mute = True
    fiber = ctx.plugin(McpPlugin(fake.connect), {"server_name": "fake", "transport": "stdio", "command": "unused"})
    await until(lambda: fake.lists)
    await fiber.dispose()
    assert names(ctx) == []


async def test_annotations_count_only_where_they_are_trusted(ctx: Context):
    # HOST-244, D18
    tool = listed("a", annotations={"readOnlyHint": True})
    await mount(ctx, FakeServer(tool), "strange")
    await mount(ctx, FakeServer(tool, listed("b")), "known", trust_annotations=True)
    modes = {name: ctx.tools.execution_mode(ToolCall(name, {})) for name in names(ctx)}
    assert modes == {"mcp__strange__a": "exclusive", "mcp__known__a": "parallel", "mcp__known__b": "exclusive"}
    assert ctx.tools.get("mcp__known__a").idempotent
    assert all(ctx.tools.get(name).timeout_ms is None for name in names(ctx))


@pytest.mark.parametrize(
    ("wanted", "trusted", "asked"),
    [
        ("nothing", True, []),
        ("destructive", True, ["plain"]),
        ("changes", True, ["adds", "plain"]),
        ("everything", True, ["reads", "adds", "plain"]),
        ("destructive", False, ["reads", "adds", "plain"]),
    ],
)
async def test_calls_are_put_to_a_person_by_what_they_may_do(
    ctx: Context, wanted: str, trusted: bool, asked: list[str]
):
    # HOST-244, D18
    fake = FakeServer(
        listed("reads", annotations={"readOnlyHint": True}),
        listed("adds", annotations={"destructiveHint": False}),
        listed("plain"),
    )
    await mount(ctx, fake, trust_annotations=trusted, ask_before=wanted)
    refused = [name for name in ("reads", "adds", "plain") if (await call(ctx, f"mcp__fake__{name}")).is_error]
    assert refused == asked


async def test_a_denial_by_another_rule_is_not_turned_into_a_question(ctx: Context):
    # HOST-244
    await mount(ctx, FakeServer(listed("a")), ask_before="everything")
    ctx.on(PRE_EXECUTE, lambda execution, next: Deny("never"))
    result = await call(ctx, "mcp__fake__a")
    assert isinstance(result, ToolFailure)
    assert result.error.message == "never"


async def test_progress_reaches_observers(ctx: Context):
    async def slow(request: Any, params: Any) -> Any:
        await request.session.report_progress(1, 2, "half")
        await request.session.report_progress(2, 2)
        await asyncio.sleep(0.05)
        return answer()

    await mount(ctx, FakeServer(listed("a"), handler=slow))
    seen: list[object] = []
    ctx.on(TOOL_PROGRESS, lambda execution, value: seen.append(value))
    await call(ctx, "mcp__fake__a")
    assert seen == [{"progress": 1, "total": 2, "message": "half"}, {"progress": 2, "total": 2}]


async def test_a_server_that_takes_too_long_is_told_to_stop(ctx: Context):
    # HOST-244
    async def hang(*_: Any) -> Any:
        await asyncio.sleep(60)

    fake = FakeServer(listed("a"), handler=hang)
    await mount(ctx, fake, tool_call_timeout_ms=50)
    result = await call(ctx, "mcp__fake__a")
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("ToolTimeoutError", "TOOL_TIMEOUT")
    await until(lambda: fake.live == 0)
    assert fake.cancelled == 1


@pytest.mark.parametrize("modern", [False, True])
async def test_an_abort_reaches_the_server(ctx: Context, modern: bool):
    async def hang(*_: Any) -> Any:
        await asyncio.sleep(60)

    fake = FakeServer(listed("a"), handler=hang, modern=modern)
    await mount(ctx, fake)
    controller = AbortController()
    running = asyncio.create_task(call(ctx, "mcp__fake__a", signal=controller.signal))
    await until(lambda: fake.live)
    controller.abort("enough")
    result = await running
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("AbortError", "ABORTED")
    await until(lambda: fake.cancelled == 1)
