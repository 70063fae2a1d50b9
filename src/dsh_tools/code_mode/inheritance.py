"""What an outer call inherits of a call that its program made, as a value that can be kept (CODE-112 to 114)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..content import ImageBlock
from ..json_value import JsonValue, snapshot
from ..messages import UserMessage, record_json
from ..tools.result import ToolResult, ToolSuccess
from .bridge import IMAGES_FROM

if TYPE_CHECKING:
    from ..tools.execution import ToolExecution

__all__ = ["hand_on", "inheritance"]


def inheritance(result: ToolResult) -> JsonValue:
    """Return what the outer call gets of a result: contexts, images first, the turn's end; None for nothing."""
    contexts: list[UserMessage] = list(result.additional_contexts or ())
    kept: dict[str, Any] = {}
    if isinstance(result, ToolSuccess):
        for block in result.content:
            if isinstance(block, ImageBlock):
                contexts.insert(0, UserMessage(result.content, IMAGES_FROM))
                break
        if result.concludes_turn is True:
            kept["concludes"] = True
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
