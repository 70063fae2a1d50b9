"""``dsh-tools call``: one call through the whole pipeline."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import UNSET

from ..json_value import to_json_text
from ..messages import record_json
from ..services import APPROVAL_DECIDED, ApprovalAnswer, ApprovalRequest, always
from ..terminal import TerminalApprovalPlugin, make_console, plain, render_result
from ..tools import PresentedResult, ToolCall, ToolResult, view_of_call, view_of_result
from .config import CommandConfig
from .runtime import ConfigOption, open_app, run_verb

if TYPE_CHECKING:
    from ..kernel import Context

__all__ = ["call", "mount_answerer", "result_json"]


def call(
    name: Annotated[str, typer.Argument(help="The tool's name.")],
    args: Annotated[str, typer.Option("--args", "-a", help="The arguments as JSON text; - reads standard input.")] = "",
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Approve without asking.")] = False,
) -> None:
    """Run one tool call through the whole pipeline; status 0 for a success, 1 for a failure."""

    async def work(settings: CommandConfig) -> int:
        text = sys.stdin.read() if args == "-" else args
        async with open_app(settings) as ctx:
            mount_answerer(ctx, yes)
            caller = ctx.create_scope("command")
            result = await ctx.tools.execute(ToolCall(name, text, call_id="command-1", agent=caller))
            if as_json:
                typer.echo(to_json_text(result_json(result), indent=2))
            else:
                _show(ctx, name, text, result)
            return 1 if result.is_error else 0

    run_verb(work, config)


def mount_answerer(ctx: Context, yes: bool) -> None:
    """Answer questions of policies: always yes, or by asking in the terminal; without one nobody answers.

    A question that nobody answers is followed by a hint at ``--yes``, on standard error.
    """
    if yes:
        ctx.approval.answer_with(always("allowed-once"))
    elif sys.stdin.isatty():
        ctx.plugin(TerminalApprovalPlugin(make_console(sys.stderr)))
    else:
        ctx.on(APPROVAL_DECIDED, _HintAtYes().decided)


class _HintAtYes:
    """Says once for each tool how its calls are approved without a terminal."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def decided(self, request: ApprovalRequest, answer: ApprovalAnswer) -> None:
        if answer.outcome == "unavailable" and request.tool_name not in self._said:
            self._said.add(request.tool_name)
            what = f"{plain(request.tool_name)} needs approval, and there is no terminal to ask in; --yes approves it"
            typer.echo(f"dsh-tools: {what}", err=True)


def result_json(result: ToolResult) -> dict[str, object]:
    """The wire form of a result: camelCase, absent keys left out (PIPE-182)."""
    document = record_json(result)
    return {"isError": document.pop("isError"), **document}


def _show(ctx: Context, name: str, text: str, result: ToolResult) -> None:
    definition = ctx.tools.get(name)
    presented = PresentedResult(result.content, result.is_error, None if result.meta is UNSET else result.meta)
    card = render_result(
        view_of_result(definition, text, presented),
        name=name,
        arguments=text,
        content=result.content,
        is_error=result.is_error,
        call=view_of_call(definition, text),
    )
    make_console().print(card)
