"""How one call runs, and how batches of calls run. Start with ``pipeline.py``."""

from __future__ import annotations

from .explain import Explanation, Foreseen
from .guards import Guard
from .run import ABORTED_BEFORE_DISPATCH, Run
from .scheduler import CallLane, LaneOwner, Slot
from .service import ExecutionMode, Tools, ToolsConfig, ToolService, ToolsPlugin

__all__ = [
    "ABORTED_BEFORE_DISPATCH",
    "CallLane",
    "ExecutionMode",
    "Explanation",
    "Foreseen",
    "Guard",
    "LaneOwner",
    "Run",
    "Slot",
    "ToolService",
    "Tools",
    "ToolsConfig",
    "ToolsPlugin",
]
