"""Telling observers of ``tools/state`` where each call stands. Nothing here runs while nobody listens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

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

    def told(self, at: float) -> None:
        """The awaiting task was cancelled, which has gone into the body."""
        if self.stopping_since is None:
            self.stopping_since = at
        if self._said == "running":
            self.say("stopping")

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
        removals = [signal.add_callback(lambda: self.told(time.monotonic())) for signal in signals]
        try:
            return await body
        finally:
            for remove in removals:
                remove()

    def _begun(self) -> None:
        # A body that was told to stop before it could say so is stopping.
        if self._said == "queued":
            self.say("running")


def watch_states(bus: HookBus, run: Run) -> None:
    """Begin to announce the states of a call that has just come in."""
    watch = run.execution.state.note().watch = StateWatch(bus, run.execution)
    watch.say("queued")
