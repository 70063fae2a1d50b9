"""Approval at the terminal: shows what would run and asks for a yes or a no.

Mount it where ``ctx.approval`` is provided::

    ctx.plugin(TerminalApprovalPlugin(console), {"yes": False})

The question shows the tool, why somebody is asked, and the arguments exactly as they will run.
Nothing in them can command the terminal. What was typed before the question appeared is dropped,
so that it can't answer it. One question is shown at a time; one that is answered elsewhere,
or given up, is marked as withdrawn.

With ``yes`` every question is answered with ``allowed-once`` unseen, and the record says so.
Where there is no terminal and nothing left to read, the question goes on to other answerers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pydantic
from msgspec import UNSET
from rich.console import Console
from rich.text import Text

from ..services.approval import ApprovalAnswer, ApprovalRequest, always
from .console import make_console
from .layout import Limits
from .lines import LineReader
from .neutral import one_line, plain
from .render import render_call

if TYPE_CHECKING:
    from ..kernel.context import Context

__all__ = ["TerminalAnswerer", "TerminalApprovalConfig", "TerminalApprovalPlugin"]

_SHOWN = Limits(lines=60, line_length=2_000)
_IN_FULL = Limits(lines=1_000_000, line_length=10_000_000)


class TerminalApprovalConfig(pydantic.BaseModel):
    """Configuration of approval at the terminal.

    Parameters:
        yes: answer every question with ``allowed-once``, without showing it.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    yes: bool = False


class TerminalAnswerer:
    """Puts questions to the person at the terminal.

    Parameters:
        console: where questions are shown; a new one on standard output by default.
        lines: where answers come from; standard input by default.
    """

    def __init__(self, console: Console | None = None, lines: LineReader | None = None) -> None:
        self._console = console or make_console()
        self._lines = lines or LineReader()
        self._lock = asyncio.Lock()

    async def __call__(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Ask, and return the answer; None where the input has ended."""
        async with self._lock:
            try:
                return await self._ask(request)
            except asyncio.CancelledError:
                self._console.print(Text("\n  the question was withdrawn", "dim"))
                raise

    async def _ask(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        self._lines.forget_typed_ahead()
        self._show(request, _SHOWN)
        self._explain(request)
        while True:
            self._console.print("> ", end="")
            line = await self._lines.read_line()
            if line is None:
                self._console.print()
                return None
            if line.strip().lower() in ("v", "view"):
                self._show(request, _IN_FULL)
                continue
            answer = read_line(line, request)
            if answer is not None:
                return answer
            self._explain(request)

    def _show(self, request: ApprovalRequest, limits: Limits) -> None:
        arguments: Any = {} if request.arguments is UNSET else request.arguments
        self._console.print(render_call(None, name=request.tool_name, arguments=arguments, limits=limits))
        asks = "needs approval" if request.purpose == "call" else f"asks for {one_line(request.purpose)}"
        why = "" if request.reason is None else f": {plain(request.reason)}"
        self._console.print(Text(f"  {one_line(request.tool_name)} {asks}{why}", "yellow"))

    def _explain(self, request: ApprovalRequest) -> None:
        choices = ["y  yes, this once"]
        if request.can_be_remembered:
            choices.append("a  yes, and for the rest of this session whenever the arguments are exactly these")
            choices.append(f"t  yes, and for the rest of this session {one_line(request.tool_name)} with any arguments")
        choices += ["n  no; a reason may follow, the model reads it", "v  show the arguments in full"]
        self._console.print(Text("\n".join(f"  {choice}" for choice in choices), "dim"))


def read_line(line: str, request: ApprovalRequest) -> ApprovalAnswer | None:
    """Read a typed answer; None where it is none."""
    word, _, rest = line.strip().partition(" ")
    word = word.lower().rstrip(",:;.")
    rest = rest.strip()
    if word in ("n", "no"):
        return ApprovalAnswer("rejected", rest or None)
    # A yes with something after it may be a condition; it is not a plain yes.
    if rest:
        return None
    if word in ("y", "yes"):
        return ApprovalAnswer("allowed-once")
    if request.can_be_remembered and word in ("a", "t"):
        return ApprovalAnswer("allowed-once", remember="arguments" if word == "a" else "tool")
    return None


class TerminalApprovalPlugin:
    """Answers approval questions at the terminal, or with yes throughout.

    Parameters:
        console: where questions are shown.
        lines: where answers come from.
    """

    name = "terminal-approval"
    inject = ("approval",)
    Config = TerminalApprovalConfig

    def __init__(self, console: Console | None = None, lines: LineReader | None = None) -> None:
        self._console = console
        self._lines = lines

    def apply(self, ctx: Context, config: TerminalApprovalConfig) -> None:
        """Register the answerer; with the plugin it goes."""
        if config.yes:
            ctx.approval.answer_with(always("allowed-once", "answered with --yes"))
        else:
            ctx.approval.answer_with(TerminalAnswerer(self._console, self._lines))
