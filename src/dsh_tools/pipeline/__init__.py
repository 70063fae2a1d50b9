"""How one call runs, and how batches of calls run. Start with ``pipeline.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .explain import Explanation, Foreseen
    from .guards import Guard
    from .run import ABORTED_BEFORE_DISPATCH, Run
    from .scheduler import CallLane, LaneOwner, Slot
    from .service import ExecutionMode, Tools, ToolsConfig, ToolService, ToolsPlugin
else:
    # The process of a body needs one folder of this package, and nothing of the service.
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "explain": ("Explanation", "Foreseen"),
            "guards": ("Guard",),
            "run": ("ABORTED_BEFORE_DISPATCH", "Run"),
            "scheduler": ("CallLane", "LaneOwner", "Slot"),
            "service": ("ExecutionMode", "Tools", "ToolsConfig", "ToolService", "ToolsPlugin"),
        },
    )

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
