"""The result of a call that ran in an earlier process, as its log entry shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..content import Content, text
from ..json_value import to_json_text
from ..tools.blocks import checked_content
from ..tools.result import ToolResult, ToolSuccess, failure

if TYPE_CHECKING:
    from ..tools.registered import RegisteredTool
    from .journal import JournalStep

__all__ = ["replayed_result"]


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
