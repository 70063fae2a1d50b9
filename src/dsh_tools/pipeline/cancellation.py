"""The bridges between abort signals and asyncio's cancellation (design section 6, D30)."""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..errors import CallSuspended

if TYPE_CHECKING:
    from ..kernel.abort import AbortSignal

__all__ = [
    "UNCONTAINED",
    "BodyCancellation",
    "NativeCancellation",
    "await_under",
    "current_task",
    "finish_shielded",
    "take_back_all",
]

UNCONTAINED = (KeyboardInterrupt, CallSuspended)
"""What passes through a call; all else that a tool, a policy or a listener raises is a failed result (PIPE-96).

``SystemExit`` and ``GeneratorExit`` are contained, and so are the panics of native extensions, which are no
``Exception`` either. Only where the coroutine of a call is itself being closed, its ``GeneratorExit`` goes on.
"""

T = TypeVar("T")


class NativeCancellation(msgspec.Struct, eq=False):
    """Tells who has cancelled a task since this was made: somebody else, or the very work that it watches.

    A request that is made while the work runs is its own; one that has come when the work goes on after a wait is
    somebody else's. A stray CancelledError has no request behind it; a request that was swallowed still counts.

    Parameters:
        task: the current task.
        before: how often it had been cancelled before.
        seen: the same; how often it had been when this looked last.
        asked: where one owner alone may cancel the task, whether it has; every other request is the work's own.
        on_told: called with the time on the monotonic clock when a request that stands has gone into the work.
        closing: the coroutine that watches is being closed, so that a ``GeneratorExit`` is not the work's own.
        requests: whether each of the requests that stand is the work's own. An ``uncancel`` takes back the last.
    """

    task: asyncio.Task[Any] | None
    before: int
    seen: int
    asked: Callable[[], bool] | None = None
    on_told: Callable[[float], object] | None = None
    closing: bool = False
    requests: tuple[bool, ...] = ()

    @staticmethod
    def here(asked: Callable[[], bool] | None = None) -> NativeCancellation:
        """Watch the current task from now on."""
        task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        return NativeCancellation(task, before, before, asked)

    @property
    def requested(self) -> bool:
        """Whether a cancellation that was asked for since then stands, delivered or swallowed."""
        return self.task is not None and self.task.cancelling() > self.before

    @property
    def by_others(self) -> bool:
        """Whether somebody else has asked, however long ago (D30).

        A task may be cancelled just before it makes the call; the request is then delivered inside it.
        """
        self._note(own=True)
        if self.asked is not None:
            return self.asked()
        return self.before > 0 or not all(self.requests)

    async def take_own(self) -> bool:
        """Take back what the work has asked of its own task, so that nothing of it reaches whoever comes next.

        What others have asked stays. Returns whether a request of its own was still on its way.
        """
        self._note(own=True)
        task = self.task
        ours = self.requests.count(True) if self.asked is None or self.asked() else len(self.requests)
        if task is None or not ours:
            return False
        on_its_way = await _deliver()
        for _ in range(ours):
            task.uncancel()
        return on_its_way

    def took_back(self) -> None:
        """Forget one request of somebody else, who has just taken it back."""
        for place in range(len(self.requests) - 1, -1, -1):
            if not self.requests[place]:
                self.requests = self.requests[:place] + self.requests[place + 1 :]
                self.seen -= 1
                return

    async def attend(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine under these eyes."""
        try:
            waits_for = work.send(None)
        except StopIteration as done:
            return done.value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return await self.go_on(work, waits_for)

    @types.coroutine
    def go_on(self, work: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
        """Await a coroutine that has begun, and now waits for something."""
        while True:
            self._note(own=True)
            try:
                answer = yield waits_for
            except GeneratorExit:
                self.closing = True
                work.close()
                raise
            except BaseException as error:
                self._note(own=False)
                at = time.monotonic()
                try:
                    waits_for = work.throw(error)
                except StopIteration as done:
                    return done.value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                finally:
                    # Only now: work that has a limit of its own inside takes its request back at once.
                    if self.on_told is not None and isinstance(error, asyncio.CancelledError) and self._stands:
                        self.on_told(at)
            else:
                self._note(own=False)
                try:
                    waits_for = work.send(answer)
                except StopIteration as done:
                    return done.value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    @property
    def _stands(self) -> bool:
        self._note(own=True)
        return not all(self.requests) if self.asked is None else self.asked()

    def _note(self, *, own: bool) -> None:
        """Note whose the requests are that have come since the last look, and drop those that were taken back."""
        if self.task is None:
            return
        change = self.task.cancelling() - self.seen
        if change > 0:
            self.requests += (own,) * change
        elif change < 0:
            self.requests = self.requests[:change]
        self.seen += change


def current_task() -> asyncio.Task[Any]:
    """Return the task that runs now; for coroutines that only tasks run."""
    task = asyncio.current_task()
    assert task is not None
    return task


async def take_back_all(task: asyncio.Task[Any]) -> None:
    """Take back whatever the current task has been asked for, where nobody was entitled to ask."""
    await _deliver()
    while task.cancelling():
        task.uncancel()


async def _deliver() -> bool:
    """Let a cancellation that is on its way arrive here, where it does no harm; say whether there was one."""
    # Before it is taken back: only later interpreters forget it with ``uncancel``.
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        return True
    return False


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
        self._task = task = current_task()
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


async def await_under(signal: AbortSignal, body: Coroutine[Any, Any, T], native: NativeCancellation | None = None) -> T:
    """Await a body that is cancelled when the signal fires; one that never waits costs no watch."""
    try:
        waits_for = body.send(None)
    except StopIteration as done:
        return done.value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    native = native or NativeCancellation.here()
    watch = BodyCancellation(signal)
    try:
        return await native.go_on(body, waits_for)
    finally:
        watch.close()
        if watch.fired:
            native.took_back()
