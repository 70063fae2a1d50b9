"""A conversation in a real terminal, with a server on loopback that speaks chat completions."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.model_server import Reply, model_server, sse

COMMAND = Path(sys.executable).with_name("dsh-tools")

PLUGIN = '''
import asyncio
from dsh_tools import tool

@tool
async def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"

@tool
async def forever() -> str:
    """Never end."""
    await asyncio.sleep(3600)
    return "never"

name = "mine"
inject = ("tools",)

def apply(ctx, config):
    ctx.tools.register(weather)
    ctx.tools.register(forever)
'''
CONFIG = """
plugins: [mine]
policy: {rules: [{tool: weather, action: ask, reason: it costs money}]}
"""


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]}


def calls(name: str, arguments: str) -> Reply:
    function = {"name": name, "arguments": arguments}
    call = {"index": 0, "id": "call-1", "type": "function", "function": function}
    return Reply([sse(chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), "[DONE]")])


def says(*pieces: str) -> Reply:
    return Reply([sse(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"), "[DONE]")])


class Terminal:
    """The command in a pseudo-terminal: what it shows, and what is typed."""

    def __init__(self, process: asyncio.subprocess.Process, descriptor: int) -> None:
        self.process = process
        self.descriptor = descriptor
        self.shown = ""
        self.before = ""

    async def see(self, text: str, seconds: float = 30) -> None:
        """Wait until something is shown, after what was seen before."""
        async with asyncio.timeout(seconds):
            while text not in self.shown:
                try:
                    data = await asyncio.to_thread(os.read, self.descriptor, 65_536)
                except OSError as error:
                    raise AssertionError(f"ended before {text!r}: {self.shown}") from error
                self.shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data.decode(errors="replace"))
        self.before, self.shown = self.shown.split(text, 1)

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())


@asynccontextmanager
async def chatting(home: Path, url: str, *options: str) -> Any:
    (home / "mine.py").write_text(PLUGIN)
    (home / "dsh.yaml").write_text(CONFIG)
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        str(COMMAND),
        "chat",
        "--model",
        "openai:m",
        "--base-url",
        f"{url}/v1",
        *options,
        cwd=home,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_own_terminal,
        env={**os.environ, "OPENAI_API_KEY": "k", "COLUMNS": "90", "TERM": "xterm"},
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        os.close(ours)


def _own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


async def test_a_conversation_with_a_question_and_an_interrupt(tmp_path: Path) -> None:
    replies = [
        calls("weather", '{"city": "Oslo"}'),
        says("It is ", "sunny."),
        calls("forever", "{}"),
        says("still here"),
    ]
    async with model_server(*replies) as server, chatting(tmp_path, server.url) as terminal:
        await terminal.see("/quit")
        await terminal.see("› ")
        terminal.type("How is the weather?\n")
        await terminal.see("it costs money")
        terminal.type("y\n")
        await terminal.see("sunny in Oslo")
        await terminal.see("It is sunny.")
        await terminal.see("› ")
        terminal.type("Wait for ever\n")
        await terminal.see("forever")
        await asyncio.sleep(0.3)
        terminal.type("\x03")  # Ctrl-C: the turn ends, the program does not
        await terminal.see("the turn was cancelled")
        await terminal.see("› ")
        terminal.type("Are you there?\n")
        await terminal.see("still here")
        terminal.type("/quit\n")
        assert await asyncio.wait_for(terminal.process.wait(), 20) == 0
        asked = [request.json["messages"][-1]["role"] for request in server.requests]
        assert asked == ["user", "tool", "user", "user"]
        history = server.requests[-1].json["messages"]
        assert any("aborted" in str(message.get("content")) for message in history if message["role"] == "tool")
    assert (tmp_path / ".dsh-tools" / "sessions.sqlite").exists()


async def test_ctrl_c_at_the_prompt_leaves(tmp_path: Path) -> None:
    async with model_server() as server, chatting(tmp_path, server.url) as terminal:
        await terminal.see("› ")
        await asyncio.sleep(0.2)
        terminal.type("\x03")
        assert await asyncio.wait_for(terminal.process.wait(), 20) == 130


async def test_a_session_is_resumed_where_it_was(tmp_path: Path) -> None:
    async with model_server(says("first answer"), says("second answer")) as server:
        async with chatting(tmp_path, server.url) as terminal:
            await terminal.see("session ")
            await terminal.see("› ")
            session = re.search(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}", terminal.before)
            assert session is not None
            terminal.type("first question\n")
            await terminal.see("first answer")
            await terminal.see("› ")
            terminal.type("/quit\n")
            assert await asyncio.wait_for(terminal.process.wait(), 20) == 0
        async with chatting(tmp_path, server.url, "--resume", session[0]) as terminal:
            await terminal.see(session[0])
            await terminal.see("› ")
            terminal.type("second question\n")
            await terminal.see("second answer")
            terminal.type("/quit\n")
            assert await asyncio.wait_for(terminal.process.wait(), 20) == 0
        asked = [str(message["content"]) for message in server.requests[-1].json["messages"]]
        said = [text for text in asked if "question" in text or "answer" in text]
        assert said == ["first question", "first answer", "second question"]


@pytest.mark.parametrize(("model", "extra"), [("gpt-4", "openai"), ("claude-x", "anthropic")])
def test_a_missing_extra_is_one_line(tmp_path: Path, model: str, extra: str) -> None:
    program = f"import sys; sys.modules[{extra!r}] = None; from dsh_tools.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "chat", "--model", model],
        cwd=tmp_path,
        input="hi\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f'dsh-tools: models of "{extra}" need their extra: pip install "dsh-tools[{extra}]"\n'


async def test_piped_input_tells_a_failed_turn_by_its_status(tmp_path: Path) -> None:
    async def chat(*replies: Reply) -> tuple[int | None, str]:
        async with model_server(*replies) as server:
            process = await asyncio.create_subprocess_exec(
                *(str(COMMAND), "chat", "--model", "openai:m", "--base-url", f"{server.url}/v1"),
                cwd=tmp_path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "OPENAI_API_KEY": "k"},
            )
            shown, _ = await asyncio.wait_for(process.communicate(b"first\nsecond\n"), 60)
            return process.returncode, shown.decode()

    refusal = Reply([b'{"error": {"message": "no such model"}}'], status=404)
    assert await chat(says("one"), says("two")) == (0, "one\ntwo\n")
    status, shown = await chat(refusal, says("two"))
    assert status == 1
    assert "no such model" in shown
    assert "two" in shown
