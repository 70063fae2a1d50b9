"""``dsh-tools demo --mode code``: one job twice, by calls and by a program, and what each cost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ..content import content_text
from ..json_value import to_json_text
from ..kernel import Context
from ..messages import ToolResultBlock, UserMessage, record_json
from ..model import ModelRequest, ScriptedModel, ScriptedStep, call, say
from ..session import ReplayedCall, replay_calls
from ..terminal import LiveView, make_console, plain, render_timeline
from ..toolkits.files import FilesPlugin
from ..toolkits.search import SearchPlugin

if TYPE_CHECKING:
    from rich.console import Console

    from ..session.events import TurnEndReason
    from ..tools import Mode

__all__ = ["run_code_demo"]

QUESTION = "Which files mention tests, how often, and how long are the ones that do it most?"
PATTERN = r"(?i)\btests?\b"
MISSING = "no-such-file.md"
MOST = 8

PROGRAM = f"""\
// Two searches, asked for together.
const [{{ paths }}, {{ matches }}] = await Promise.all([
  tools.glob({{ pattern: "**/*" }}),
  tools.grep({{ pattern: {to_json_text(PATTERN)} }}),
]);
const mentions: Record<string, number> = {{}};
for (const {{ path }} of matches) mentions[path] = (mentions[path] ?? 0) + 1;
const most = Object.entries(mentions).sort(([, a], [, b]) => b - a).slice(0, {MOST});
const found = Object.keys(mentions).length;
console.log(`${{paths.length}} files; ${{found}} mention tests, ${{matches.length}} times in all`);

// Reads may overlap: all at once. One file is not there, which is no reason to stop.
return await Promise.all([...most, ["{MISSING}", 0] as const].map(async ([path, count]) => {{
  try {{
    const {{ totalLines }} = await tools.read({{ file_path: path, limit: 1 }});
    return `${{path}}: ${{count}} times in ${{totalLines}} lines`;
  }} catch (error) {{
    if (!(error instanceof ToolCallError)) throw error;
    return `${{path}}: ${{error.toolName}} failed: ${{error.message.split("\\n")[0]}}`;
  }}
}}));
"""


def _native_model() -> ScriptedModel:
    """The job by calls: look, read, answer."""
    return ScriptedModel(
        [
            say("I'll list the files and search them. ", call("glob", pattern="**/*"), call("grep", pattern=PATTERN)),
            _read_most,
            lambda request: say(f"Done: {len(_results(request))} results told me."),
        ],
        name="scripted:native",
    )


def _code_model() -> ScriptedModel:
    """The same by one program."""
    return ScriptedModel(
        [
            say(
                "One program does that. ",
                call("run_code", code=PROGRAM, description="Count mentions of tests, and lines"),
            ),
            lambda request: say(f"Done: {len(_results(request))} result told me."),
        ],
        name="scripted:code",
    )


def _read_most(request: ModelRequest) -> ScriptedStep:
    """Read the files that the search found most in: each match is a line below its file's path."""
    listed = set(_results(request)[0].splitlines())
    counts: Counter[str] = Counter()
    current = ""
    for line in _results(request)[1].splitlines():
        if line.rstrip(":") in listed:
            current = line.rstrip(":")
        elif current and line.strip():
            counts[current] += 1
    paths = [path for path, _ in counts.most_common(MOST)]
    reads = (call("read", file_path=path, limit=1) for path in [*paths, MISSING])
    return say(f"Now I read the {len(paths)} that mention them most. ", *reads)


def _results(request: ModelRequest) -> list[str]:
    return [
        content_text(block.content)
        for message in request.messages
        if isinstance(message, UserMessage)
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]


def _characters(request: ModelRequest) -> int:
    """How long a request is: system prompt, tools and history, as JSON."""
    tools: list[Any] = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    messages: list[Any] = [record_json(message) for message in request.messages]
    return len(request.system) + len(to_json_text([tools, messages]))


async def run_code_demo(ctx: Context, root: Path, store: Path) -> TurnEndReason:
    """Do the job in native mode, then in Code Mode, and show both beside each other.

    Returns:
        How the turn in Code Mode ended.
    """
    await ctx.plugin(FilesPlugin(), {"root": str(root)})
    await ctx.plugin(SearchPlugin(), {"root": str(root)})
    console = make_console()
    await ctx.plugin(LiveView(console))
    console.print(Rule(Text(f"dsh-tools demo · {plain(str(root))}"), style="dim"))
    console.print(Text(f"› {QUESTION}", "bold"))
    rows: list[tuple[str, ScriptedModel, list[ReplayedCall]]] = []
    reason: TurnEndReason | None = None
    modes: tuple[tuple[Mode, ScriptedModel], ...] = (("native", _native_model()), ("code", _code_model()))
    for mode, model in modes:
        console.print(Rule(Text(f"{mode} mode"), style="dim"))
        reason, calls = await _run(ctx, root, mode, model, console)
        rows.append((mode, model, calls))
    console.print(Rule(Text("the same job, twice"), style="dim"))
    console.print(_comparison(rows))
    console.print(Text(f"Both sessions are kept in {plain(str(store))}", "dim"))
    assert reason is not None
    return reason


async def _run(
    ctx: Context, root: Path, mode: Mode, model: ScriptedModel, console: Console
) -> tuple[TurnEndReason, list[ReplayedCall]]:
    def setup(scoped: Context) -> None:
        scoped.tools.restrict(allow=["glob", "grep", "read"])
        scoped.tools.present_as(mode)

    log = await ctx.sessions.create(cwd=str(root), origin=f"demo {mode}")
    agent = await ctx.agents.create(f"demo-{mode}", model, session=log, setup=setup)
    outcome = await agent.run(QUESTION)
    calls = list(replay_calls(log.events))
    console.print(render_timeline(calls))
    return outcome.reason, calls


def _comparison(rows: list[tuple[str, ScriptedModel, list[ReplayedCall]]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    headings = ("mode", "model turns", "tool calls", "failed", "characters of context", "sent in all turns")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "mode" else "right")
    for mode, model, calls in rows:
        used = [call for call in calls if call.name != "run_code"]
        sizes = [_characters(request) for request in model.requests]
        table.add_row(
            mode,
            str(len(sizes)),
            str(len(used)),
            str(sum(call.is_error for call in used)),
            f"{sizes[-1]:,}",
            f"{sum(sizes):,}",
        )
    return table
