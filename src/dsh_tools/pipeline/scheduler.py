"""Many calls at once: started in order, bodies overlapping where that is safe, committed in order.

One lane serves one batch of the agent loop, or one Code Mode program (HOST section 8, CODE-98 to 119).
Whoever owns a lane is told when a call starts and when it is committed.

One task works through the queue. A call that comes to an idle lane is taken by another one from its start to its
commit, without that detour; if others have started meanwhile it leaves the commit to the queue's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ..kernel.tasks import as_failure
from ..tools.execution import ToolCall
from ..tools.result import ToolResult
from .cancellation import current_task, take_back_all
from .doorway import Doorway
from .run import Run, aborted_result

if TYPE_CHECKING:
    from ..kernel.abort import AbortSignal
    from .service import Tools

__all__ = ["CallLane", "LaneOwner", "Slot"]

T = TypeVar("T")


class Slot(Generic[T]):
    """One call in a lane. ``tag`` is the owner's own note; ``result`` is set at the commit."""

    __slots__ = ("call", "exclusive", "result", "run", "tag", "task")

    def __init__(self, call: ToolCall, tag: T) -> None:
        self.call = call
        self.tag = tag
        self.exclusive = True
        self.run: Run | None = None
        self.task: asyncio.Task[None] | None = None
        self.result: ToolResult | None = None

    @property
    def in_flight(self) -> bool:
        """Whether the body is running."""
        return self.task is not None and not self.task.done()


class LaneOwner(Protocol[T]):
    """Who is told about the calls of a lane, in order."""

    def starting(self, slot: Slot[T]) -> None:
        """The call is about to be prepared: log it."""
        ...

    async def committed(self, slot: Slot[T], result: ToolResult) -> None:
        """The call has its final result, and so have all before it: log it, hand it on."""
        ...

    def abandoned(self, slot: Slot[T]) -> None:
        """The call was never started and never will be."""
        ...


