"""Plugins around the registry: time limits, approval, prompt assembly, jobs and the rest.

None of them is needed to use the registry alone. Each one is a module or folder of its own, with
its documentation at the top. Public names only.
"""

from __future__ import annotations

from .approval import (
    APPROVAL_ASKED,
    APPROVAL_DECIDED,
    APPROVAL_REQUEST,
    Approval,
    ApprovalAnswer,
    ApprovalConfig,
    ApprovalPlugin,
    ApprovalRequest,
    always,
    open_questions,
    scripted,
)
from .policy import PolicyConfig, PolicyPlugin
from .timeout import TimeoutConfig, TimeoutPlugin

__all__ = [
    "APPROVAL_ASKED",
    "APPROVAL_DECIDED",
    "APPROVAL_REQUEST",
    "Approval",
    "ApprovalAnswer",
    "ApprovalConfig",
    "ApprovalPlugin",
    "ApprovalRequest",
    "PolicyConfig",
    "PolicyPlugin",
    "TimeoutConfig",
    "TimeoutPlugin",
    "always",
    "open_questions",
    "scripted",
]
