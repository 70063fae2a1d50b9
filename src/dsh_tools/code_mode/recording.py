"""The log entries of a program's calls: one when a call starts, one when it has settled (CODE-106 to 111)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import ListenerError
from ..kernel.hooks import Listener, run_waterfall
from ..tools.blocks import checked_content
from ..tools.events import CODE_DISPATCH_LOG, DispatchLogEntry

if TYPE_CHECKING:
    from ..content import Content
    from ..kernel.hooks import HookBus
    from ..tools.execution import ToolCall, ToolExecution
    from ..tools.result import ToolResult

__all__ = ["DispatchLog", "DispatchRecorder"]

_log = logging.getLogger("dsh_tools")


class DispatchRecorder(Protocol):
    """Who writes the entries, found on the context as ``recorder``. Agents without a log have none."""

    def dispatch_started(
        self,
        agent: object,
        *,
        root_call_id: str,
        parent_call_id: str,
        sub_call_id: str,
        name: str,
        arguments: object,
    ) -> object:
        """Log a start; returns what :meth:`dispatch_settled` takes, or None where nothing is logged."""
        ...

    def dispatch_settled(self, agent: object, start: Any, *, is_error: bool, content: Content) -> None:
        """Log the end of a call whose start was logged."""
        ...


class DispatchLog:
    """The entries of one program.

    Parameters:
        recorder: who writes them; None writes nothing.
        bus: where ``tools/code-dispatch-log`` is dispatched.
        execution: the outer call.
    """

    def __init__(self, recorder: DispatchRecorder | None, bus: HookBus, execution: ToolExecution) -> None:
        self._recorder = None if execution.agent is None else recorder
        self._bus = bus
        self._outer = execution
        self._pending: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    def started(self, call: ToolCall) -> object:
        """Log that a call starts (CODE-107).

        Returns:
            What :meth:`settled` takes.

        Raises:
            Exception: the log does not take the entry.
        """
        if self._recorder is None:
            return None
        outer = self._outer
        return self._recorder.dispatch_started(
            outer.agent,
            root_call_id=outer.root_call_id,
            parent_call_id=outer.call_id,
            sub_call_id=call.call_id,
            name=call.name,
            arguments=call.arguments,
        )

    def settled(self, start: object, call: ToolCall, result: ToolResult) -> None:
        """Log that a call has settled: at once, or beside the program where listeners shape the entry (CODE-108, 109).

        Raises:
            Exception: the log does not take the entry.
        """
        if self._recorder is None or start is None:
            return
        listeners = self._bus.listeners(CODE_DISPATCH_LOG, self._outer.scope)
        if not listeners:
            self._write(start, result, result.content)
            return
        entry = DispatchLogEntry(self._outer, call.call_id, call.name, result.is_error, result.content)
        self._spawn(self._shape_and_write(start, result, listeners, entry))

    @property
    def pending(self) -> int:
        """How many entries are being shaped."""
        return len(self._pending)

    async def keep_up(self, most: int) -> None:
        """Wait until no more than ``most`` entries are being shaped (CODE-109)."""
        while len(self._pending) > most:
            await asyncio.wait(self._pending, return_when=asyncio.FIRST_COMPLETED)

    async def drain(self) -> None:
        """Wait for all entries.

        Raises:
            Exception: the log did not take one of them.
        """
        while self._pending:
            await asyncio.wait(self._pending)
        if self._failure is not None:
            raise self._failure

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._pending.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._pending.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None and self._failure is None:
            self._failure = error

    async def _shape_and_write(
        self, start: object, result: ToolResult, listeners: tuple[Listener, ...], entry: DispatchLogEntry
    ) -> None:
        self._write(start, result, await _shape(listeners, entry))

    def _write(self, start: object, result: ToolResult, content: Content) -> None:
        assert self._recorder is not None
        self._recorder.dispatch_settled(self._outer.agent, start, is_error=result.is_error, content=content)


async def _shape(listeners: tuple[Listener, ...], entry: DispatchLogEntry) -> Content:
    """Let listeners replace the logged copy; one that fails changes nothing (CODE-110, PIPE-233)."""
    try:
        shaped = await run_waterfall(listeners, entry, lambda: entry.content, _check)
        content = checked_content(shaped)
        assert content is not None
        return content
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # The loop is being shut down: write what there is.
            return entry.content
        _log.warning('the log entry of "%s" (call %s) stays as it is', entry.name, entry.sub_call_id, exc_info=True)
    except Exception:
        _log.warning('the log entry of "%s" (call %s) stays as it is', entry.name, entry.sub_call_id, exc_info=True)
    return entry.content


def _check(listener: Listener, outcome: object) -> None:
    if checked_content(outcome) is None:
        what = f"expected a list of content blocks, got {type(outcome).__name__}"
        raise ListenerError(listener.name, CODE_DISPATCH_LOG.name, what)
