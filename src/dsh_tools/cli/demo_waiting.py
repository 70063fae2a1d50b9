"""``dsh-tools demo --mode code --suspend``: a program that stops for a person, and goes on when there is one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from rich.rule import Rule
from rich.text import Text

from ..agent import TURN_END
from ..content import content_text
from ..kernel import Context
from ..messages import ToolResultBlock, UserMessage
from ..model import ModelRequest, ScriptedModel, ScriptedStep, call, say
from ..services import PolicyConfig
from ..session import replay_calls
from ..session.events import Waiting
from ..terminal import LiveView, make_console, plain, render_timeline
from ..toolkits.files import FilesPlugin
from ..toolkits.search import SearchPlugin
from ..toolkits.shell import ShellPlugin
from .pending import WAITING_DEMO, resume_command

if TYPE_CHECKING:
    from ..agent import Agent
    from ..session import EventLog
    from ..session.events import TurnEndReason

__all__ = ["WAITING_RULES", "mount_waiting_demo", "resumed_demo_agent", "run_waiting_demo"]

WAITING_RULES = PolicyConfig.model_validate(
    {"rules": [{"tool": "bash", "action": "ask", "reason": "a shell command can do anything you can"}]}
)

QUESTION = "How many files are there, and how many entries does the shell count?"
PROGRAM = """\
const { paths } = await tools.glob({ pattern: "**/*" });
const ticket = Math.floor(Math.random() * 1_000_000);
console.log(`${paths.length} files; ticket ${ticket}, drawn once`);

// Nobody may be there to allow this. The program stops here, and runs again from its start when somebody has:
// what it did before is read from its journal, so the files are not listed twice and the ticket is the same.
const shell = await tools.bash({ command: "ls | wc -l", description: "Count the entries of the folder" });
return `the shell counts ${shell.stdout.text.trim()} entries; ticket ${ticket}`;
"""


def _model() -> ScriptedModel:
    return ScriptedModel(
        [
            say(
                "One program does that. ", call("run_code", code=PROGRAM, description="Count files, then ask the shell")
            ),
            _sum_up,
        ],
        name="scripted:waiting",
    )


def _sum_up(request: ModelRequest) -> ScriptedStep:
    results = [
        content_text(block.content)
        for message in request.messages
        if isinstance(message, UserMessage)
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]
    return say(f"Done. The program said:\n{results[-1]}")


async def mount_waiting_demo(ctx: Context, root: Path) -> None:
    """Mount the demo's tools, the same whenever the session is opened."""
    await ctx.plugin(FilesPlugin(), {"root": str(root)})
    await ctx.plugin(SearchPlugin(), {"root": str(root)})
    await ctx.plugin(ShellPlugin(), {"cwd": str(root)})


async def run_waiting_demo(ctx: Context, root: Path, store: Path, *, page: str | None = None) -> TurnEndReason:
    """Run the demo's turn until it waits, and say how to go on; with a page, until somebody has answered there.

    Returns:
        How the last turn ended.
    """
    console = make_console()
    await ctx.plugin(LiveView(console))
    log = await ctx.sessions.create(cwd=str(root), origin=WAITING_DEMO)
    agent = await _agent(ctx, log, _model())
    console.print(Rule(Text(f"dsh-tools demo · {plain(str(root))}"), style="dim"))
    console.print(Text(f"› {QUESTION}", "bold"))
    ended = asyncio.Event()
    ctx.on(TURN_END, lambda _agent, reason: None if isinstance(reason, Waiting) else ended.set())
    reason = (await agent.run(QUESTION)).reason
    if isinstance(reason, Waiting):
        console.print(Rule(Text("the program waits for a person"), style="dim"))
        console.print(Text("Nothing of it runs any more: no process, no thread. What it did is in its journal.", "dim"))
        command = plain(resume_command(log.id, store))
        if page is None:
            console.print(Text(f"Go on, now or tomorrow, with:\n  {command}", "bold"), soft_wrap=True)
            return reason
        console.print(Text(f"Answer in the page: {page}", "bold"), soft_wrap=True)
        console.print(
            Text(f"Or stop this with Ctrl-C, and go on another time with:\n  {command}", "dim"), soft_wrap=True
        )
        await ended.wait()
        await agent.idle()
        reason = agent.last_outcome.reason if agent.last_outcome is not None else reason
    console.print(Rule(Text("when the calls ran"), style="dim"))
    console.print(render_timeline(replay_calls(log.events)))
    return reason


async def resumed_demo_agent(ctx: Context, log: EventLog) -> Agent:
    """Make the demo's agent on a session of its that waits."""
    return await _agent(ctx, log, ScriptedModel([_sum_up], name="scripted:waiting"))


async def _agent(ctx: Context, log: EventLog, model: ScriptedModel) -> Agent:
    def setup(scoped: Context) -> None:
        scoped.tools.restrict(allow=["bash", "glob"])
        scoped.tools.present_as("code")

    return await ctx.agents.create("demo", model, session=log, setup=setup)
