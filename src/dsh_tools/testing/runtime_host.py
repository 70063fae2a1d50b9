"""Host functions for the runtime suite, and a count of what a process holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from ..code_runtime import BindingNamespace, CodeRunRequest, Determinism, ErrorClassSpec, HostAnswer

__all__ = ["Host", "OrderedHost", "holdings"]

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


class OrderedHost:
    """Answers the calls of a deterministic program, timers among them, in the order of these numbers.

    The number of a call is how many came before it. The clock moves by a second with each answer.
    """

    START = 1_700_000_000_000

    def __init__(self, *order: int) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._left = list(order)
        self._owed: dict[int, HostAnswer] = {}
        self._now = self.START

    def request(self, program: str, seed: str) -> CodeRunRequest:
        """Return a request with ``tools.echo``, the only function."""
        space = BindingNamespace("tools", {"echo": lambda args: self._call("echo", args)}, _TOOL_CALL_ERROR)
        determinism = Determinism(seed, self.START, lambda milliseconds: self._call("sleep", milliseconds))
        return CodeRunRequest(program, [space], determinism=determinism)

    def _call(self, name: str, args: Any) -> HostAnswer:
        loop = asyncio.get_running_loop()
        answer = HostAnswer(loop=loop)
        self._owed[len(self.calls)] = answer
        self.calls.append((name, args))
        loop.call_soon(self._answer)
        return answer

    def _answer(self) -> None:
        while self._left and self._left[0] in self._owed:
            number = self._left.pop(0)
            answer = self._owed.pop(number)
            self._now += 1000
            answer.at = self._now
            if not answer.done():
                answer.set_result(self.calls[number][1])


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
