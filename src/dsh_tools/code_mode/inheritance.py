"""What an outer call inherits of a call that its program made, as a value that can be kept (CODE-112 to 114)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ..content import ImageBlock
from ..json_value import JsonValue, snapshot
from ..messages import MessageSource, UserMessage, record_json
from ..tools.result import ToolResult, ToolSuccess

if TYPE_CHECKING:
    from ..tools.execution import ToolExecution

__all__ = ["hand_on", "inherit", "inheritance"]

_IMAGES_FROM = MessageSource("plugin", plugin="tools-code-mode")


def inherit(execution: ToolExecution, result: ToolResult) -> None:
    """Give the outer call what it gets of a result."""
    for context in _contexts(result):
        execution.defer_context(context)
    if isinstance(result, ToolSuccess) and result.concludes_turn is True:
        execution.conclude_turn()


def inheritance(result: ToolResult) -> JsonValue:
    """Return what the outer call gets of a result: contexts, images first, the turn's end; None for nothing."""
    kept: dict[str, Any] = {}
    if isinstance(result, ToolSuccess) and result.concludes_turn is True:
        kept["concludes"] = True
    contexts = _contexts(result)
    if contexts:
        kept["contexts"] = [record_json(context) for context in contexts]
    return snapshot(kept) if kept else None


def hand_on(execution: ToolExecution, inherited: Any) -> None:
    """Give the outer call what :func:`inheritance` returned, in this process or an earlier one."""
    if inherited is None:
        return
    for context in inherited.get("contexts", ()):
        execution.defer_context(msgspec.convert(context, UserMessage))
    if inherited.get("concludes"):
        execution.conclude_turn()


def _contexts(result: ToolResult) -> Sequence[UserMessage]:
    contexts = result.additional_contexts or ()
    if isinstance(result, ToolSuccess):
        for block in result.content:
            if isinstance(block, ImageBlock):
                return (UserMessage(result.content, _IMAGES_FROM), *contexts)
    return contexts
