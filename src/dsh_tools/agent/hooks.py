"""What can be observed of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..kernel.hooks import EmitHook

if TYPE_CHECKING:
    from ..model import ModelEvent
    from ..session.events import TurnEndReason
    from .agent import Agent

__all__ = ["AGENT_DISPOSED", "AGENT_IDLE", "MODEL_EVENT", "SESSION_START", "TURN_END"]

SESSION_START: EmitHook[Agent] = EmitHook("agent/session-start")
"""An agent is ready to be used (HOST-58)."""

MODEL_EVENT: EmitHook[Agent, ModelEvent] = EmitHook("agent/model-event")
"""A piece of a model's answer has come."""

TURN_END: EmitHook[Agent, TurnEndReason] = EmitHook("agent/turn-end")
"""A turn is over."""

AGENT_IDLE: EmitHook[Agent] = EmitHook("agent/idle")
"""An agent has nothing to do."""

AGENT_DISPOSED: EmitHook[Agent] = EmitHook("agent/disposed")
"""An agent is gone."""
