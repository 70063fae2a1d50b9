"""dsh-tools: the tool layer of an LLM agent.

The layout::

    tools/         what a tool is and where it is found      (``@tool``, ``define_tool``, the registry)
    pipeline/      how one call runs                         (start with ``pipeline/pipeline.py``)
    kernel/        lifetimes, hook points, scopes, signals
    services/      approval, time limits, prompt, policy, …  (each one a plugin)
    agent/         turns and steps; session/ what happened, durably; model/ who is asked
    code_mode/     tools as an SDK for programs; code_runtime/ where those run
    toolkits/      ready-made tools; terminal/ cards; cli/ the command
    standard.py    the default composition
"""

from __future__ import annotations

from .lazy_exports import lazy_exports

TYPE_CHECKING = False  # importing typing for it would double what this package takes
if TYPE_CHECKING:
    from .agent import Agent, AgentConfig, TurnOutcome
    from .content import ContentBlock, ImageBlock, JsonBlock, TextBlock, text
    from .errors import HarnessError, ToolArgsError, ToolError, ToolNotFoundError, ToolOutputError
    from .kernel import AbortController, AbortSignal, Context, Scope, create_context, effect_free, hands_on
    from .schema import RawSchema, from_types
    from .standard import StandardConfig, standard
    from .tools import (
        CODE_DISPATCH_LOG,
        EXECUTE,
        POST_EXECUTE,
        PRE_EXECUTE,
        TOOL_PROGRESS,
        TOOL_RESULT,
        TOOL_STATE,
        TOOLS_CHANGE,
        Accept,
        Allow,
        Ask,
        Block,
        Deny,
        FunctionTool,
        OutputSpec,
        ToolCall,
        ToolDefinition,
        ToolExecution,
        ToolFailure,
        ToolResult,
        ToolRunContext,
        ToolSuccess,
        define_tool,
        tool,
    )
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "agent": (
                "Agent",
                "AgentConfig",
                "TurnOutcome",
            ),
            "code_mode": (),
            "code_runtime": (),
            "content": (
                "ContentBlock",
                "ImageBlock",
                "JsonBlock",
                "TextBlock",
                "text",
            ),
            "errors": (
                "HarnessError",
                "ToolArgsError",
                "ToolError",
                "ToolNotFoundError",
                "ToolOutputError",
            ),
            "json_value": (),
            "kernel": (
                "AbortController",
                "AbortSignal",
                "Context",
                "Scope",
                "create_context",
                "effect_free",
                "hands_on",
            ),
            "messages": (),
            "model": (),
            "pipeline": (),
            "schema": (
                "RawSchema",
                "from_types",
            ),
            "services": (),
            "session": (),
            "standard": (
                "StandardConfig",
                "standard",
            ),
            "tools": (
                "CODE_DISPATCH_LOG",
                "EXECUTE",
                "POST_EXECUTE",
                "PRE_EXECUTE",
                "TOOL_PROGRESS",
                "TOOL_RESULT",
                "TOOL_STATE",
                "TOOLS_CHANGE",
                "Accept",
                "Allow",
                "Ask",
                "Block",
                "Deny",
                "FunctionTool",
                "OutputSpec",
                "ToolCall",
                "ToolDefinition",
                "ToolExecution",
                "ToolFailure",
                "ToolResult",
                "ToolRunContext",
                "ToolSuccess",
                "define_tool",
                "tool",
            ),
        },
    )

__all__ = [
    "CODE_DISPATCH_LOG",
    "EXECUTE",
    "POST_EXECUTE",
    "PRE_EXECUTE",
    "TOOLS_CHANGE",
    "TOOL_PROGRESS",
    "TOOL_RESULT",
    "TOOL_STATE",
    "AbortController",
    "AbortSignal",
    "Accept",
    "Agent",
    "AgentConfig",
    "Allow",
    "Ask",
    "Block",
    "ContentBlock",
    "Context",
    "Deny",
    "FunctionTool",
    "HarnessError",
    "ImageBlock",
    "JsonBlock",
    "OutputSpec",
    "RawSchema",
    "Scope",
    "StandardConfig",
    "TextBlock",
    "ToolArgsError",
    "ToolCall",
    "ToolDefinition",
    "ToolError",
    "ToolExecution",
    "ToolFailure",
    "ToolNotFoundError",
    "ToolOutputError",
    "ToolResult",
    "ToolRunContext",
    "ToolSuccess",
    "TurnOutcome",
    "create_context",
    "define_tool",
    "effect_free",
    "from_types",
    "hands_on",
    "standard",
    "text",
    "tool",
]
