"""Our client against servers that nobody here wrote."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.calls import app
from tests.support.mcp import until
from tests.support.npm import npm_program

from dsh_tools.content import ImageBlock, content_text
from dsh_tools.kernel import AbortController, Context
from dsh_tools.toolkits.mcp import McpPlugin
from dsh_tools.tools import TOOL_PROGRESS, ErrorInfo, ToolCall, ToolFailure, ToolResult, ToolSuccess

SDK_SERVER = str(Path(__file__).with_name("sdk_server.py"))
NODE = pytest.mark.needs("node", "npm")


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with app() as context:
        yield context


async def call(ctx: Context, name: str, arguments: Any = None, **more: Any) -> ToolResult:
    return await ctx.tools.execute(ToolCall(name, arguments or {}, **more))


async def mount_stdio(ctx: Context, name: str, *command: str, **more: Any) -> Any:
    program, *args = command
    settings = {"server_name": name, "transport": "stdio", "command": program, "args": args, **more}
    fiber = ctx.plugin(McpPlugin(), {"fail_on_startup_error": True, **settings})
    await fiber
    return fiber


async def mount_http(ctx: Context, name: str, url: str, **more: Any) -> Any:
    settings = {"server_name": name, "transport": "streamable-http", "url": url, "fail_on_startup_error": True, **more}
    fiber = ctx.plugin(McpPlugin(), settings)
    await fiber
    return fiber


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


@contextlib.asynccontextmanager
async def running(*command: str, port: int, **env: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A server process that listens on a port, for the length of a block."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, **env},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except OSError:
                    await asyncio.sleep(0.05)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def check_everything(ctx: Context) -> None:
    result = await call(ctx, "mcp__every__echo", {"message": "hello"})
    assert content_text(result.content) == "Echo: hello"
    result = await call(ctx, "mcp__every__get-structured-content", {"location": "Chicago"})
    assert isinstance(result, ToolSuccess)
    assert set(result.value["structuredContent"]) == {"temperature", "conditions", "humidity"}
    result = await call(ctx, "mcp__every__get-tiny-image")
    assert [type(block).__name__ for block in result.content] == ["TextBlock", "ImageBlock", "TextBlock"]
    assert isinstance(result.content[1], ImageBlock)
    result = await call(ctx, "mcp__every__get-resource-reference", {"resourceType": "Text", "resourceId": 1})
    assert "[resource demo://resource/dynamic/text/1]" in content_text(result.content)
    result = await call(ctx, "mcp__every__get-resource-links", {"count": 2})
    assert "demo://resource/dynamic/" in content_text(result.content)
    result = await call(ctx, "mcp__every__get-sum", {"a": 1})
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("ToolArgsError", "INVALID_ARGS")
    seen: list[Any] = []
    observer = ctx.on(TOOL_PROGRESS, lambda execution, value: seen.append(value["progress"]))
    result = await call(ctx, "mcp__every__trigger-long-running-operation", {"duration": 0.4, "steps": 2})
    observer()
    assert isinstance(result, ToolSuccess)
    assert seen == [1, 2]
    controller = AbortController()
    slow = call(
        ctx, "mcp__every__trigger-long-running-operation", {"duration": 30, "steps": 3}, signal=controller.signal
    )
    task = asyncio.create_task(slow)
    await asyncio.sleep(0.1)
    controller.abort()
    assert (await task).is_error
    result = await call(ctx, "mcp__every__echo", {"message": "still there"})
    assert content_text(result.content) == "Echo: still there"


@NODE
async def test_everything_over_stdio(ctx: Context):
    await mount_stdio(ctx, "every", "node", npm_program("mcp-server-everything"))
    await check_everything(ctx)


@NODE
async def test_everything_over_http(ctx: Context):
    port = free_port()
    program = npm_program("mcp-server-everything")
    async with running("node", program, "streamableHttp", port=port, PORT=str(port)):
        fiber = await mount_http(ctx, "every", f"http://127.0.0.1:{port}/mcp")
        await check_everything(ctx)
        await fiber.dispose()


@NODE
async def test_the_file_system_server(ctx: Context, tmp_path: Path):
    await mount_stdio(ctx, "fs", "node", npm_program("mcp-server-filesystem"), str(tmp_path))
    written = await call(ctx, "mcp__fs__write_file", {"path": str(tmp_path / "a.txt"), "content": "héllo\n"})
    assert isinstance(written, ToolSuccess), written
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "héllo\n"
    read = await call(ctx, "mcp__fs__read_text_file", {"path": str(tmp_path / "a.txt")})
    assert content_text(read.content) == "héllo\n"
    refused = await call(ctx, "mcp__fs__read_text_file", {"path": "/etc/passwd"})
    assert isinstance(refused, ToolFailure)
    assert "denied" in refused.error.message


async def check_calculator(ctx: Context) -> None:
    result = await call(ctx, "mcp__calc__divide", {"dividend": 17, "divisor": 5})
    assert isinstance(result, ToolSuccess)
    assert result.value["structuredContent"] == {"quotient": 3, "remainder": 2}
    result = await call(ctx, "mcp__calc__divide", {"dividend": 17, "divisor": 0})
    assert isinstance(result, ToolFailure)
    assert "division" in result.error.message or "Error executing tool" in result.error.message
    seen: list[Any] = []
    observer = ctx.on(TOOL_PROGRESS, lambda execution, value: seen.append(value["progress"]))
    assert isinstance(await call(ctx, "mcp__calc__count", {"to": 3}), ToolSuccess)
    observer()
    assert seen == [1, 2, 3]


async def test_the_official_sdk_over_stdio(ctx: Context):
    await mount_stdio(ctx, "calc", sys.executable, SDK_SERVER)
    await check_calculator(ctx)


async def test_the_official_sdk_over_http_and_its_restart(ctx: Context):
    # HOST-241
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    quick = {"initial_delay_ms": 50, "max_delay_ms": 200, "max_attempts": 100}
    async with running(sys.executable, SDK_SERVER, str(port), port=port):
        await mount_http(ctx, "calc", url, reconnect=quick)
        await check_calculator(ctx)
    result = await call(ctx, "mcp__calc__divide", {"dividend": 1, "divisor": 1})
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("McpDisconnectedError", "MCP_DISCONNECTED")
    async with running(sys.executable, SDK_SERVER, str(port), port=port):
        client: Any = ctx.get("mcp:calc")
        await until(lambda: client.is_connected, 20)
        await check_calculator(ctx)
        await ctx.dispose()


@pytest.mark.parametrize("how", ["crash", "kill"])
async def test_a_server_that_dies_in_the_middle_of_a_call(ctx: Context, how: str):
    # HOST-241, 242
    quick = {"initial_delay_ms": 20, "max_delay_ms": 100}
    await mount_stdio(ctx, "calc", sys.executable, SDK_SERVER, reconnect=quick)
    (first,) = psutil.Process().children()
    if how == "crash":
        result = await call(ctx, "mcp__calc__crash")
    else:
        counting = asyncio.create_task(call(ctx, "mcp__calc__count", {"to": 1000}))
        await asyncio.sleep(0.2)
        os.kill(first.pid, signal.SIGKILL)
        result = await counting
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("McpDisconnectedError", "MCP_DISCONNECTED")
    client: Any = ctx.get("mcp:calc")
    await until(lambda: client.is_connected, 20)
    await check_calculator(ctx)
    assert not first.is_running()


async def test_a_program_that_is_not_there_or_speaks_no_protocol(ctx: Context, caplog: pytest.LogCaptureFixture):
    # HOST-240
    off = {"reconnect": {"enabled": False}, "fail_on_startup_error": False}
    await mount_stdio(ctx, "missing", "no-such-program-anywhere", **off)
    assert "No such file" in caplog.text
    await mount_stdio(ctx, "mute", sys.executable, "-c", "print('hello'); exit('no licence')", **off)
    assert 'MCP server "mute": cannot connect' in caplog.text
    assert "the server's last words: no licence" in caplog.text
    assert ctx.tools.schemas() == []


async def test_the_environment_is_scrubbed(ctx: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    # HOST-244
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    script = tmp_path / "env.py"
    script.write_text(
        "import os\nfrom mcp.server.mcpserver import MCPServer\ns = MCPServer('env')\n"
        "@s.tool()\ndef names() -> list[str]:\n    return sorted(os.environ)\ns.run('stdio')\n"
    )
    await mount_stdio(ctx, "env", sys.executable, str(script), env={"WANTED": "1"})
    result = await call(ctx, "mcp__env__names")
    assert isinstance(result, ToolSuccess)
    names = result.value["structuredContent"]["result"]
    assert "WANTED" in names
    assert "PATH" in names
    assert "SECRET_TOKEN" not in names
