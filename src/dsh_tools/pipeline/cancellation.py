"""The bridges between abort signals and asyncio's cancellation (design section 6, D30)."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import CallSuspended

if TYPE_CHECKING:
    from ..kernel.abort import AbortSignal

__all__ = ["UNCONTAINED", "BodyCancellation", "NativeCancellation", "await_under", "finish_shielded"]

UNCONTAINED = (KeyboardInterrupt, GeneratorExit, CallSuspended)
"""What passes through a call; all else that a tool, a policy or a listener raises is a failed result (PIPE-96).

``SystemExit`` is contained, and so are the panics of native extensions, which are no ``Exception`` either.
"""

T = TypeVar("T")


class NativeCancellation:
    """Tells whether somebody has cancelled the current task since this was made.

    A stray CancelledError has no such request behind it; a request that was swallowed still counts.
    """

    __slots__ = ("_before", "_task")

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._before = 0 if self._task is None else self._task.cancelling()

    @property
    def requested(self) -> bool:
        """Whether a cancellation was asked for since then, delivered or swallowed."""
        return self._task is not None and self._task.cancelling() > self._before

    @property
    def explains_error(self) -> bool:
        """Whether a CancelledError that was caught has a request behind it, however old (D30).

        A task may be cancelled just before it makes the call; the request is then delivered inside it.
        """
        return self._task is not None and self._task.cancelling() > 0


async def finish_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end whatever cancels the awaiting task meanwhile, and return its result (D30).

    The cancellations stay counted on the task; the caller raises CancelledError when it is done.
    """
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            continue
        except Exception:
            break
    return task.result()


class BodyCancellation:
    """Cancels the task that awaits a body when the body's signal fires.

    The cancellation arrives two turns of the loop after the signal, so that a body which waits on
    the signal itself answers first: it may return what it has, or raise its own error (PIPE-192, 193).
    """

    __slots__ = ("_closed", "_loop", "_remove", "_task", "fired")

    def __init__(self, signal: AbortSignal) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._loop = task.get_loop()
        self._closed = False
        self.fired = False
        self._remove = signal.add_callback(self._later)

    def _later(self) -> None:
        self._loop.call_soon(self._loop.call_soon, self._cancel)

    def _cancel(self) -> None:
        if not self._closed:
            self.fired = True
            self._task.cancel()

    def close(self) -> None:
        """Stop listening, and take back the cancellation that this bridge asked for."""
        self._closed = True
        self._remove()
        if self.fired:
            self._task.uncancel()


async def await_under(signal: AbortSignal, body: Coroutine[Any, Any, T]) -> T:
    """Await a body that is cancelled when the signal fires; one that never waits costs no watch."""
    try:
        waits_for = body.send(None)
    except StopIteration as done:
        return done.value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    watch = BodyCancellation(signal)
    try:
        return await _go_on(body, waits_for)
    finally:
        watch.close()


@types.coroutine
def _go_on(body: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """Await a coroutine that has begun, and now waits for something."""
    while True:
        try:
            yield waits_for
        except GeneratorExit:
            body.close()
            raise
        except BaseException as error:
            try:
                waits_for = body.throw(error)
            except StopIteration as done:
                return done.value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        else:
            break
    # It is at the same place as after its own "await", and wants to be resumed.
    return (yield from body)  # pyright: ignore[reportUnknownVariableType]
