"""Telling observers of ``tools/state`` where each call stands. Nothing here runs while nobody listens."""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..tools.events import TOOL_STATE

if TYPE_CHECKING:
    from ..kernel.hooks import HookBus
    from ..tools.execution import ToolExecution
    from ..tools.stopping import CallStatus
    from .run import Run

__all__ = ["StateWatch", "watch_states"]

T = TypeVar("T")


class StateWatch:
    """Announces the states of one call, each once until the next.

    Parameters:
        bus: where the observers are.
        execution: the call.
    """

    __slots__ = ("_bus", "_execution", "_loop", "_said", "stopping_since")

    def __init__(self, bus: HookBus, execution: ToolExecution) -> None:
        self._bus = bus
        self._execution = execution
        self._loop = asyncio.get_running_loop()
        self._said: CallStatus | None = None
        self.stopping_since: float | None = None

    def begun(self) -> None:
        """The body is called now; may be said in its thread."""
        self._loop.call_soon_threadsafe(self._begun)

    def settled(self) -> None:
        """The call is over."""
        self.say("stopped")

    def say(self, status: CallStatus) -> None:
        """Announce a state."""
        if status != self._said:
            self._said = status
            self._bus.emit(TOOL_STATE, self._execution, status, scope=self._execution.scope)

    async def attend(self, body: Coroutine[Any, Any, T], *, elsewhere: bool) -> T:
        """Await a body, and announce what becomes of it; a body in a thread or process says itself when it begins."""
        execution = self._execution
        self.stopping_since = None
        signals = {execution.signal, execution.state.caller_signal}
        if elsewhere:
            self.say("queued")
        else:
            self.say("running")
        removals = [signal.add_callback(self._stopping) for signal in signals]
        try:
            return await _overhear(body, self._stopping)
        finally:
            for remove in removals:
                remove()

    def _begun(self) -> None:
        # A body that was told to stop before it could say so is stopping.
        if self._said == "queued":
            self.say("running")

    def _stopping(self) -> None:
        if self.stopping_since is None:
            self.stopping_since = time.monotonic()
        if self._said == "running":
            self.say("stopping")


def watch_states(bus: HookBus, run: Run) -> None:
    """Begin to announce the states of a call that has just come in."""
    watch = run.execution.state.note().watch = StateWatch(bus, run.execution)
    watch.say("queued")


@types.coroutine
def _overhear(body: Coroutine[Any, Any, T], cancelled: Any) -> Generator[Any, Any, T]:
    """Await a coroutine, and tell of each cancellation that goes into it."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            waits_for = body.send(answer) if error is None else body.throw(error)
        except StopIteration as done:
            return cast("T", done.value)
        answer = error = None
        try:
            answer = yield waits_for
        except GeneratorExit:
            body.close()
            raise
        except BaseException as thrown:
            if isinstance(thrown, asyncio.CancelledError):
                cancelled()
            error = thrown
