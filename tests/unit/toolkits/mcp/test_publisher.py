"""Our tools as an MCP server, through the official SDK's client in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NotRequired, TypedDict

import httpx
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from tests.support.mcp import FakeServer, listed, mount, until

from dsh_tools import standard
from dsh_tools.content import TextBlock
from dsh_tools.errors import ConfigError
from dsh_tools.kernel import Context
from dsh_tools.toolkits.mcp.server import HttpConfig, Publisher, serve_http
from dsh_tools.tools import POST_EXECUTE, PRE_EXECUTE, Accept, Ask, define_tool, tool

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


class Tree(TypedDict):
    """A recursive value."""

    name: str
    children: NotRequired[list[Tree]]


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def tree() -> Tree:
    """Return a tree."""
    return {"name": "root", "children": [{"name": "leaf"}]}


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with standard() as context:
        context.tools.register(add)
        context.tools.register(tree)
        yield context


@asynccontextmanager
async def published(ctx: Context, mode: str = "legacy", **client: Any) -> AsyncIterator[Client]:
    """A client of our server, both in this process."""
    publisher = Publisher(ctx)
    try:
        async with Client(publisher.server, mode=mode, **client) as connected:
            yield connected
    finally:
        await publisher.close()


def texts(result: types.CallToolResult) -> str:
    return "\n".join(getattr(block, "text", f"<{block.type}>") for block in result.content)


@ERAS
async def test_tools_are_listed_and_called_with_structured_results(ctx: Context, mode: str):
    async with published(ctx, mode) as client:
        listing = {entry.name: entry for entry in (await client.list_tools()).tools}
        assert listing["add"].description == "Add two numbers."
        assert listing["add"].input_schema["required"] == ["a", "b"]
        assert listing["add"].output_schema is not None
        result = await client.call_tool("add", {"a": 2, "b": 3})
        assert (texts(result), result.structured_content, result.is_error) == ("5", {"result": 5}, False)
        # The SDK's client checks it against the schema that we list, references included.
        result = await client.call_tool("tree", {})
        found = result.structured_content
        assert found.get("result", found) == {"name": "root", "children": [{"name": "leaf"}]}


@ERAS
async def test_failures_are_results_that_a_model_can_read(ctx: Context, mode: str):
    async with published(ctx, mode) as client:
        result = await client.call_tool("add", {"a": "2", "b": 3})
        assert result.is_error
        assert "invalid arguments" in texts(result)
        result = await client.call_tool("nothing", {})
        assert result.is_error
        assert 'unknown tool "nothing"' in texts(result)


@ERAS
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (types.ElicitResult(action="accept", content={"allow": True}), "5"),
        (types.ElicitResult(action="accept", content={"allow": False, "comment": "not today"}), "not today"),
        (types.ElicitResult(action="accept", content=None), "rejected"),
        (types.ElicitResult(action="decline"), "the user rejected"),
        (types.ElicitResult(action="cancel"), "was cancelled"),
        (None, "no approval channel is available"),
    ],
)
async def test_approval_is_asked_through_the_client(
    ctx: Context, mode: str, answer: types.ElicitResult | None, outcome: str
):
    ctx.on(PRE_EXECUTE, lambda execution, next: Ask("sums are expensive"))
    asked: list[str] = []

    async def elicit(_: Any, params: Any) -> Any:
        asked.append(params.message)
        return answer

    callbacks = {} if answer is None else {"elicitation_callback": elicit}
    async with published(ctx, mode, **callbacks) as client:
        result = await client.call_tool("add", {"a": 2, "b": 3})
        assert outcome in texts(result)
        assert result.is_error == (outcome != "5")
    if answer is not None:
        assert len(asked) == 1
        assert "sums are expensive" in asked[0]
        assert '"b": 3' in asked[0]


async def test_an_answer_belongs_to_one_call(ctx: Context):
    ctx.on(PRE_EXECUTE, lambda execution, next: Ask("sure?"))

    async def elicit(*_: Any) -> Any:
        return types.ElicitResult(action="accept", content={"allow": True})

    async with published(ctx, "auto", elicitation_callback=elicit) as client:
        first = await client.session.call_tool("add", {"a": 1, "b": 1}, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        yes: Any = {"approval": types.ElicitResult(action="accept", content={"allow": True})}
        state = first.request_state
        for name, arguments, given in (
            ("add", {"a": 1, "b": 2}, state),
            ("tree", {"a": 1, "b": 1}, state),
            ("add", {"a": 1, "b": 1}, "forged"),
        ):
            with pytest.raises(MCPError, match="no call waits"):
                await client.session.call_tool(name, arguments, input_responses=yes, request_state=given)
        done = await client.session.call_tool("add", {"a": 1, "b": 1}, input_responses=yes, request_state=state)
        assert texts(done) == "2"
        with pytest.raises(MCPError, match="no call waits"):
            await client.session.call_tool("add", {"a": 1, "b": 1}, input_responses=yes, request_state=state)
        # One that is never answered ends with the server.
        await client.session.call_tool("add", {"a": 1, "b": 1}, allow_input_required=True)


@ERAS
async def test_cancelling_a_request_stops_the_tool(ctx: Context, mode: str):
    ended = asyncio.Event()
    started = asyncio.Event()

    @tool
    async def slow() -> str:
        """Take long."""
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            ended.set()
        return "done"

    ctx.tools.register(slow)
    async with published(ctx, mode) as client:
        calling = asyncio.create_task(client.call_tool("slow", {}))
        await started.wait()
        calling.cancel()
        await asyncio.wait({calling})
        async with asyncio.timeout(2):
            await ended.wait()
        assert texts(await client.call_tool("add", {"a": 1, "b": 1})) == "2"


@ERAS
async def test_progress_is_handed_on(ctx: Context, mode: str):
    async def body(args: Any, run: Any) -> str:
        run.progress({"progress": 1, "total": 2, "message": "half"})
        await asyncio.sleep(0.02)
        run.progress("a line of output")
        await asyncio.sleep(0.02)
        return "done"

    ctx.tools.register(define_tool(name="report", description="", parameters={}, output=str, execute=body))
    seen: list[tuple[Any, ...]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with published(ctx, mode) as client:
        await client.call_tool("report", {}, progress_callback=on_progress)
        await until(lambda: len(seen) == 2)
    assert seen[0] == (1, 2, "half")
    assert seen[1][2] == "a line of output"


async def test_clients_are_told_of_changed_tools(ctx: Context):
    changes: list[Any] = []

    async def on_message(message: Any) -> None:
        changes.append(message)

    async with published(ctx, message_handler=on_message) as client:
        await client.list_tools()
        disposer = ctx.tools.register(_late())
        await until(lambda: any(isinstance(item, types.ToolListChangedNotification) for item in changes))
        assert "late" in [entry.name for entry in (await client.list_tools()).tools]
        disposer()


async def test_clients_of_the_newer_protocol_subscribe_to_changes(ctx: Context):
    async with published(ctx, "auto", cache=None) as client, client.listen(tools_list_changed=True) as events:
        ctx.tools.register(_late())
        async with asyncio.timeout(2):
            await anext(aiter(events))
        assert "late" in [entry.name for entry in (await client.list_tools()).tools]


def _late() -> Any:
    @tool
    async def late() -> str:
        """Come late."""
        return "hello"

    return late


@ERAS
async def test_restrictions_and_policies_hold_for_clients(ctx: Context, mode: str):
    def shout(review: Any, next: Any) -> Accept:
        return Accept(content=[TextBlock("redacted")])

    ctx.on(POST_EXECUTE, shout)
    async with published(ctx, mode) as client:
        assert texts(await client.call_tool("add", {"a": 1, "b": 1})) == "redacted"


@ERAS
async def test_tools_of_other_servers_pass_through_unchanged(ctx: Context, mode: str):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    blocks = [
        {"type": "text", "text": "one", "annotations": {"audience": ["user"]}},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    ]
    fake = FakeServer(listed("t", title="Tee", output_schema=schema, annotations={"readOnlyHint": True}))
    fake.raw = lambda kind, result: (
        {"content": blocks, "structuredContent": {"n": 1, "extra": [None]}} if kind == "call" else result
    )
    await mount(ctx, fake)
    async with published(ctx, mode) as client:
        (entry,) = [entry for entry in (await client.list_tools()).tools if entry.name == "mcp__fake__t"]
        assert (entry.title, entry.output_schema) == ("Tee", schema)
        assert entry.annotations is not None
        assert entry.annotations.read_only_hint is True
        result = await client.call_tool("mcp__fake__t", {})
        assert result.structured_content == {"n": 1, "extra": [None]}
        assert [block.model_dump(by_alias=True, exclude_none=True) for block in result.content] == blocks


async def test_http_is_for_this_machine_and_expected_names_only(ctx: Context):
    publisher = Publisher(ctx)
    async with serve_http(publisher) as url, httpx.AsyncClient() as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        sent = {"accept": "application/json, text/event-stream"}
        evil = await http.post(url, json=body, headers={**sent, "host": "evil.example:80"})
        assert evil.status_code == 421
        evil = await http.post(url, json=body, headers={**sent, "origin": "http://evil.example"})
        assert evil.status_code == 403
        async with Client(url) as client:
            assert texts(await client.call_tool("add", {"a": 1, "b": 1})) == "2"


async def test_http_beyond_this_machine_needs_a_token(ctx: Context):
    publisher = Publisher(ctx)
    with pytest.raises(ConfigError, match="a token is needed"):
        async with serve_http(publisher, HttpConfig(host="0.0.0.0")):
            pass
    async with serve_http(publisher, HttpConfig(token="secret")) as url, httpx.AsyncClient() as http:
        assert (await http.post(url, json={})).status_code == 401
        assert (await http.post(url, json={}, headers={"authorization": "Bearer wrong"})).status_code == 401
        assert (await http.post(url, json={}, headers={"authorization": "Bearer secret"})).status_code != 401


async def test_a_port_that_is_taken_is_said(ctx: Context):
    first, second = Publisher(ctx), Publisher(ctx)
    async with serve_http(first) as url:
        port = int(url.split(":")[2].split("/")[0])
        with pytest.raises(ConfigError, match="cannot listen on 127.0.0.1"):
            async with serve_http(second, HttpConfig(port=port)):
                pass
    await second.close()
