"""What a tool is, where it is found, what a call of it ends in. Knows nothing of running."""

from __future__ import annotations

from .cards import CallView, ResultView
from .decorator import FunctionTool, tool
from .define import define_tool
from .definition import Isolation, OutputSpec, PresentedResult, ToolDefinition, render_value
from .events import (
    CODE_DISPATCH_LOG,
    EXECUTE,
    POST_EXECUTE,
    PRE_EXECUTE,
    TOOL_PROGRESS,
    TOOL_RESULT,
    TOOL_STATE,
    TOOL_SUSPENDED,
    TOOLS_CHANGE,
    Accept,
    Allow,
    Ask,
    Block,
    Decision,
    Deny,
    DispatchLogEntry,
    PostDecision,
    Review,
)
from .execution import AgentLike, CallToken, DurableCall, ToolCall, ToolExecution, ToolRunContext
from .presenting import view_of_call, view_of_result
from .registered import RegisteredTool, ToolSchema, compile_definition
from .registry import RESERVED_NAME, ToolRegistry
from .result import ErrorDetail, ErrorInfo, ToolFailure, ToolResult, ToolSuccess, failure, failure_from
from .stopping import CallStatus, StopReport
from .typing_aids import ToolOptions
from .visibility import Mode, View

__all__ = [
    "CODE_DISPATCH_LOG",
    "EXECUTE",
    "POST_EXECUTE",
    "PRE_EXECUTE",
    "RESERVED_NAME",
    "TOOLS_CHANGE",
    "TOOL_PROGRESS",
    "TOOL_RESULT",
    "TOOL_STATE",
    "TOOL_SUSPENDED",
    "Accept",
    "AgentLike",
    "Allow",
    "Ask",
    "Block",
    "CallStatus",
    "CallToken",
    "CallView",
    "Decision",
    "Deny",
    "DispatchLogEntry",
    "DurableCall",
    "ErrorDetail",
    "ErrorInfo",
    "FunctionTool",
    "Isolation",
    "Mode",
    "OutputSpec",
    "PostDecision",
    "PresentedResult",
    "RegisteredTool",
    "ResultView",
    "Review",
    "StopReport",
    "ToolCall",
    "ToolDefinition",
    "ToolExecution",
    "ToolFailure",
    "ToolOptions",
    "ToolRegistry",
    "ToolResult",
    "ToolRunContext",
    "ToolSchema",
    "ToolSuccess",
    "View",
    "compile_definition",
    "define_tool",
    "failure",
    "failure_from",
    "render_value",
    "tool",
    "view_of_call",
    "view_of_result",
]
