"""Spans and counters: what is recorded of calls, and what is not."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import metrics as otel_metrics
from opentelemetry import trace
from opentelemetry.trace import SpanContext, TraceFlags
from tests.support.agents import LoggedAgent

from dsh_tools.errors import ConfigError, ToolError
from dsh_tools.kernel.abort import AbortController
from dsh_tools.kernel.context import Context
from dsh_tools.services import METRICS, MetricsPlugin, RetryPlugin, TracingPlugin
from dsh_tools.services.metrics import UNKNOWN_TOOLS
from dsh_tools.tools.events import PRE_EXECUTE, Deny
from dsh_tools.tools.execution import ToolCall


class RecordedSpan(trace.Span):
    """A span that remembers."""

    def __init__(self, name: str, parent: trace.Span | None, attributes: Any) -> None:
        self.name = name
        self.parent = parent
        self.attributes: dict[str, Any] = dict(attributes or {})
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.status: Any = None
        self.ends = 0

    def end(self, end_time: int | None = None) -> None:
        self.ends += 1

    def get_span_context(self) -> SpanContext:
        return SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(1))

    def set_attributes(self, attributes: Any) -> None:
        self.attributes.update(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        self.events.append((name, dict(attributes or {})))

    def update_name(self, name: str) -> None:
        self.name = name

    def is_recording(self) -> bool:
        return self.ends == 0

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = (status, description)

    def record_exception(self, exception: BaseException, *args: Any, **more: Any) -> None:
        self.events.append(("exception", {"text": str(exception)}))


class Recorder(trace.TracerProvider, trace.Tracer):
    """A provider and tracer that keep their spans."""

    def __init__(self) -> None:
        self.spans: list[RecordedSpan] = []

    def get_tracer(self, *args: Any, **more: Any) -> trace.Tracer:
        return self

    def start_span(self, name: str, context: Any = None, kind: Any = None, attributes: Any = None, **more: Any) -> Any:
        parent = trace.get_current_span(context)
        span = RecordedSpan(name, parent if isinstance(parent, RecordedSpan) else None, attributes)
        self.spans.append(span)
        return span

    def start_as_current_span(self, *args: Any, **more: Any) -> Any:
        raise AssertionError("not used")

    def named(self, name: str) -> RecordedSpan:
        (span,) = [span for span in self.spans if span.name == name]
        return span


async def answer(args: Any, run: Any) -> str:
    return "the answer"


async def test_a_call_is_one_span_with_stage_events(app: Context, register: Callable[..., None]):
    recorder = Recorder()
    await app.plugin(TracingPlugin(recorder))
    register(answer)
    await app.tools.execute(ToolCall("work", '{"secret": 1}', call_id="c1", agent=LoggedAgent(session="s7")))
    (span,) = recorder.spans
    assert span.name == "execute_tool work"
    assert span.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "work",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.conversation.id": "s7",
    }
    assert span.events == [
        ("queued", {}),
        ("authorized", {"decision": "allow"}),
        ("dispatched", {}),
        ("running", {}),
        ("stopped", {}),
        ("returned", {"error": False}),
        ("reviewed", {"decision": "accept"}),
    ]
    assert (span.ends, span.status) == (1, None)


async def test_content_is_recorded_only_where_asked_for(app: Context, register: Callable[..., None]):
    recorder = Recorder()
    await app.plugin(TracingPlugin(recorder), {"capture_content": True})
    register(answer)
    await app.tools.execute(ToolCall("work", '{"a": [1]}'))
    await app.tools.execute(ToolCall("work", {"a": {1, 2}}))
    first, second = recorder.spans
    assert json.loads(first.attributes["gen_ai.tool.call.arguments"]) == {"a": [1]}
    assert first.attributes["gen_ai.tool.call.result"] == "the answer"
    assert "gen_ai.tool.call.arguments" not in second.attributes
    assert second.status[1]


@pytest.mark.parametrize(
    ("error", "kind"), [(ToolError("no", "NO_FILE"), "NO_FILE"), (RuntimeError("secret"), "tool_error")]
)
async def test_failures_say_what_kind(app: Context, register: Callable[..., None], error: Exception, kind: str):
    recorder = Recorder()
    await app.plugin(TracingPlugin(recorder))

    async def fail(args: Any, run: Any) -> str:
        raise error

    register(fail)
    await app.tools.execute(ToolCall("work"))
    (span,) = recorder.spans
    assert span.attributes["error.type"] == kind
    assert span.status == (trace.StatusCode.ERROR, None)
    assert "secret" not in repr((span.attributes, span.events))


async def test_calls_that_end_early_have_their_span(app: Context, register: Callable[..., None]):
    recorder = Recorder()
    await app.plugin(TracingPlugin(recorder))
    register(answer)
    app.on(PRE_EXECUTE, lambda execution, next: Deny("no"))
    await app.tools.execute(ToolCall("work"))
    await app.tools.execute(ToolCall("work", "not json"))
    await app.tools.execute(ToolCall("nothing"))
    assert [(span.name, span.ends) for span in recorder.spans] == [
        ("execute_tool work", 1),
        ("execute_tool work", 1),
        ("execute_tool nothing", 1),
    ]
    assert recorder.spans[0].events == [
        ("queued", {}),
        ("authorized", {"decision": "deny"}),
        ("reviewed", {"decision": "accept"}),
        ("stopped", {}),
    ]
    assert recorder.spans[1].attributes["error.type"] == "INVALID_ARGS"


async def test_spans_nest_as_calls_do(app: Context, register: Callable[..., None]):
    recorder = Recorder()
    await app.plugin(TracingPlugin(recorder))

    async def program(args: Any, run: Any) -> str:
        # In a task of its own, as programs' calls are: no context variable could tell whose call it is.
        call = ToolCall("work", parent=run.token)
        await asyncio.gather(app.tools.execute(call), app.tools.execute(call))
        recorder.start_span("of the body")
        return ""

    register(program, "program")
    register(answer)
    outer = recorder.start_span("outer")
    with trace.use_span(outer):
        await app.tools.execute(ToolCall("program"))
    of_program = recorder.named("execute_tool program")
    assert of_program.parent is outer
    assert recorder.named("of the body").parent is of_program
    assert [span.parent for span in recorder.spans if span.name == "execute_tool work"] == [of_program] * 2


async def test_retries_are_events(app: Context, register: Callable[..., None]):
    recorder = Recorder()
    await app.plugin(TracingPlugin(recorder))
    await app.plugin(RetryPlugin(), {"base_delay_ms": 0})

    async def fail(args: Any, run: Any) -> str:
        raise RuntimeError("reset")

    register(fail, idempotent=True)
    await app.tools.execute(ToolCall("work"))
    (span,) = recorder.spans
    assert [attributes for name, attributes in span.events if name == "retried"] == [{"attempt": 2}, {"attempt": 3}]


async def test_spans_end_with_the_plugin(app: Context, register: Callable[..., None]):
    recorder = Recorder()
    fiber = app.plugin(TracingPlugin(recorder))
    await fiber
    running, go_on = asyncio.Event(), asyncio.Event()

    async def wait(args: Any, run: Any) -> str:
        running.set()
        await go_on.wait()
        return "done"

    register(wait)
    call = asyncio.create_task(app.tools.execute(ToolCall("work")))
    await running.wait()
    disposing = asyncio.ensure_future(fiber.dispose())
    await asyncio.sleep(0.01)
    assert recorder.spans[0].ends == 1
    go_on.set()
    await disposing
    assert (await call).is_error is False
    assert len(recorder.spans) == 1


@pytest.mark.parametrize("plugin", [TracingPlugin, MetricsPlugin])
async def test_without_opentelemetry_the_plugin_says_what_to_install(
    app: Context, monkeypatch: pytest.MonkeyPatch, plugin: Any
):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"dsh-tools\[otel\]"):
        await app.plugin(plugin(), {"export": True} if plugin is MetricsPlugin else None)


async def test_without_a_provider_calls_go_on(app: Context, register: Callable[..., None]):
    await app.plugin(TracingPlugin())
    register(answer)
    assert (await app.tools.execute(ToolCall("work"))).is_error is False


# ── counters ──────────────────────────────────────────────────────────────────


async def test_calls_are_counted_by_tool_and_outcome(app: Context, register: Callable[..., None]):
    await app.plugin(MetricsPlugin())

    async def slow(args: Any, run: Any) -> str:
        await asyncio.sleep(0.02)
        return ""

    async def fail(args: Any, run: Any) -> str:
        raise ToolError("no", "NO_FILE")

    register(slow)
    register(fail, "fail")
    for name in ("work", "work", "fail", "made up", "made up again"):
        await app.tools.execute(ToolCall(name))
    await app.tools.execute(ToolCall("work", "not json"))
    numbers = app.require(METRICS).snapshot()
    assert set(numbers) == {"work", "fail", UNKNOWN_TOOLS}
    assert (numbers["work"].calls, numbers["work"].failures, numbers["work"].running) == (3, {"INVALID_ARGS": 1}, 0)
    assert numbers["work"].seconds >= 0.04
    assert 0.02 <= numbers["work"].longest_seconds < numbers["work"].seconds
    assert (numbers["fail"].calls, numbers["fail"].failures) == (1, {"NO_FILE": 1})
    assert numbers[UNKNOWN_TOOLS].failures == {"UNKNOWN_TOOL": 2}


async def test_running_calls_are_counted(app: Context, register: Callable[..., None]):
    await app.plugin(MetricsPlugin())
    running: list[int] = []

    async def look(args: Any, run: Any) -> str:
        running.append(app.require(METRICS).snapshot()["work"].running)
        await asyncio.sleep(0.01)
        return ""

    register(look)
    await asyncio.gather(*(app.tools.execute(ToolCall("work")) for _ in range(3)))
    assert max(running) == 3
    assert app.require(METRICS).snapshot()["work"].running == 0


class RecordedInstrument:
    def __init__(self) -> None:
        self.added: list[tuple[float, dict[str, str]]] = []

    def add(self, amount: float, attributes: Any = None) -> None:
        self.added.append((amount, dict(attributes)))

    record = add


class RecordingMeters(otel_metrics.MeterProvider):
    def __init__(self) -> None:
        self.instruments: dict[str, RecordedInstrument] = {}

    def get_meter(self, *args: Any, **more: Any) -> Any:
        return self

    def _create(self, name: str, *_about: str) -> Any:
        return self.instruments.setdefault(name, RecordedInstrument())

    create_counter = create_up_down_counter = create_histogram = _create


async def test_the_numbers_can_be_exported(app: Context, register: Callable[..., None]):
    meters = RecordingMeters()
    await app.plugin(MetricsPlugin(meters), {"export": True})

    async def fail(args: Any, run: Any) -> str:
        raise RuntimeError("no")

    register(answer)
    register(fail, "fail")
    await app.tools.execute(ToolCall("work"))
    await app.tools.execute(ToolCall("fail"))
    await app.tools.execute(ToolCall("fail", "not json"))
    work, failed = {"gen_ai.tool.name": "work"}, {"gen_ai.tool.name": "fail"}
    assert meters.instruments["dsh_tools.calls"].added == [
        (1, work),
        (1, {**failed, "error.type": "tool_error"}),
        (1, {**failed, "error.type": "INVALID_ARGS"}),
    ]
    assert [amount for amount, _ in meters.instruments["dsh_tools.calls.running"].added] == [1, -1, 1, -1]
    assert len(meters.instruments["dsh_tools.call.duration"].added) == 3


async def test_a_call_that_is_told_to_stop_says_so_and_how_it_did(app: Context, register: Callable[..., None]):
    recorder = Recorder()
    await app.plugin(TracingPlugin(recorder))

    async def stubborn(args: Any, run: Any) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
        return "late"

    register(stubborn)
    controller = AbortController()
    asyncio.get_running_loop().call_later(0.02, controller.abort)
    await app.tools.execute(ToolCall("work", signal=controller.signal))
    (span,) = recorder.spans
    states = [name for name, _ in span.events if name in ("queued", "running", "stopping", "stopped")]
    assert states == ["queued", "running", "stopping", "stopped"]
    assert span.attributes["error.type"] == "ABORTED"
    assert span.attributes["dsh_tools.stop.cause"] == "caller"
    assert span.attributes["dsh_tools.stop.ending"] == "returned"
    assert span.attributes["dsh_tools.stop.seconds"] > 0
