"""``dsh-tools explain``: what policy would decide about a call, without running it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ..json_value import to_json_text
from ..messages import record_json
from ..terminal import make_console, plain
from ..tools import RESERVED_NAME, CallToken, ToolCall
from .call import mount_answerer
from .config import CommandConfig
from .runtime import ConfigOption, open_app, run_verb
from .tool_sources import ToolsOption, mount_tools

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..kernel import Context
    from ..pipeline import Explanation

__all__ = ["explain", "explanation_json", "render_explanation"]

_STYLES = {"allow": "green", "ask": "yellow", "deny": "red", "invalid": "red"}
_HEADS = {
    "allow": "would run",
    "ask": "would ask a person first",
    "deny": "would be denied",
    "invalid": "cannot run",
}


def explain(
    name: Annotated[str, typer.Argument(help="The tool's name.")],
    args: Annotated[str, typer.Option("--args", "-a", help="The arguments as JSON text; - reads standard input.")] = "",
    config: ConfigOption = None,
    tools: ToolsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
) -> None:
    """Say what policy would decide about a call, and why. Runs nothing, asks nobody.

    Where only programs may call tools (mode code), it is about a call that a program makes.
    Status 0 where the call would run, 1 where it would be denied or cannot run, 3 where a person would be asked.
    """

    async def work(settings: CommandConfig) -> int:
        text = sys.stdin.read() if args == "-" else args
        async with open_app(settings) as ctx:
            await mount_tools(ctx, tools)
            # Nobody is asked; but whether somebody could be is part of the answer.
            mount_answerer(ctx, yes=False)
            caller = ctx.create_scope("command")
            call = ToolCall(name, text, call_id="command-1", agent=caller, parent=_program_of(ctx, caller, name))
            explanation = await ctx.tools.explain(call)
        if as_json:
            typer.echo(to_json_text(explanation_json(explanation), indent=2))
        else:
            make_console().print(render_explanation(explanation))
        return {"allow": 0, "ask": 3}.get(explanation.verdict, 1)

    run_verb(work, config)


def _program_of(ctx: Context, caller: Context, name: str) -> CallToken | None:
    """Where only programs may call tools, the call is explained as one of a program."""
    by_program = ctx.tools.mode(caller.scope) == "code" and name != RESERVED_NAME
    return CallToken(ctx.tools.service) if by_program else None


def explanation_json(explanation: Explanation) -> dict[str, object]:
    """The wire form of an explanation: camelCase, without what there is nothing to say about."""
    return {key: value for key, value in record_json(explanation).items() if value not in (None, [], {})}


def render_explanation(explanation: Explanation) -> RenderableType:
    """Render an explanation for a terminal: the verdict and who gives it, then everybody who was asked."""
    lines: list[RenderableType] = [_verdict(explanation)]
    if explanation.decided_by is not None:
        lines.append(_line("decided by", explanation.decided_by))
    if explanation.reason is not None:
        lines.append(_line("reason", explanation.reason))
    if explanation.approval is not None:
        lines.append(_line("asking", f"{explanation.approval.prospect}: {explanation.approval.reason}"))
    if explanation.arguments_digest is not None:
        lines.append(_line("arguments", to_json_text(explanation.arguments)))
        lines.append(_line("digest", explanation.arguments_digest))
    if explanation.policy_digest is not None:
        lines.append(_line("rules", explanation.policy_digest))
    if explanation.consulted:
        lines += [Text(""), _consulted(explanation)]
    if explanation.missed:
        lines += [Text(""), Text("rules about this tool that do not match, and the argument that keeps them:", "dim")]
        lines += [Text(f"  {plain(rule.name)}: {plain(rule.argument)}") for rule in explanation.missed]
    if explanation.not_consulted:
        lines += [Text(""), Text("cannot be consulted without effects:", "dim")]
        lines += [Text(f"  {plain(listener)}") for listener in explanation.not_consulted]
    return Group(*lines)


def _verdict(explanation: Explanation) -> Text:
    head = Text()
    head.append(plain(explanation.tool), "bold")
    head.append(" ")
    head.append(_HEADS[explanation.verdict], f"bold {_STYLES[explanation.verdict]}")
    if not explanation.certain:
        head.append(", unless a listener that cannot be consulted says otherwise", "dim")
    return head


def _line(label: str, text: str) -> Text:
    line = Text(f"  {label:<11}", "dim")
    line.append(plain(text), "default not dim")
    return line


def _consulted(explanation: Explanation) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("asked", "who", "verdict", "reason"):
        table.add_column(heading, overflow="fold")
    for asked in explanation.consulted:
        table.add_row(
            asked.kind,
            Text(plain(asked.name)),
            Text(asked.verdict, _STYLES.get(asked.verdict, "")),
            Text(plain(asked.reason or "")),
        )
    return table
