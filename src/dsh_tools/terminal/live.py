"""A conversation as it happens: the model's words as they stream, and a card for every call.

Mount it where agents run::

    ctx.plugin(LiveView(console))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ..agent import MODEL_EVENT, TURN_END, Agent
from ..model import Finish, ModelEvent, ModelFailed, Retrying, TextDelta
from ..services import APPROVAL_DECIDED, APPROVAL_SUSPENDED, ApprovalAnswer, ApprovalRequest
from ..session.events import Aborted, Completed, Failed, MaxTokens, TurnEndReason
from ..tools import TOOL_RESULT, TOOL_STATE, PresentedResult, ToolExecution, ToolResult, view_of_call, view_of_result
from ..tools.events import EXECUTE
from .console import make_console
from .neutral import plain
from .render import render_call, render_result

if TYPE_CHECKING:
    from ..kernel.context import Context
    from ..kernel.hooks import Next
    from ..tools.stopping import CallStatus, StopEnding

__all__ = ["LiveView"]

_ENDINGS: dict[StopEnding, str] = {
    "cancelled": "",
    "raised": " with an error",
    "returned": "; it ran to its end, and its late value was dropped",
    "killed": "; its process was killed",
}


class LiveView:
    """Prints what agents say and do.

    Parameters:
        console: where to print; a new one on standard output by default.
    """

    name = "live-view"
    inject = ("tools",)

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or make_console()
        self._mid_line = False

    def apply(self, ctx: Context, config: object = None) -> None:
        """Start listening."""
        tools = ctx.tools

        async def started(execution: ToolExecution, proceed: Next[ToolResult]) -> ToolResult:
            if execution.parent is None:
                view = view_of_call(tools.get(execution.name, execution.scope), execution.arguments)
                self._print(render_call(view, name=execution.name, arguments=execution.arguments))
            return await proceed()

        def settled(execution: ToolExecution, result: ToolResult) -> None:
            if execution.parent is not None:
                return
            definition = tools.get(execution.name, execution.scope)
            presented = PresentedResult(result.content, result.is_error, result.meta)
            self._print(
                render_result(
                    view_of_result(definition, execution.arguments, presented),
                    name=execution.name,
                    arguments=execution.arguments,
                    content=result.content,
                    is_error=result.is_error,
                    call=view_of_call(definition, execution.arguments),
                )
            )

        ctx.on(EXECUTE, started, prepend=True)
        ctx.on(TOOL_RESULT, settled)
        ctx.on(TOOL_STATE, self._stands)
        ctx.on(APPROVAL_DECIDED, self._decided)
        ctx.on(APPROVAL_SUSPENDED, self._suspended)
        ctx.on(MODEL_EVENT, self._model_event)
        ctx.on(TURN_END, self._turn_end)

    def _stands(self, execution: ToolExecution, status: CallStatus) -> None:
        """Say of a call that it is told to stop, and how it then did; the rest its cards tell."""
        name, stop = plain(execution.name), execution.stop
        if status == "stopping":
            self._print(Text(f"  {name} is told to stop", "yellow"))
        elif status == "stopped" and stop is not None:
            after = "" if stop.seconds is None else f" after {stop.seconds:.1f} s"
            self._print(Text(f"  {name} has stopped{after}{_ENDINGS[stop.ending]}", "yellow"))

    def _decided(self, request: ApprovalRequest, answer: ApprovalAnswer) -> None:
        why = "" if request.reason is None else f" ({plain(request.reason)})"
        said = f"? a person was asked about {plain(request.tool_name)}{why}: {answer.outcome}"
        self._print(Text(said, "green" if answer.outcome == "allowed-once" else "yellow"))

    def _suspended(self, request: ApprovalRequest) -> None:
        why = "" if request.reason is None else f" ({plain(request.reason)})"
        self._print(Text(f"? nobody has answered about {plain(request.tool_name)}{why}: its call waits", "yellow"))

    def _model_event(self, _agent: Agent, event: ModelEvent) -> None:
        if isinstance(event, TextDelta):
            self.console.print(Text(plain(event.text)), end="", soft_wrap=True)
            self._mid_line = not event.text.endswith("\n")
        elif isinstance(event, Retrying):
            wait = f"asking again in {event.delay:.1f} s"
            said = f"  the model failed ({event.failure.code}): {plain(event.failure.message)}; {wait}"
            self._print(Text(said, "yellow"))
        elif isinstance(event, (Finish, ModelFailed)):
            self._end_line()

    def _turn_end(self, _agent: Agent, reason: TurnEndReason) -> None:
        if isinstance(reason, Failed):
            self._print(Text(f"  the turn failed ({reason.code}): {plain(reason.message)}", "red"))
        elif isinstance(reason, Aborted):
            self._print(Text("  the turn was cancelled", "yellow"))
        elif isinstance(reason, MaxTokens):
            self._print(Text("  the answer hit its length limit", "yellow"))
        elif isinstance(reason, Completed):
            self._end_line()

    def _end_line(self) -> None:
        if self._mid_line:
            self.console.print()
            self._mid_line = False

    def _print(self, renderable: object) -> None:
        self._end_line()
        self.console.print(renderable)
