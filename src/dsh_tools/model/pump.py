"""A stream that a task fills and a reader empties, and that always ends in one last event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias

from ..kernel.abort import AbortSignal
from ..kernel.tasks import outlast
from .base import Finish, ModelEvent, ModelFailed, ModelFailure
from .failures import transport_failure

__all__ = ["Emit", "pumped"]

Emit: TypeAlias = Callable[[ModelEvent], None]
"""Hand an event to the reader; never blocks, since an answer is small."""


async def pumped(
    produce: Callable[[Emit], Awaitable[Finish | ModelFailed]],
    signal: AbortSignal,
    describe: Callable[[Exception], ModelFailure],
) -> AsyncGenerator[ModelEvent, None]:
    """Yield what ``produce(emit)`` emits, then the end it returns.

    An abort cancels it, an exception becomes ``ModelFailed(describe(error))``, and a reader that
    closes the stream cancels it too; in every case it has stopped before the stream is over.
    """
    if signal.aborted:
        yield Finish("aborted")
        return
    events: asyncio.Queue[ModelEvent] = asyncio.Queue()

    async def run() -> None:
        try:
            end: ModelEvent = await produce(events.put_nowait)
        except asyncio.CancelledError:
            if not signal.aborted:
                raise
            end = Finish("aborted")
        except Exception as error:
            # A connection that an abort tears down may fail before the cancellation arrives.
            end = Finish("aborted") if signal.aborted else ModelFailed(describe(error))
        events.put_nowait(end)

    def ended(done: asyncio.Task[None]) -> None:
        # An abort in the tick in which the task was made cancels it before it can say anything.
        if done.cancelled():
            events.put_nowait(Finish("aborted"))
        elif (error := done.exception()) is not None:
            # What ``describe`` itself raised. The reader waits for an end, whatever happens.
            events.put_nowait(ModelFailed(transport_failure(error)))

    task = asyncio.create_task(run(), name="model-stream")
    task.add_done_callback(ended)
    remove = signal.add_callback(task.cancel)
    try:
        while True:
            event = await events.get()
            if isinstance(event, (Finish, ModelFailed)):
                await outlast(task)
                yield event
                return
            yield event
    finally:
        remove()
        task.cancel()
        await outlast(task)
