"""What is said of a run that repeats an earlier one: the results that it has, and where it takes another path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from ..content import Content, text
from ..errors import CodeRunFailedError
from ..json_value import to_json_text
from ..tools.blocks import checked_content
from ..tools.result import ToolResult, ToolSuccess, failure

if TYPE_CHECKING:
    from ..tools.registered import RegisteredTool
    from .journal import JournalStep

__all__ = ["DIVERGED", "diverged", "replayed_result", "shown"]

DIVERGED: Final = "CODE_REPLAY_DIVERGED"
"""The code of a run that took another path than its journal says."""


class Request(Protocol):
    """One request of a program to the host, now or in an earlier run."""

    @property
    def kind(self) -> str:
        """``call`` or ``timer``."""
        ...

    @property
    def name(self) -> str:
        """The tool."""
        ...

    @property
    def arguments(self) -> str:
        """The digest of the arguments, or the milliseconds."""
        ...


def diverged(number: int, what: str) -> CodeRunFailedError:
    """Return the error of a run that did not make its request ``number`` as it had made it before."""
    return CodeRunFailedError(
        f"the program did not do what it had done before it was stopped: request {number} {what}", DIVERGED
    )


def shown(request: Request) -> str:
    """Name a request in a message."""
    if request.kind == "timer":
        return f"a timer of {request.arguments} ms"
    given = f"arguments {request.arguments[:12]}" if request.arguments else "no JSON"
    return f"a call of {request.name} with {given}"


def replayed_result(tool: RegisteredTool | None, arguments: Any, step: JournalStep) -> ToolResult:
    """Return the result that a journaled outcome stands for; its content is what the tool renders."""
    if step.state != "value":
        return failure(str(step.outcome))
    return ToolSuccess(step.outcome, _render(tool, arguments, step.outcome))


def _render(tool: RegisteredTool | None, arguments: Any, value: Any) -> Content:
    content: Content | None = None
    if tool is not None:
        try:
            content = checked_content(tool.render(arguments, value))
        except Exception:
            # A renderer that fails now did not then; the value itself is what there is to show.
            content = None
    return text(to_json_text(value)) if content is None else content
