"""``dsh-tools mcp serve`` for clients that nobody here wrote."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import psutil
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from tests.support.npm import npm_program

SDK_SERVER = str(Path(__file__).with_name("sdk_server.py"))
SERVE = [str(Path(sys.executable).with_name("dsh-tools")), "mcp", "serve"]
CALCULATOR = ["--upstream", f"calc={sys.executable} {SDK_SERVER}"]
NODE = pytest.mark.needs("node", "npm")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The URL of a server process over HTTP."""
    process = subprocess.Popen([*SERVE, "--http", *CALCULATOR], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if found := re.search(r"serving on (\S+)", line):
            yield found[1]
            break
    else:
        pytest.fail("".join(lines))
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 143
    process.stderr.close()
    assert [child for child in children if child.is_running()] == []


def stdio(tmp_path: Path, *more: str) -> StdioServerParameters:
    return StdioServerParameters(command=SERVE[0], args=[*SERVE[1:], *CALCULATOR, *more], cwd=tmp_path)


async def check(client: Client) -> None:
    names = [tool.name for tool in (await client.list_tools()).tools]
    assert names == ["mcp__calc__count", "mcp__calc__crash", "mcp__calc__divide"]
    result = await client.call_tool("mcp__calc__divide", {"dividend": 17, "divisor": 5})
    assert result.structured_content == {"quotient": 3, "remainder": 2}
    seen: list[float] = []

    async def on_progress(progress: float, *_: Any) -> None:
        seen.append(progress)

    await client.call_tool("mcp__calc__count", {"to": 3}, progress_callback=on_progress)
    assert seen == [1, 2, 3]
    result = await client.call_tool("mcp__calc__divide", {"dividend": "many"})
    assert result.is_error


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_over_stdio(tmp_path: Path, mode: str):
    async with Client(stdio(tmp_path), mode=mode) as client:
        await check(client)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_over_http(served: str, mode: str):
    async with Client(served, mode=mode) as client:
        await check(client)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_approval_goes_to_the_person_at_the_client(tmp_path: Path, mode: str):
    (tmp_path / "dsh.yaml").write_text("policy: {rules: [{tool: mcp__calc__divide, action: ask, reason: maths}]}")
    divide = ("mcp__calc__divide", {"dividend": 17, "divisor": 5})
    asked: list[str] = []

    async def elicit(_: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"allow": len(asked) == 1})

    async with Client(stdio(tmp_path), mode=mode, elicitation_callback=elicit) as client:
        assert not (await client.call_tool(*divide)).is_error
        assert (await client.call_tool(*divide)).is_error
    assert len(asked) == 2
    assert "maths" in asked[0]
    async with Client(stdio(tmp_path), mode=mode) as client:
        result = await client.call_tool(*divide)
        assert result.is_error
        assert "no approval channel" in result.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_although_the_client_is_there(tmp_path: Path, number: signal.Signals):
    process = await asyncio.create_subprocess_exec(
        *SERVE, *CALCULATOR, cwd=tmp_path, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    }
    process.stdin.write(json.dumps(request).encode() + b"\n")
    answer = json.loads(await process.stdout.readline())
    assert answer["result"]["capabilities"]["tools"] == {"listChanged": True}
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    async with asyncio.timeout(20):
        assert await process.wait() == 128 + number
    assert [child for child in children if child.is_running()] == []
    process.stdin.close()


def inspect(*arguments: str, cwd: Path) -> Any:
    """Run the inspector without its page and return what it prints."""
    command = ["node", npm_program("mcp-inspector"), "--cli", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def check_with_inspector(target: list[str], cwd: Path) -> None:
    listing = inspect(*target, "--method", "tools/list", cwd=cwd)
    assert [tool["name"] for tool in listing["tools"]] == ["mcp__calc__count", "mcp__calc__crash", "mcp__calc__divide"]
    call = ["--method", "tools/call", "--tool-name", "mcp__calc__divide"]
    result = inspect(*target, *call, "--tool-arg", "dividend=17", "--tool-arg", "divisor=5", cwd=cwd)
    assert result["structuredContent"] == {"quotient": 3, "remainder": 2}


@NODE
def test_the_inspector_over_stdio(tmp_path: Path):
    wrapper = tmp_path / "serve.sh"
    command = " ".join(f"'{part}'" for part in [*SERVE, *CALCULATOR])
    wrapper.write_text(f"#!/bin/sh\nexec {command}\n")
    wrapper.chmod(0o755)
    check_with_inspector([str(wrapper)], tmp_path)


@NODE
def test_the_inspector_over_http(served: str, tmp_path: Path):
    check_with_inspector([served, "--transport", "http"], tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--upstream", "nothing"], "write NAME=COMMAND"),
        (["--upstream", "a b=node"], "server_name"),
        (["--upstream", "x=no-such-program-anywhere"], "cannot connect"),
        (["--mode", "both"], 'the mode is "native" or "code"'),
        (["--http", "--host", "0.0.0.0"], "a token is needed"),
        (["--http", "--token-env", "NOT_SET_ANYWHERE"], "the variable is not set"),
    ],
)
def test_what_cannot_be_served_is_said(arguments: list[str], said: str, tmp_path: Path):
    done = subprocess.run(
        [*SERVE, *arguments], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


PROGRAM = """
const pairs = [[17, 5], [9, 2], [8, 4]];
const results = await Promise.all(pairs.map(([dividend, divisor]) => tools.mcp__calc__divide({ dividend, divisor })));
console.log(`${results.length} divisions`);
try { await tools.mcp__calc__divide({ dividend: 1, divisor: 0 }); } catch (error) { console.log(error.toolName); }
return results.map((result) => result.structuredContent.quotient);
"""


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_any_client_gets_code_mode_over_any_servers(tmp_path: Path, mode: str):
    async with Client(stdio(tmp_path, "--mode", "code"), mode=mode) as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.name == "run_code"
        assert "mcp__calc__divide" in (tool.description or "")
        assert "dividend: number" in (tool.description or "")
        result = await client.call_tool("run_code", {"code": PROGRAM})
        assert not result.is_error, result
        assert result.structured_content == {
            "logs": ["3 divisions", "mcp__calc__divide"],
            "result": [3, 4, 2],
        }
        refused = await client.call_tool("mcp__calc__divide", {"dividend": 1, "divisor": 1})
        assert refused.is_error
        assert "run_code" in refused.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_calls_of_a_program_are_approved_one_by_one(tmp_path: Path, mode: str):
    (tmp_path / "dsh.yaml").write_text("policy: {rules: [{tool: mcp__calc__divide, action: ask, reason: maths}]}")
    asked: list[str] = []

    async def elicit(_: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"allow": len(asked) != 2})

    program = """
    const done = [];
    for (const divisor of [1, 2, 3]) {
      try { done.push((await tools.mcp__calc__divide({ dividend: 6, divisor })).structuredContent.quotient); }
      catch { done.push("no"); }
    }
    return done;
    """
    async with Client(stdio(tmp_path, "--mode", "code"), mode=mode, elicitation_callback=elicit) as client:
        result = await client.call_tool("run_code", {"code": program})
        assert result.structured_content == {"logs": [], "result": [6, "no", 2]}, result
    assert len(asked) == 3
    assert '"divisor": 2' in asked[1]
