"""Retries: what is tried again, how often, and what an abort does to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pydantic
import pytest

from dsh_tools.content import content_text
from dsh_tools.errors import ToolError
from dsh_tools.kernel.abort import AbortController
from dsh_tools.kernel.context import Context
from dsh_tools.services import TOOL_RETRY, RetryPlugin, TimeoutPlugin
from dsh_tools.tools.events import PRE_EXECUTE, TOOL_RESULT, Deny
from dsh_tools.tools.execution import ToolCall
from dsh_tools.tools.result import ErrorInfo, ToolFailure, ToolSuccess

FAST = {"base_delay_ms": 1}


class Flaky:
    """A body that fails as often as it is told."""

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error or ConnectionError("reset")
        self.runs = 0

    async def __call__(self, args: Any, run: Any) -> str:
        self.runs += 1
        run.defer_context(f"attempt {self.runs}")
        if self.runs <= self.failures:
            raise self.error
        return f"run {self.runs}"


async def test_an_idempotent_tool_is_tried_again(app: Context, register: Callable[..., None]):
    # HOST-140, PIPE-133
    await app.plugin(RetryPlugin(), FAST)
    body, heard = Flaky(2), []
    app.on(TOOL_RETRY, lambda execution, attempt, reason: heard.append((attempt, reason.error.message)))
    register(body, idempotent=True)
    result = await app.tools.execute(ToolCall("work"))
    assert isinstance(result, ToolSuccess)
    assert result.value == "run 3"
    assert heard == [(2, "reset"), (3, "reset")]
    contexts = result.additional_contexts
    assert contexts
    assert [content_text(message.content) for message in contexts] == ["attempt 1", "attempt 2", "attempt 3"]  # type: ignore[arg-type]


async def test_other_tools_are_never_tried_twice(app: Context, register: Callable[..., None]):
    # HOST-140
    await app.plugin(RetryPlugin(), FAST)
    body = Flaky(1)
    register(body)
    assert (await app.tools.execute(ToolCall("work"))).is_error
    assert body.runs == 1


async def test_after_the_last_attempt_its_failure_stands_with_a_note(app: Context, register: Callable[..., None]):
    await app.plugin(RetryPlugin(), FAST)
    body = Flaky(99)
    register(body, idempotent=True)
    result = await app.tools.execute(ToolCall("work"))
    assert isinstance(result, ToolFailure)
    assert body.runs == 3
    assert result.error.message == "reset"
    assert [content_text((block,)) for block in result.content] == [
        "Error: reset",
        "[3 attempts failed; this is the last one's error]",
    ]


@pytest.mark.parametrize(
    ("error", "config", "runs"),
    [
        (ToolError("no such file"), {}, 1),
        (ToolError("busy", "BUSY"), {}, 1),
        (ToolError("busy", "BUSY"), {"codes": ["BUSY"]}, 3),
        (ConnectionError("reset"), {"retry_uncoded": False}, 1),
        (ConnectionError("reset"), {"max_attempts": 1}, 1),
        (ConnectionError("reset"), {"max_attempts": 5}, 5),
    ],
)
async def test_what_is_tried_again(
    app: Context, register: Callable[..., None], error: Exception, config: dict[str, Any], runs: int
):
    await app.plugin(RetryPlugin(), {**FAST, **config})
    body = Flaky(99, error)
    register(body, idempotent=True)
    await app.tools.execute(ToolCall("work"))
    assert body.runs == runs


async def test_denials_and_wrong_arguments_are_not_tried_again(app: Context, register: Callable[..., None]):
    await app.plugin(RetryPlugin(), FAST)
    body, decisions, results = Flaky(0), [], []

    def deny(execution: Any, next: Any) -> Any:
        decisions.append(execution)
        return Deny("no")

    app.on(PRE_EXECUTE, deny)
    app.on(TOOL_RESULT, lambda execution, result: results.append(result))
    register(body, idempotent=True, parameters={"type": "object", "properties": {"x": {"type": "string"}}})
    await app.tools.execute(ToolCall("work"))
    await app.tools.execute(ToolCall("work", {"x": 1}))
    assert (body.runs, len(decisions), len(results)) == (0, 1, 2)


@pytest.mark.parametrize("first", ["timeout", "retry"])
async def test_each_attempt_has_its_own_time_limit(app: Context, register: Callable[..., None], first: str):
    # D12, HOST-31: inner wrappers run again, whichever plugin was mounted first
    plugins = [(TimeoutPlugin(), None), (RetryPlugin(), FAST)]
    for plugin, config in plugins if first == "timeout" else reversed(plugins):
        await app.plugin(plugin, config)
    runs: list[int] = []

    async def body(args: Any, run: Any) -> str:
        runs.append(len(runs))
        if len(runs) < 3:
            await asyncio.sleep(30)
        return "in time"

    register(body, idempotent=True, timeout_ms=30)
    result = await app.tools.execute(ToolCall("work"))
    assert isinstance(result, ToolSuccess)
    assert len(runs) == 3


async def test_the_pause_grows_and_has_a_limit(app: Context, register: Callable[..., None]):
    seen: list[float] = []

    def rng() -> float:
        return 1.0

    await app.plugin(RetryPlugin(rng), {"max_attempts": 5, "base_delay_ms": 20, "max_delay_ms": 50})
    times: list[float] = []

    async def body(args: Any, run: Any) -> str:
        times.append(asyncio.get_running_loop().time())
        raise ConnectionError("reset")

    register(body, idempotent=True)
    await app.tools.execute(ToolCall("work"))
    seen = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
    for pause, least in zip(seen, [0.020, 0.040, 0.050, 0.050], strict=True):
        assert least * 0.95 <= pause < least + 0.2


@pytest.mark.parametrize("how", ["signal", "task"])
async def test_giving_up_ends_the_pause(app: Context, register: Callable[..., None], how: str):
    await app.plugin(RetryPlugin(lambda: 1.0), {"base_delay_ms": 60_000, "max_delay_ms": 60_000})
    body, results, caller = Flaky(99), [], AbortController()
    app.on(TOOL_RESULT, lambda execution, result: results.append(result))
    register(body, idempotent=True)
    task = asyncio.create_task(app.tools.execute(ToolCall("work", signal=caller.signal)))
    while not body.runs:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    if how == "signal":
        caller.abort()
        result = await task
        # The failure that had happened is kept (PIPE-191).
        assert isinstance(result, ToolFailure)
        assert result.error.message == "reset"
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [result.error.info for result in results] == [ErrorInfo("AbortError", "ABORTED")]
    assert body.runs == 1
    assert caller.signal.callback_count == 0


async def test_an_abort_during_an_attempt_is_not_tried_again(app: Context, register: Callable[..., None]):
    await app.plugin(RetryPlugin(), FAST)
    caller, runs = AbortController(), []

    async def body(args: Any, run: Any) -> str:
        runs.append(1)
        caller.abort()
        raise ConnectionError("because of the abort")

    register(body, idempotent=True)
    await app.tools.execute(ToolCall("work", signal=caller.signal))
    assert len(runs) == 1


@pytest.mark.parametrize(
    "config", [{"max_attempts": 0}, {"base_delay_ms": -1}, {"max_delay_ms": float("inf")}, {"unknown": 1}]
)
async def test_wrong_config_is_a_load_error(app: Context, config: dict[str, Any]):
    with pytest.raises(pydantic.ValidationError):
        await app.plugin(RetryPlugin(), config)
