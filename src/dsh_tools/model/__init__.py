"""Models: one way to ask any of them, the adapters that ship, and an answer put together from its stream.

Adapters for providers need the extras ``[openai]`` and ``[anthropic]``; importing this does not::

    model = RetryingModel(OpenAICompatibleModel("qwen3", base_url="http://localhost:11434/v1"))
    agent = await ctx.agents.create("main", model)

**The adapters.** :class:`OpenAICompatibleModel` speaks chat completions with whatever server ``base_url`` names,
:class:`AnthropicModel` the messages API, and :class:`ScriptedModel` plays a script, for tests and demonstrations. Keys
come from the provider's environment variable. Names that a provider refuses are sent in a form that it takes, and
come back as they were.

**A stream** is text, reasoning and call pieces, and ends in exactly one event: ``Finish`` or ``ModelFailed``. An
adapter raises nothing for what a provider does; a failure carries a code, whether trying again may help, and how long
the provider asked to wait. Calls are passed on as the model wrote them, valid JSON or not: the pipeline answers
those that make no sense.

**Trying again** is the business of :class:`RetryingModel`, around any adapter: waits grow and have jitter, a
provider's ``Retry-After`` is kept, and each further attempt is an event of the stream and of the session's log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_exports import lazy_exports
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
from .retry import RetryingModel, RetryPolicy
from .scripted import ScriptedCall, ScriptedModel, ScriptedStep, call, say

if TYPE_CHECKING:
    from .anthropic import AnthropicModel
    from .openai_compatible import OpenAICompatibleModel
else:
    # A program asks one provider, and many ask none.
    __getattr__, __dir__ = lazy_exports(
        __name__, {"anthropic": ("AnthropicModel",), "openai_compatible": ("OpenAICompatibleModel",)}
    )

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
