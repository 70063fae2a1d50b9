"""How one call runs, and how batches of calls run. Start with ``pipeline.py``."""

from __future__ import annotations

from .guards import Guard
from .run import Run
from .service import ExecutionMode, Tools, ToolsConfig, ToolService, ToolsPlugin

__all__ = ["ExecutionMode", "Guard", "Run", "ToolService", "Tools", "ToolsConfig", "ToolsPlugin"]
