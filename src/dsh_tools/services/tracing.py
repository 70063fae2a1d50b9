"""One OpenTelemetry span for each call, by the semantic conventions for generative AI.

Mount it where the ``otel`` extra is installed; spans go to whatever provider the application has set up::

    ctx.plugin(TracingPlugin())

A span is called ``execute_tool <name>`` and begins when the call is taken in. Its attributes are
``gen_ai.operation.name``, ``gen_ai.tool.name``, ``gen_ai.tool.type``, ``gen_ai.tool.call.id``, and for an agent with a
session ``gen_ai.conversation.id``. Stages are events on it: ``authorized``, ``dispatched``, ``returned``, ``reviewed``,
and ``retried`` for each further attempt; where it stands as well: ``queued``, ``running``, ``stopping``, ``stopped``. A
call that fails sets ``error.type`` to its code, or to ``tool_error``. A call that was told to stop has
``dsh_tools.stop.cause``, ``dsh_tools.stop.ending`` and, where that is known, ``dsh_tools.stop.seconds``.

Spans nest: a call that a program makes is a child of the call that runs the program, and spans that a body opens are
children of its call's.

What is said stays out: arguments and results are recorded only with ``capture_content: true``, as JSON text.

Only the API is used. Without a provider it does nothing, at the cost of a few calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pydantic

from ..content import content_text
from ..errors import ConfigError
from ..json_value import is_lossless, to_json_text
from ..kernel.markers import hands_on
from ..tools.events import (
    EXECUTE,
    POST_EXECUTE,
    PRE_EXECUTE,
    TOOL_RESULT,
    TOOL_STATE,
    TOOL_SUSPENDED,
    Decision,
    PostDecision,
    Review,
)
from ..tools.result import ToolFailure, ToolResult
from .agents import session_of
from .retry import TOOL_RETRY

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from ..kernel.context import Context
    from ..kernel.hooks import Next
    from ..tools.execution import CallToken, ToolExecution
    from ..tools.stopping import CallStatus

__all__ = ["TracingConfig", "TracingPlugin"]

_INSTRUMENTATION = "dsh_tools"


class TracingConfig(pydantic.BaseModel):
    """Configuration of tracing.

    Parameters:
        capture_content: record arguments and results, too; they may hold anything.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    capture_content: bool = False


class TracingPlugin:
    """Makes a span of each call.

    Parameters:
        provider: where spans go; the application's global provider by default.
    """

    name = "tracing"
    Config = TracingConfig

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._provider = provider

    def apply(self, ctx: Context, config: TracingConfig) -> None:
        """Register the listeners, around those that are there.

        Raises:
            ConfigError: OpenTelemetry is not installed.
        """
        try:
            # An optional extra: whoever doesn't trace doesn't need it.
            from opentelemetry import trace
        except ImportError as error:
            raise ConfigError("tracing needs OpenTelemetry; install the extra: dsh-tools[otel]") from error
        tracer = trace.get_tracer(_INSTRUMENTATION, tracer_provider=self._provider)
        spans = _Spans(trace, tracer, config.capture_content)
        ctx.effect(lambda: spans.end_all, "spans")
        ctx.on(PRE_EXECUTE, spans.authorize, prepend=True)
        ctx.on(EXECUTE, spans.execute, prepend=True)
        ctx.on(POST_EXECUTE, spans.review, prepend=True)
        ctx.on(TOOL_RETRY, spans.retried)
        ctx.on(TOOL_STATE, spans.state)
        ctx.on(TOOL_SUSPENDED, spans.suspended)
        ctx.on(TOOL_RESULT, spans.finish)


class _Spans:
    """The spans of the calls that are running."""

    def __init__(self, trace: Any, tracer: Tracer, capture: bool) -> None:
        self._trace = trace
        self._tracer = tracer
        self._capture = capture
        self._open: dict[CallToken, Span] = {}

    @hands_on
    async def authorize(self, execution: ToolExecution, next: Next[Decision]) -> Decision:
        """Begin the span, and note what policy decided."""
        span = self._span_of(execution)
        decision = await next()
        span.add_event("authorized", {"decision": type(decision).__name__.lower()})
        return decision

    async def execute(self, execution: ToolExecution, next: Next[ToolResult]) -> ToolResult:
        """Make the span the current one while the body runs."""
        span = self._span_of(execution)
        span.add_event("dispatched")
        with self._trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
            result = await next()
        span.add_event("returned", {"error": result.is_error})
        return result

    async def review(self, review: Review, next: Next[PostDecision]) -> PostDecision:
        """Note what the review made of the result."""
        decision = await next()
        self._span_of(review.execution).add_event("reviewed", {"decision": type(decision).__name__.lower()})
        return decision

    def retried(self, execution: ToolExecution, attempt: int, reason: ToolFailure) -> None:
        """Note a further attempt."""
        attributes: dict[str, str | int] = {"attempt": attempt}
        if self._capture:
            attributes["reason"] = reason.error.message
        self._span_of(execution).add_event("retried", attributes)

    def state(self, execution: ToolExecution, status: CallStatus) -> None:
        """Note where the call stands."""
        self._span_of(execution).add_event(status)

    def suspended(self, execution: ToolExecution) -> None:
        """End the span of a call that waits for a person; its resumption is a call of its own."""
        span = self._open.pop(execution.token, None)
        if span is not None:
            span.add_event("suspended")
            span.end()

    def finish(self, execution: ToolExecution, result: ToolResult) -> None:
        """End the span with the final result."""
        span = self._span_of(execution)
        del self._open[execution.token]
        if isinstance(result, ToolFailure):
            info = result.error.info
            span.set_attribute("error.type", info.code if info else "tool_error")
            span.set_status(self._trace.StatusCode.ERROR, result.error.message if self._capture else None)
        stop = execution.stop
        if stop is not None:
            span.set_attribute("dsh_tools.stop.cause", stop.cause)
            span.set_attribute("dsh_tools.stop.ending", stop.ending)
            if stop.seconds is not None:
                span.set_attribute("dsh_tools.stop.seconds", stop.seconds)
        if self._capture:
            span.set_attribute("gen_ai.tool.call.result", content_text(result.content))
        span.end()

    def end_all(self) -> None:
        """End what is open; the calls go on unseen."""
        while self._open:
            self._open.popitem()[1].end()

    def _span_of(self, execution: ToolExecution) -> Span:
        span = self._open.get(execution.token)
        if span is None:
            span = self._open[execution.token] = self._begin(execution)
        return span

    def _begin(self, execution: ToolExecution) -> Span:
        attributes: dict[str, str] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": execution.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": execution.call_id,
        }
        log = session_of(execution.agent)
        if log is not None:
            attributes["gen_ai.conversation.id"] = log.id
        # What failed the check of its arguments may hold anything.
        if self._capture and is_lossless(execution.arguments):
            attributes["gen_ai.tool.call.arguments"] = to_json_text(execution.arguments)
        # A call without a parent belongs to whatever span is current where it was made.
        parent = None if execution.parent is None else self._open.get(execution.parent)
        context = None if parent is None else self._trace.set_span_in_context(parent)
        return self._tracer.start_span(f"execute_tool {execution.name}", context=context, attributes=attributes)
