"""Approval at the terminal: what is shown, and what counts as an answer."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.agents import LoggedAgent, LoneAgent

from dsh_tools.kernel.abort import NEVER, AbortController
from dsh_tools.kernel.context import Context, create_context
from dsh_tools.services import ApprovalAnswer, ApprovalPlugin, ApprovalRequest
from dsh_tools.terminal.approval import TerminalApprovalPlugin, read_line
from dsh_tools.terminal.console import make_console
from dsh_tools.terminal.lines import LineReader


class Terminal:
    """A terminal with a person at its other end."""

    def __init__(self) -> None:
        self.person, self.program = os.openpty()
        self.out = io.StringIO()
        self.console = make_console(self.out, width=100, colour=False)
        self.lines = LineReader(self.program)

    @property
    def shown(self) -> str:
        return self.out.getvalue()

    async def type(self, text: str) -> None:
        os.write(self.person, text.encode())
        await asyncio.sleep(0.02)

    async def until(self, text: str) -> None:
        async with asyncio.timeout(10):
            while text not in self.shown:
                await asyncio.sleep(0.005)

    def close(self) -> None:
        os.close(self.person)
        os.close(self.program)


@pytest.fixture
async def terminal(no_leaks: None) -> AsyncIterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


@pytest.fixture
async def ctx(terminal: Terminal) -> AsyncIterator[Context]:
    context = create_context()
    await context.plugin(ApprovalPlugin())
    await context.plugin(TerminalApprovalPlugin(terminal.console, terminal.lines))
    yield context
    await context.dispose()


def ask(ctx: Context, **more: Any) -> asyncio.Task[ApprovalAnswer]:
    question: dict[str, Any] = {"agent": LoneAgent(), "tool_name": "write", "arguments": {"path": "notes.txt"}}
    return asyncio.create_task(ctx.approval.ask(**{**question, **more}))


async def test_the_question_shows_what_will_run(ctx: Context, terminal: Terminal):
    task = ask(ctx, reason="it changes files")
    await terminal.until("> ")
    assert "write needs approval: it changes files" in terminal.shown
    assert "notes.txt" in terminal.shown
    assert "for the rest of this session" not in terminal.shown
    await terminal.type("y\n")
    assert await task == ApprovalAnswer("allowed-once")


async def test_a_no_may_have_a_reason(ctx: Context, terminal: Terminal):
    task = ask(ctx)
    await terminal.until("> ")
    await terminal.type("no, use the other folder\n")
    assert await task == ApprovalAnswer("rejected", "use the other folder")


async def test_what_is_not_an_answer_is_asked_again(ctx: Context, terminal: Terminal):
    task = ask(ctx)
    await terminal.until("> ")
    await terminal.type("\nsure\na\nyes but only once\n")
    assert not task.done()
    await terminal.type("YES\n")
    assert await task == ApprovalAnswer("allowed-once")


async def test_the_scope_of_a_remembered_answer_is_shown(ctx: Context, terminal: Terminal):
    ctx.approval.use_remembered()
    task = ask(ctx)
    await terminal.until("> ")
    assert "whenever the arguments are exactly these" in terminal.shown
    assert "write with any arguments" in terminal.shown
    await terminal.type("a\n")
    assert await task == ApprovalAnswer("allowed-once", remember="arguments")
    task = ask(ctx)
    await asyncio.sleep(0.02)
    await terminal.type("t\n")
    assert await task == ApprovalAnswer("allowed-once", remember="tool")


async def test_what_was_typed_before_the_question_does_not_answer_it(ctx: Context, terminal: Terminal):
    await terminal.type("y\n")
    task = ask(ctx)
    await terminal.until("> ")
    await asyncio.sleep(0.05)
    assert not task.done()
    await terminal.type("n\n")
    assert (await task).outcome == "rejected"


async def test_arguments_cannot_command_the_terminal(ctx: Context, terminal: Terminal):
    task = ask(ctx, tool_name="wr\x1b[2Jite", reason="a\x1b[1Ab", arguments={"path": "\x1b[2J\u202etxt.exe"})
    await terminal.until("> ")
    assert "\x1b" not in terminal.shown
    assert "\u202e" not in terminal.shown
    await terminal.type("n\n")
    await task


async def test_long_arguments_can_be_seen_in_full(ctx: Context, terminal: Terminal):
    task = ask(ctx, arguments={"lines": [f"line {number}" for number in range(500)], "last": "the end"})
    await terminal.until("> ")
    assert "line 499" not in terminal.shown
    await terminal.type("v\n")
    await terminal.until("line 499")
    await terminal.until("the end")
    await terminal.type("n\n")
    await task


async def test_questions_are_shown_one_at_a_time(ctx: Context, terminal: Terminal):
    first, second = ask(ctx, tool_name="first"), ask(ctx, tool_name="second")
    await terminal.until("> ")
    assert "second needs" not in terminal.shown
    await terminal.type("y\n")
    assert (await first).outcome == "allowed-once"
    await terminal.until("second needs")
    await terminal.type("n\n")
    assert (await second).outcome == "rejected"


async def test_a_question_given_up_is_withdrawn(ctx: Context, terminal: Terminal):
    caller = AbortController()
    agent = LoggedAgent()
    task = ask(ctx, agent=agent, signal=caller.signal)
    await terminal.until("> ")
    caller.abort()
    assert (await task).outcome == "cancelled"
    await terminal.until("the question was withdrawn")
    again = ask(ctx, agent=agent)
    await asyncio.sleep(0.02)
    await terminal.type("y\n")
    assert (await again).outcome == "allowed-once"


async def test_where_the_input_has_ended_others_are_asked(ctx: Context, terminal: Terminal):
    task = ask(ctx)
    await terminal.until("> ")
    await terminal.type("\x04")
    assert (await task).outcome == "unavailable"


async def test_with_yes_nothing_is_asked(no_leaks: None, terminal: Terminal):
    async with create_context() as ctx:
        await ctx.plugin(ApprovalPlugin())
        await ctx.plugin(TerminalApprovalPlugin(terminal.console, terminal.lines), {"yes": True})
        agent = LoggedAgent()
        assert (await ask(ctx, agent=agent)).outcome == "allowed-once"
        assert terminal.shown == ""
        assert agent.events("approval/decided")[0][1]["reason"] == "answered with --yes"  # type: ignore[index]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y", ApprovalAnswer("allowed-once")),
        (" Yes. ", ApprovalAnswer("allowed-once")),
        ("yes please", None),
        ("yesterday", None),
        ("n", ApprovalAnswer("rejected")),
        ("No: too risky", ApprovalAnswer("rejected", "too risky")),
        ("nothing", None),
        ("", None),
        ("a", None),
    ],
)
def test_typed_answers(line: str, answer: ApprovalAnswer | None):
    request = ApprovalRequest("1", LoneAgent(), "write", NEVER)
    assert read_line(line, request) == answer
