"""A stream ends, whenever it is aborted and whatever fails."""

from __future__ import annotations

import asyncio
from typing import Any

from dsh_tools.kernel import AbortController
from dsh_tools.model import Finish, ModelFailed, ModelFailure
from dsh_tools.model.pump import pumped


async def test_an_abort_before_the_producer_began_ends_the_stream(no_leaks: None) -> None:
    controller = AbortController()
    began: list[bool] = []

    async def produce(emit: Any) -> Finish:
        began.append(True)
        return Finish("stop")

    stream = pumped(produce, controller.signal, lambda error: ModelFailure("X", str(error)))
    first = asyncio.ensure_future(anext(stream))
    # The reader has made its task by now, and the task has not run.
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(controller.abort)
    controller.abort()
    event = await asyncio.wait_for(first, 5)
    assert isinstance(event, Finish)
    assert event.reason == ("stop" if began else "aborted")
    assert not began
    await stream.aclose()


async def test_a_failure_that_cannot_be_described_ends_the_stream(no_leaks: None) -> None:
    async def produce(_emit: Any) -> Finish:
        raise LookupError("the cause")

    def describe(error: Exception) -> ModelFailure:
        raise ImportError("no package") from error

    stream = pumped(produce, AbortController().signal, describe)
    event = await asyncio.wait_for(anext(stream), 5)
    assert event == ModelFailed(ModelFailure("MODEL_ERROR", "ImportError: no package"))
    await stream.aclose()
