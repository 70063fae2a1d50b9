"""Counting calls: how many, how they ended, how long they took.

Mount it, and read ``ctx.require(METRICS).snapshot()``, or let OpenTelemetry have the numbers with ``export: true``::

    ctx.plugin(MetricsPlugin(), {"export": True})

For each tool there are calls, failures by code, calls running now, and the time they took all together and at most, in
seconds, from the moment a call is taken in to its result. Calls of names that are no tools count under one name, since
a model can make up any number of them.

Exported are the counter ``dsh_tools.calls`` and the histogram ``dsh_tools.call.duration`` with the attributes
``gen_ai.tool.name`` and, for failures, ``error.type``, and ``dsh_tools.calls.running``. They need the extra ``otel``.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pydantic

from ..errors import ConfigError
from ..kernel.markers import hands_on
from ..kernel.service import ServiceKey
from ..tools.events import PRE_EXECUTE, TOOL_RESULT, TOOL_SUSPENDED, Decision
from ..tools.result import ToolFailure, ToolResult

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from ..kernel.context import Context
    from ..kernel.hooks import Next
    from ..tools.execution import CallToken, ToolExecution

__all__ = ["METRICS", "UNKNOWN_TOOLS", "Metrics", "MetricsConfig", "MetricsPlugin", "ToolMetrics"]

UNKNOWN_TOOLS: Final = "(unknown tools)"
"""The name under which calls of names that are no tools count."""


class ToolMetrics(msgspec.Struct, frozen=True, rename="camel"):
    """The numbers of one tool; times are in seconds."""

    calls: int
    failures: dict[str, int]
    running: int
    seconds: float
    longest_seconds: float


class _Tally:
    def __init__(self) -> None:
        self.calls = 0
        self.failures: Counter[str] = Counter()
        self.running = 0
        self.seconds = 0.0
        self.longest = 0.0


class Metrics:
    """The counters of an application."""

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = {}

    def snapshot(self) -> dict[str, ToolMetrics]:
        """Return the numbers so far, by tool."""
        return {
            name: ToolMetrics(tally.calls, dict(tally.failures), tally.running, tally.seconds, tally.longest)
            for name, tally in self._tallies.items()
        }

    def begin(self, name: str) -> None:
        """Count a call that has been taken in."""
        self._tally(name).running += 1

    def leave(self, name: str) -> None:
        """Count a call out that has no result yet: it waits for a person, and is taken in again when it goes on."""
        self._tally(name).running -= 1

    def end(self, name: str, code: str | None, seconds: float, *, begun: bool) -> None:
        """Count a call that has its result; ``code`` is its failure's."""
        tally = self._tally(name)
        tally.calls += 1
        tally.running -= begun
        tally.seconds += seconds
        tally.longest = max(tally.longest, seconds)
        if code is not None:
            tally.failures[code] += 1

    def _tally(self, name: str) -> _Tally:
        return self._tallies.setdefault(name, _Tally())


METRICS: ServiceKey[Metrics] = ServiceKey("metrics")
"""The key of the service."""


class MetricsConfig(pydantic.BaseModel):
    """Configuration of the counters.

    Parameters:
        export: hand the numbers to OpenTelemetry, too.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    export: bool = False


class MetricsPlugin:
    """Provides the counters.

    Parameters:
        provider: where exported numbers go; the application's global provider by default.
    """

    name = "metrics"
    inject = ("tools",)
    Config = MetricsConfig

    def __init__(self, provider: MeterProvider | None = None) -> None:
        self._provider = provider

    def apply(self, ctx: Context, config: MetricsConfig) -> None:
        """Begin to count.

        Raises:
            ConfigError: numbers are to be exported, and OpenTelemetry is not installed.
        """
        metrics = Metrics()
        watch = _Watch(ctx, metrics, _Export(self._provider) if config.export else None)
        ctx.provide(METRICS, metrics)
        ctx.on(PRE_EXECUTE, watch.begin, prepend=True)
        ctx.on(TOOL_SUSPENDED, watch.leave)
        ctx.on(TOOL_RESULT, watch.end)


class _Watch:
    def __init__(self, ctx: Context, metrics: Metrics, export: _Export | None) -> None:
        self._tools = ctx.tools
        self._metrics = metrics
        self._export = export
        self._started: dict[CallToken, tuple[str, float]] = {}

    @hands_on
    async def begin(self, execution: ToolExecution, next: Next[Decision]) -> Decision:
        name = self._name_of(execution)
        self._started[execution.token] = (name, time.perf_counter())
        self._metrics.begin(name)
        if self._export is not None:
            self._export.begin(name)
        return await next()

    def leave(self, execution: ToolExecution) -> None:
        started = self._started.pop(execution.token, None)
        if started is not None:
            self._metrics.leave(started[0])
            if self._export is not None:
                self._export.leave(started[0])

    def end(self, execution: ToolExecution, result: ToolResult) -> None:
        # A call that failed before policy looked at it was never begun, and took no time to speak of.
        started = self._started.pop(execution.token, None)
        name = self._name_of(execution) if started is None else started[0]
        seconds = 0.0 if started is None else time.perf_counter() - started[1]
        code = None
        if isinstance(result, ToolFailure):
            code = result.error.info.code if result.error.info else "tool_error"
        self._metrics.end(name, code, seconds, begun=started is not None)
        if self._export is not None:
            self._export.end(name, code, seconds, begun=started is not None)

    def _name_of(self, execution: ToolExecution) -> str:
        known = self._tools.get(execution.name, execution.scope) is not None
        return execution.name if known else UNKNOWN_TOOLS


class _Export:
    """The same numbers as OpenTelemetry instruments."""

    def __init__(self, provider: MeterProvider | None) -> None:
        try:
            # An optional extra: whoever doesn't export doesn't need it.
            from opentelemetry import metrics
        except ImportError as error:
            raise ConfigError("exporting metrics needs OpenTelemetry; install the extra: dsh-tools[otel]") from error
        meter: Any = metrics.get_meter("dsh_tools", meter_provider=provider)
        self._calls = meter.create_counter("dsh_tools.calls", "{call}", "Calls that have their result")
        self._running = meter.create_up_down_counter("dsh_tools.calls.running", "{call}", "Calls that are running")
        self._duration = meter.create_histogram("dsh_tools.call.duration", "s", "From taking a call in to its result")

    def begin(self, name: str) -> None:
        self._running.add(1, {"gen_ai.tool.name": name})

    def leave(self, name: str) -> None:
        self._running.add(-1, {"gen_ai.tool.name": name})

    def end(self, name: str, code: str | None, seconds: float, *, begun: bool) -> None:
        tool = {"gen_ai.tool.name": name}
        attributes = tool if code is None else {**tool, "error.type": code}
        if begun:
            self._running.add(-1, tool)
        self._calls.add(1, attributes)
        self._duration.record(seconds, attributes)
