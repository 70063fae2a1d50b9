"""Asking again: when, how often, after how long, and never after an abort."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_tools.errors import ToolError
from dsh_tools.kernel import NEVER, AbortController, AbortSignal
from dsh_tools.messages import user_message
from dsh_tools.model import (
    Finish,
    ModelEvent,
    ModelFailed,
    ModelFailure,
    ModelRequest,
    Retrying,
    RetryingModel,
    RetryPolicy,
    ScriptedModel,
    TextDelta,
    say,
)

pytestmark = pytest.mark.usefixtures("no_leaks")

REQUEST = ModelRequest((user_message("hi"),))
BUSY = ModelFailure("OVERLOADED", "busy", True)


def failing(failure: ModelFailure = BUSY, text: str = "") -> Any:
    return say(text, failure=failure)


async def events_of(model: Any, signal: AbortSignal = NEVER) -> list[ModelEvent]:
    async with aclosing(model.stream(REQUEST, signal)) as stream:
        return [event async for event in stream]


async def test_a_good_answer_passes_untouched():
    model = RetryingModel(ScriptedModel(["hi"]))
    assert await events_of(model) == [TextDelta("hi"), Finish("stop", model="scripted:script")]
    assert (model.name, model.accepts_images) == ("scripted:script", True)
    await model.close()


async def test_waits_grow_and_have_jitter():
    chances = iter([0.0, 1.0, 0.5, 0.0])
    policy = RetryPolicy(attempts=5, base_delay=0.01, max_delay=0.03)
    script = [failing(), failing(), failing(), failing(), "ok"]
    model = RetryingModel(ScriptedModel(script), policy, chance=lambda: next(chances))
    events = await events_of(model)
    retries = [event for event in events if isinstance(event, Retrying)]
    assert [event.attempt for event in retries] == [1, 2, 3, 4]
    # between half and all of 0.01, 0.02, 0.04, 0.08, and at most 0.03
    assert [event.delay for event in retries] == pytest.approx([0.005, 0.02, 0.0225, 0.015])
    assert events[-1] == Finish("stop", model="scripted:script")


@given(st.integers(1, 2000), st.floats(0, 1), st.none() | st.floats(0, 100))
def test_a_wait_is_bounded(attempt: int, chance: float, wanted: float | None):
    model = RetryingModel(ScriptedModel([]), RetryPolicy(attempts=3000), chance=lambda: chance)
    delay = model._delay(attempt, ModelFailure("X", "x", True, wanted), spoke=False)
    assert delay is not None
    assert (wanted or 0.25) <= delay <= max(30.0, (wanted or 0) * 1.1)


async def test_a_provider_that_asks_for_too_long_a_wait_is_not_waited_for():
    policy = RetryPolicy(max_retry_after=10)
    events = await events_of(RetryingModel(ScriptedModel([failing(ModelFailure("X", "x", True, 11.0))]), policy))
    assert [type(event) for event in events] == [ModelFailed]


async def test_what_will_not_get_better_is_not_tried_again():
    model = ScriptedModel([failing(ModelFailure("AUTHENTICATION", "no")), "ok"])
    assert [type(event) for event in await events_of(RetryingModel(model))] == [ModelFailed]
    assert model.remaining == 1


async def test_attempts_are_counted():
    model = ScriptedModel([failing()] * 5)
    events = await events_of(RetryingModel(model, RetryPolicy(attempts=2, base_delay=0)))
    assert [type(event) for event in events] == [Retrying, ModelFailed]
    assert events[-1] == ModelFailed(BUSY)
    assert len(model.requests) == 2


async def test_part_of_an_answer_is_void_or_final_as_wanted():
    script = [failing(text="par"), "whole"]
    policy = RetryPolicy(base_delay=0)
    events = await events_of(RetryingModel(ScriptedModel(script), policy))
    assert [type(event) for event in events] == [TextDelta, Retrying, TextDelta, Finish]
    careful = RetryPolicy(base_delay=0, after_output=False)
    events = await events_of(RetryingModel(ScriptedModel(script), careful))
    assert [type(event) for event in events] == [TextDelta, ModelFailed]


async def test_an_abort_ends_the_wait():
    controller = AbortController()
    model = RetryingModel(ScriptedModel([failing(), "ok"]), RetryPolicy(base_delay=60))
    seen: list[ModelEvent] = []
    started = time.monotonic()
    async for event in model.stream(REQUEST, controller.signal):
        seen.append(event)
        if isinstance(event, Retrying):
            asyncio.get_running_loop().call_later(0.02, controller.abort)
    assert [type(event) for event in seen] == [Retrying, Finish]
    assert seen[-1] == Finish("aborted")
    assert time.monotonic() - started < 5


async def test_an_abort_between_attempts_is_seen():
    controller = AbortController()

    def abort(request: ModelRequest) -> Any:
        controller.abort()
        return failing()

    model = ScriptedModel([abort, "ok"])
    events = await events_of(RetryingModel(model, RetryPolicy(base_delay=0)), controller.signal)
    assert events == [Finish("aborted")]
    assert model.remaining == 1


class Odd:
    """An adapter that breaks the contract."""

    name = "odd"
    accepts_images = False

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.asked = 0

    async def stream(self, request: ModelRequest, signal: AbortSignal) -> AsyncGenerator[ModelEvent, None]:
        self.asked += 1
        yield TextDelta("a")
        if self.error is not None:
            raise self.error

    async def close(self) -> None: ...


async def test_an_adapter_that_raises_is_a_failure():
    events = await events_of(RetryingModel(Odd(ToolError("broken"))))
    assert events == [TextDelta("a"), ModelFailed(ModelFailure("MODEL_ERROR", "broken"))]


async def test_a_stream_without_an_end_is_cut():
    odd = Odd(None)
    events = await events_of(RetryingModel(odd, RetryPolicy(attempts=2, base_delay=0)))
    assert odd.asked == 2
    assert isinstance(events[-1], ModelFailed)
    assert events[-1].failure.code == "STREAM_CUT"


@pytest.mark.parametrize("bad", [{"attempts": 0}, {"base_delay": -1}, {"max_delay": -1}, {"max_retry_after": -1}])
def test_a_policy_that_makes_no_sense_is_refused(bad: dict[str, float]):
    with pytest.raises(ValueError, match="attempts must be at least 1"):
        RetryPolicy(**bad)


async def test_a_reader_that_leaves_ends_it_all():
    model = RetryingModel(ScriptedModel([say("long text", delay=0.01)], piece=1))
    async with aclosing(model.stream(REQUEST, NEVER)) as stream:
        async for _event in stream:
            break