class CallLane(Generic[T]):
    """Runs calls in the order of their submission.

    Once a call waits for a person nothing more is started: what runs is waited for and committed, the rest is
    abandoned, and the lane ends with that call in ``suspended`` (D34).

    Parameters:
        tools: where the calls run.
        owner: who is told.
        max_parallel: how many bodies may overlap; read again before each start (HOST-144).
        signal: once it has fired, nothing more is started; what runs is waited for (HOST-156).
    """

    def __init__(
        self,
        tools: Tools,
        owner: LaneOwner[T],
        *,
        max_parallel: Callable[[], int],
        signal: AbortSignal,
    ) -> None:
        self._tools = tools
        self._owner = owner
        self._max_parallel = max_parallel
        self._signal = signal
        self._queue: deque[Slot[T]] = deque()
        self._started: deque[Slot[T]] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._failure: BaseException | None = None
        self._policy_running = False
        self.suspended: Slot[T] | None = None
        # The queue's task waits; a lone call is in policy, or with the owner.
        self._resting = False
        self._lone_busy = False
        # The context of the calls; who takes lone calls, and where they come in.
        self._context: Context = copy_context()
        self._doorman: asyncio.Task[None] | None = None
        # Who runs the lane, and whether the running bodies have been cancelled.
        self._runner: asyncio.Task[Any] | None = None
        self._cancelled_before = 0
        self._given_up = False
        self._over = False
        self._door: Doorway[Slot[T]] = Doorway()

    def submit(self, call: ToolCall, tag: T) -> Slot[T]:
        """Queue a call; it starts when its turn comes."""
        slot = Slot(call, tag)
        if self._is_idle:
            self._started.append(slot)
            doorman = self._doorman
            slot.task = self._new_doorman() if doorman is None or doorman.done() else doorman
            self._door.put(slot)
        else:
            self._queue.append(slot)
            self._wake.set()
        return slot

    def close(self) -> None:
        """Say that nothing more will be submitted; :meth:`run` returns once everything is committed."""
        self._closed = True
        self._wake.set()

    def abandon(self) -> None:
        """Drop the calls that have not started; those that have are still committed."""
        while self._queue:
            self._owner.abandoned(self._queue.popleft())
        self._wake.set()

    async def run(self) -> None:
        """Work until the lane is closed and everything is committed or abandoned.

        A cancellation stops new starts and goes into the running bodies; it leaves here after
        all of them have been committed.

        Raises:
            asyncio.CancelledError: the awaiting task was cancelled.
            Exception: the owner, or the pipeline itself, failed; running bodies were waited for (HOST-160).
            KeyboardInterrupt: a body raised it; running bodies were waited for.
        """
        remove = self._signal.add_callback(self._wake.set)
        self._context = copy_context()
        self._runner = asyncio.current_task()
        self._cancelled_before = 0 if self._runner is None else self._runner.cancelling()
        work = asyncio.ensure_future(self._work())
        cancelled = False
        try:
            while not work.done():
                try:
                    await asyncio.shield(work)
                except asyncio.CancelledError:
                    if not work.done():
                        cancelled = True
                        self._cancel(work)
                except Exception:
                    break
        finally:
            remove()
            self._over = True
            if self._doorman is not None:
                self._doorman.cancel()
                await asyncio.wait([self._doorman])
        if cancelled and not isinstance(self._failure, KeyboardInterrupt):
            if not work.cancelled():
                work.exception()
            raise asyncio.CancelledError
        work.result()
        if self._failure is not None:
            raise self._failure

    def _cancel(self, work: asyncio.Future[None]) -> None:
        """Cancel what runs. Listeners and approvals run on the lane's own task; the owner is never interrupted."""
        self._closed = self._given_up = True
        self.abandon()
        if self._policy_running:
            work.cancel()
        for slot in self._started:
            if slot.in_flight and slot.task is not None:
                slot.task.cancel()

    def _was_cancelled(self) -> bool:
        """Whether the bodies have been cancelled, or whoever runs the lane: the tasks of bodies are nobody else's."""
        runner = self._runner
        return self._given_up or (runner is not None and runner.cancelling() > self._cancelled_before)

    async def _calm(self, task: asyncio.Task[Any]) -> None:
        """Take back what a call has asked of a task of the lane, so that it does not hit the next one."""
        if not self._was_cancelled():
            await take_back_all(task)

    # ── a call that is alone ──────────────────────────────────────────────────

    @property
    def _is_idle(self) -> bool:
        """Whether the lane runs, nothing is under way, and nothing stands in the way of a start."""
        under_way = self._queue or self._started or self._lone_busy or self.suspended
        return self._resting and not (under_way or self._closed or self._failure or self._signal.aborted)

    def _new_doorman(self) -> asyncio.Task[None]:
        doorman = self._doorman = self._context.run(asyncio.create_task, self._attend())
        doorman.add_done_callback(self._body_done)
        return doorman

    async def _attend(self) -> None:
        """Take the calls that come to an idle lane, one after the other, as long as they leave nothing behind."""
        untouched, me = copy_context(), current_task()
        while copy_context() == untouched:
            await self._run_lone(await self._door, me)
            if me.cancelling():
                await self._calm(me)
                if self._over:
                    return
        # A body has set context variables. The next call is not to see them.
        self._new_doorman()

    async def _run_lone(self, slot: Slot[T], me: asyncio.Task[Any]) -> None:
        """Take the only call there is to its commit; calls that come meanwhile may overlap its body."""
        self._lone_busy = True
        try:
            mode_shows = self._tools.mode_shows(slot.call)
            slot.exclusive = mode_shows or self._tools.execution_mode(slot.call) != "parallel"
            self._owner.starting(slot)
            run = slot.run = await self._tools.prepare(slot.call)
            if run.next == "dispatch":
                run.asked = self._was_cancelled
                slot.exclusive = slot.exclusive and not mode_shows
                self._lone_busy = False
                if self._queue:
                    self._wake.set()
                await self._tools.dispatch(run)
            self._note_suspension(slot)
            # Where others have started, or a cancellation has come, the commit is the queue's business.
            if (
                len(self._started) == 1
                and self._failure is None
                and self.suspended is None
                and not run.execution.state.cancelled
            ):
                self._lone_busy = True
                slot.result = await self._tools.finish(run)
                if me.cancelling():
                    await self._calm(me)
                self._started.popleft()
                await self._owner.committed(slot, slot.result)
        except BaseException as error:
            self._fail(error)
        finally:
            slot.task = None
            self._lone_busy = False
            if self._queue or self._started or self._closed or self._failure is not None:
                self._wake.set()

    def _fail(self, error: BaseException) -> None:
        """Keep the first failure; the lane raises it as it is when all that runs has ended."""
        if isinstance(error, asyncio.CancelledError):
            if self._was_cancelled():
                raise error
            error = as_failure(error, "a lane, which nobody cancelled")
        elif isinstance(error, GeneratorExit):
            # The lane itself is being closed; a call has no other way to raise it here.
            raise error
        self._failure = self._failure or error

    # ── the queue ─────────────────────────────────────────────────────────────

    async def _work(self) -> None:
        me = current_task()
        while True:
            if self._failure is not None:
                await self._stop()
            elif self._signal.aborted or self.suspended is not None:
                self.abandon()
            try:
                if await self._step():
                    if me.cancelling():
                        await self._calm(me)
                    continue
            except BaseException as error:
                self._fail(error)
                continue
            over = self._closed or self.suspended is not None
            if over and not self._queue and not self._started and not self._lone_busy:
                break
            # Nothing was awaited since the state was looked at, so no wake-up can be lost here.
            self._wake.clear()
            self._resting = True
            await self._wake.wait()
            self._resting = False

    async def _step(self) -> bool:
        """Commit the head or start the next call; say whether something was done."""
        if self._lone_busy:
            return False
        if self._started and not self._started[0].in_flight:
            await self._commit(self._started[0])
            return True
        if self._queue and self.suspended is None and self._may_start(self._queue[0]):
            await self._start(self._queue.popleft())
            return True
        return False

    def _may_start(self, slot: Slot[T]) -> bool:
        """Classify the call now, and say whether it may start beside what runs (HOST-146 to 148, CODE-100 to 104)."""
        if self._started and self._started[-1].exclusive:
            return False
        slot.exclusive = self._tools.execution_mode(slot.call) != "parallel"
        if slot.exclusive:
            return not self._started
        return sum(earlier.in_flight for earlier in self._started) < self._max_parallel()

    async def _start(self, slot: Slot[T]) -> None:
        self._owner.starting(slot)
        self._started.append(slot)
        self._policy_running = True
        try:
            slot.run = await self._tools.prepare(slot.call)
        finally:
            self._policy_running = False
        self._note_suspension(slot)
        if slot.run.next == "dispatch":
            slot.run.asked = self._was_cancelled
            slot.task = asyncio.create_task(self._dispatch(slot.run))
            slot.task.add_done_callback(self._body_done)

    async def _dispatch(self, run: Run) -> None:
        try:
            await self._tools.dispatch(run)
        except BaseException as error:
            self._fail(error)

    def _note_suspension(self, slot: Slot[T]) -> None:
        if slot.run is not None and slot.run.next == "suspended" and self.suspended is None:
            self.suspended = slot

    def _body_done(self, _task: asyncio.Task[None]) -> None:
        self._wake.set()

    async def _commit(self, slot: Slot[T]) -> None:
        if slot.run is None:
            # A lone call that was cancelled before its first step.
            self._started.popleft()
            self._owner.abandoned(slot)
            return
        if slot.task is not None and slot.task.cancelled():
            # Cancelled before its first step: the body never ran.
            slot.run.execution.state.cancelled = True
            slot.run.settle_with(aborted_result(slot.run), "review")
        self._note_suspension(slot)
        if slot.run.next == "suspended":
            self._started.popleft()
            return
        self._policy_running = True
        try:
            result = slot.result = await self._tools.finish(slot.run)
        finally:
            self._policy_running = False
        self._started.popleft()
        await self._owner.committed(slot, result)

    async def _stop(self) -> None:
        """After a failure: start nothing more, and wait for what runs (HOST-160)."""
        self._closed = True
        while any(slot.in_flight for slot in self._started):
            self._wake.clear()
            await self._wake.wait()
        self._started.clear()
        self.abandon()
