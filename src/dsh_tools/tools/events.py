"""The hook points of a call, and what their listeners may answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from ..content import ContentBlock
from ..kernel.hooks import EmitHook, WaterfallHook
from ..messages import UserMessage
from .execution import ToolExecution
from .result import ToolResult
from .stopping import CallStatus

__all__ = [
    "CODE_DISPATCH_LOG",
    "EXECUTE",
    "POST_EXECUTE",
    "PRE_EXECUTE",
    "TOOLS_CHANGE",
    "TOOL_PROGRESS",
    "TOOL_RESULT",
    "TOOL_STATE",
    "TOOL_SUSPENDED",
    "Accept",
    "Allow",
    "Ask",
    "Block",
    "Decision",
    "Deny",
    "DispatchLogEntry",
    "PostDecision",
    "Review",
]


class Allow(msgspec.Struct, frozen=True, tag_field="kind", tag="allow"):
    """Let the call go on to the guards (PIPE-111)."""


class Deny(msgspec.Struct, frozen=True, tag_field="kind", tag="deny"):
    """Refuse the call; the model reads ``Error: <reason>`` (PIPE-111)."""

    reason: str | None = None


class Ask(msgspec.Struct, frozen=True, tag_field="kind", tag="ask"):
    """Ask a person first; ``reason`` is shown to them (PIPE-112)."""

    reason: str | None = None


Decision: TypeAlias = Allow | Deny | Ask


class Accept(msgspec.Struct, frozen=True, tag_field="kind", tag="accept"):
    """Keep the result, replace its ``content`` or its ``value`` (never both), or add contexts (PIPE-157 to 162)."""

    value: Any = UNSET
    content: Sequence[ContentBlock] | UnsetType = UNSET
    additional_contexts: Sequence[UserMessage] = ()


class Block(msgspec.Struct, frozen=True, tag_field="kind", tag="block"):
    """Replace the result by a failure whose content is ``feedback``, verbatim (PIPE-163)."""

    feedback: Sequence[ContentBlock]
    additional_contexts: Sequence[UserMessage] = ()


PostDecision: TypeAlias = Accept | Block


class Review(msgspec.Struct, frozen=True):
    """What a ``tools/post-execute`` listener looks at: the execution and its result so far."""

    execution: ToolExecution
    result: ToolResult


class DispatchLogEntry(msgspec.Struct, frozen=True):
    """The settled sub-call whose logged content a ``tools/code-dispatch-log`` listener may replace (CODE-110)."""

    execution: ToolExecution
    sub_call_id: str
    name: str
    is_error: bool
    content: tuple[ContentBlock, ...]


PRE_EXECUTE: WaterfallHook[ToolExecution, Decision] = WaterfallHook("tools/pre-execute")
"""Decide whether a call may run. Listener: ``(execution, next) -> Decision``."""

EXECUTE: WaterfallHook[ToolExecution, ToolResult] = WaterfallHook("tools/execute")
"""Wrap the body. Listener: ``(execution, next) -> ToolResult``."""

POST_EXECUTE: WaterfallHook[Review, PostDecision] = WaterfallHook("tools/post-execute")
"""Review a result. Listener: ``(review, next) -> Accept | Block``."""

TOOL_RESULT: EmitHook[ToolExecution, ToolResult] = EmitHook("tools/result")
"""Observe each call's final result, exactly once."""

TOOL_PROGRESS: EmitHook[ToolExecution, object] = EmitHook("tools/progress")
"""Observe how far a running body is."""

TOOL_SUSPENDED: EmitHook[ToolExecution] = EmitHook("tools/suspended")
"""Observe that a call waits for a person and ends here without a result; a resumed call is a new execution."""

TOOL_STATE: EmitHook[ToolExecution, CallStatus] = EmitHook("tools/state")
"""Observe where a call stands: queued, running, stopping, stopped. ``execution.stop`` says how it stopped."""

TOOLS_CHANGE: EmitHook[()] = EmitHook("tools/change")
"""Observe that the set of visible tools may have changed."""

CODE_DISPATCH_LOG: WaterfallHook[DispatchLogEntry, Sequence[ContentBlock]] = WaterfallHook("tools/code-dispatch-log")
"""Replace the logged copy of a sub-call's content."""
