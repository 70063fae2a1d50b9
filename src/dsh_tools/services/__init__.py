"""Plugins around the registry: time limits, approval, prompt assembly, jobs and the rest.

None of them is needed to use the registry alone. Each one is a module or folder of its own, with
its documentation at the top. Public names only.
"""

from __future__ import annotations

from .approval import (
    APPROVAL_ASKED,
    APPROVAL_DECIDED,
    APPROVAL_REQUEST,
    APPROVAL_SUSPENDED,
    Approval,
    ApprovalAnswer,
    ApprovalConfig,
    ApprovalPlugin,
    ApprovalRequest,
    always,
    answer_question,
    open_questions,
    scripted,
)
from .jobs import (
    JOB_FINISHED,
    JOBS_CHANGE,
    JobHandle,
    JobInfo,
    JobOutcome,
    JobOutput,
    JobRun,
    Jobs,
    JobsConfig,
    JobsPlugin,
    JobToolsConfig,
    JobToolsPlugin,
    JobWork,
    task_work,
)
from .limits import LimitConfig, LimitsConfig, LimitsPlugin
from .metrics import METRICS, Metrics, MetricsConfig, MetricsPlugin, ToolMetrics
from .policy import PolicyConfig, PolicyPlugin
from .records import CallRecordPlugin
from .repeat import RepeatReminderConfig, RepeatReminderPlugin
from .retry import TOOL_RETRY, RetryConfig, RetryPlugin
from .spill import (
    LocalSpillConfig,
    LocalSpillPlugin,
    SpillPolicyConfig,
    SpillPolicyPlugin,
    SpillStore,
)
from .system_prompt import (
    SYSTEM_PROMPT_ASSEMBLE,
    SYSTEM_PROMPT_CHANGE,
    AssembledPrompt,
    AssembleRequest,
    Assembly,
    PromptHistoryPlugin,
    SystemPrompt,
    SystemPromptConfig,
    SystemPromptPlugin,
    ToolOffer,
    explain_change,
    kept_fingerprints,
    runtime_context_update,
)
from .timeout import TimeoutConfig, TimeoutPlugin
from .tracing import TracingConfig, TracingPlugin

__all__ = [
    "APPROVAL_ASKED",
    "APPROVAL_DECIDED",
    "APPROVAL_REQUEST",
    "APPROVAL_SUSPENDED",
    "JOBS_CHANGE",
    "JOB_FINISHED",
    "METRICS",
    "SYSTEM_PROMPT_ASSEMBLE",
    "SYSTEM_PROMPT_CHANGE",
    "TOOL_RETRY",
    "Approval",
    "ApprovalAnswer",
    "ApprovalConfig",
    "ApprovalPlugin",
    "ApprovalRequest",
    "AssembleRequest",
    "AssembledPrompt",
    "Assembly",
    "CallRecordPlugin",
    "JobHandle",
    "JobInfo",
    "JobOutcome",
    "JobOutput",
    "JobRun",
    "JobToolsConfig",
    "JobToolsPlugin",
    "JobWork",
    "Jobs",
    "JobsConfig",
    "JobsPlugin",
    "LimitConfig",
    "LimitsConfig",
    "LimitsPlugin",
    "LocalSpillConfig",
    "LocalSpillPlugin",
    "Metrics",
    "MetricsConfig",
    "MetricsPlugin",
    "PolicyConfig",
    "PolicyPlugin",
    "PromptHistoryPlugin",
    "RepeatReminderConfig",
    "RepeatReminderPlugin",
    "RetryConfig",
    "RetryPlugin",
    "SpillPolicyConfig",
    "SpillPolicyPlugin",
    "SpillStore",
    "SystemPrompt",
    "SystemPromptConfig",
    "SystemPromptPlugin",
    "TimeoutConfig",
    "TimeoutPlugin",
    "ToolMetrics",
    "ToolOffer",
    "TracingConfig",
    "TracingPlugin",
    "always",
    "answer_question",
    "explain_change",
    "kept_fingerprints",
    "open_questions",
    "runtime_context_update",
    "scripted",
    "task_work",
]
