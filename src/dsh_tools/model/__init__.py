"""Models: one way to ask any of them, the adapters that ship, and an answer put together from its stream.

Adapters for providers need the extras ``[openai]`` and ``[anthropic]``; importing this does not.
"""

from __future__ import annotations

from .anthropic import AnthropicModel
from .base import (
    Finish,
    FinishReason,
    ModelAdapter,
    ModelEvent,
    ModelFailed,
    ModelFailure,
    ModelRequest,
    ReasoningDelta,
    ReasoningDone,
    Retrying,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
)
from .collect import AnswerCollector
from .openai_compatible import OpenAICompatibleModel
from .retry import RetryingModel, RetryPolicy
from .scripted import ScriptedCall, ScriptedModel, ScriptedStep, call, say

__all__ = [
    "AnswerCollector",
    "AnthropicModel",
    "Finish",
    "FinishReason",
    "ModelAdapter",
    "ModelEvent",
    "ModelFailed",
    "ModelFailure",
    "ModelRequest",
    "OpenAICompatibleModel",
    "ReasoningDelta",
    "ReasoningDone",
    "RetryPolicy",
    "Retrying",
    "RetryingModel",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedStep",
    "TextDelta",
    "ToolCallDelta",
    "ToolCallDone",
    "call",
    "say",
]
