"""Host functions for the runtime suite, and a count of what a process holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from ..code_runtime import BindingNamespace, ErrorClassSpec

__all__ = ["Host", "holdings"]

_TOOL_CALL_ERROR = ErrorClassSpec("ToolCallError", "toolName")


class Host:
    """The host functions that the suite's programs call, and a record of the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.running = 0
        self.most_running = 0
        self.cancelled = 0
        self.started = asyncio.Event()

    async def echo(self, args: Any) -> Any:
        """Return the arguments."""
        self.calls.append(("echo", args))
        return args

    async def fail(self, args: Any) -> Any:
        """Fail with the message asked for."""
        self.calls.append(("fail", args))
        raise ValueError(args.get("message", "deliberate failure"))

    async def slow(self, args: Any) -> Any:
        """Take a moment."""
        self.calls.append(("slow", args))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.started.set()
        try:
            await asyncio.sleep(args.get("seconds", 0.05))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        return args

    async def lossy(self, args: Any) -> Any:
        """Return what JSON cannot hold."""
        return {"value": {1, 2}}

    def namespace(self, error: ErrorClassSpec | None = _TOOL_CALL_ERROR) -> BindingNamespace:
        """All of them under the global ``tools``."""
        functions: Mapping[str, Callable[[Any], Awaitable[Any]]] = {
            "echo": self.echo,
            "fail": self.fail,
            "slow": self.slow,
            "lossy": self.lossy,
            "odd-name": self.echo,
        }
        return BindingNamespace("tools", functions, error)


def holdings() -> dict[str, int]:
    """Count the child processes, descriptors and tasks of this process."""
    descriptors = 0
    with suppress(OSError):
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return {
        "children": len(psutil.Process().children(recursive=True)),
        "descriptors": descriptors,
        "tasks": len(asyncio.all_tasks()),
    }
