"""Agents: turns and steps over a session, a model and the tools. Read ``turn.py`` first."""

from __future__ import annotations

from .agent import Agent, AgentConfig, TurnOutcome
from .agents import Agents, AgentsPlugin
from .delegate import agent_tool
from .hooks import AGENT_DISPOSED, AGENT_IDLE, MODEL_EVENT, SESSION_START, TURN_END
from .inbox import Inbox
from .structured import STRUCTURED_OUTPUT, StructuredOutput

__all__ = [
    "AGENT_DISPOSED",
    "AGENT_IDLE",
    "MODEL_EVENT",
    "SESSION_START",
    "STRUCTURED_OUTPUT",
    "TURN_END",
    "Agent",
    "AgentConfig",
    "Agents",
    "AgentsPlugin",
    "Inbox",
    "StructuredOutput",
    "TurnOutcome",
    "agent_tool",
]
