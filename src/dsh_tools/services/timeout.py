"""Time limits for tool calls.

A definition's ``timeout_ms`` is only a number; this plugin is what keeps it (D10). Mount it, and
every call of a tool that declares a limit runs under a deadline::

    ctx.plugin(TimeoutPlugin())

**What a body sees.** Its ``run.signal`` fires when the limit is up, or when its caller gives up,
whichever comes first; an async body is cancelled at its next await as well. The limit counts from
the moment this wrapper is reached, so wrappers mounted before it (a queue for a rate limit, say)
do not use it up, and a retry mounted before it gets a fresh limit for each attempt.

**What the model sees.** Where the limit was up first, the result is
``Error: tool call timed out after <n>ms`` with the code ``TOOL_TIMEOUT``, whatever the body
returned or raised afterwards (HOST-133). Further lines keep the text that the body reported by
``run.progress("…")`` before the limit, and say that the body has stopped, and how: whether it ran to
its end all the same, or had to be killed. It always has stopped: the call waits for its body
(HOST-134), because a result that says "timed out" while the body goes on to change things is worse
than a late one. A value that comes after the limit is never a success, even where its body has held
up the event loop, and with it the timer. Whoever gives a limit to a synchronous body is refused at
registration (D44); a body in a process is killed. The result of a call whose caller gave up says the same.

**Who wins.** The first abort (HOST-135). A caller that gives up before the deadline gets
``ABORTED``; one that gives up after it gets the timeout. A timer of another wrapper further out is
an ordinary abort to this one (HOST-136).

The plugin has no settings (HOST-131). It needs ``ctx.tools`` to look up, at each call, the
definition that the caller sees.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pydantic
from msgspec import UNSET

from ..content import TextBlock
from ..errors import ListenerError, ToolTimeoutError
from ..json_value import js_number
from ..kernel.abort import AbortController
from ..tools.events import EXECUTE
from ..tools.result import ErrorDetail, ErrorInfo, ToolFailure, ToolResult
from ..tools.stopping import StopReport
from .stopping import NEVER_STARTED, SLOW_TO_STOP_SECONDS, explain_abort, output_lines, stop_line

if TYPE_CHECKING:
    from ..kernel.abort import AbortSignal
    from ..kernel.context import Context
    from ..kernel.hooks import Next
    from ..pipeline.service import Tools
    from ..tools.execution import ToolExecution
    from ..tools.stopping import StopEnding

__all__ = ["TimeoutConfig", "TimeoutPlugin"]

_log = logging.getLogger("dsh_tools")

_INFO = ErrorInfo("ToolTimeoutError", ToolTimeoutError.default_code)


class TimeoutConfig(pydantic.BaseModel):
    """There is nothing to configure: limits are the tools' own."""

    model_config = pydantic.ConfigDict(extra="forbid")


class TimeoutPlugin:
    """Keeps every definition's ``timeout_ms`` by a wrapper on ``tools/execute``."""

    name = "timeout"
    inject = ("tools",)
    Config = TimeoutConfig

    def apply(self, ctx: Context, config: TimeoutConfig) -> None:
        """Mount the wrapper; when the plugin goes, later calls have no limit (HOST-138)."""
        wrapper = _Wrapper(ctx.tools)
        ctx.on(EXECUTE, wrapper.execute)


class _Wrapper:
    """The wrapper, and the calls that are under a deadline now."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def execute(self, execution: ToolExecution, next: Next[ToolResult]) -> ToolResult:
        """Run the rest of the chain under the limit that the visible definition declares."""
        limit = self._limit_of(execution)
        if limit is None:
            result = await next()
            return explain_abort(execution, result) if result.is_error else result
        callers = execution.signal
        deadline = _Deadline(limit, callers)
        execution.signal = deadline.signal
        try:
            result = await next()
        except ListenerError:
            raise
        except Exception as error:
            if not deadline.has_passed(execution, "raised"):
                raise
            _log.debug('"%s" failed after its time limit', execution.name, exc_info=error)
            return deadline.failure(execution)
        finally:
            deadline.close()
            execution.signal = callers
        if not deadline.has_passed(execution, "raised" if result.is_error else "returned"):
            return explain_abort(execution, result) if result.is_error else result
        deadline.warn_if_slow(execution)
        return deadline.failure(execution, result)

    def _limit_of(self, execution: ToolExecution) -> float | None:
        definition = self._tools.get(execution.name, execution.scope)
        return None if definition is None else definition.timeout_ms


class _Deadline:
    """One call's limit: a signal that follows the caller's, and a timer that may fire it first."""

    def __init__(self, limit_ms: float, callers: AbortSignal) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._message = f"tool call timed out after {js_number(limit_ms)}ms"
        self._reason = ToolTimeoutError(self._message)
        self._controller = AbortController()
        self._task = asyncio.current_task()
        self._cancellations = 0 if self._task is None else self._task.cancelling()
        self._callers_gave_up = False
        self._overrun_seconds: float | None = None
        self._ends_at = loop.time() + limit_ms / 1000
        self._timer = loop.call_later(limit_ms / 1000, self._expire)
        self._detach = callers.add_callback(lambda: self._controller.abort(callers.reason))

    @property
    def signal(self) -> AbortSignal:
        """Fires with the caller's signal, or when the limit is up."""
        return self._controller.signal

    def has_passed(self, execution: ToolExecution, ending: StopEnding) -> bool:
        """Whether the limit was up before the caller gave up (HOST-135); called when the chain has settled.

        The clock decides, not the timer: a body that holds up the event loop holds up the timer as well, and is
        never told to stop.

        Parameters:
            ending: how the chain has settled, in case that nobody was told.
        """
        if not self.signal.aborted and self._loop.time() >= self._ends_at:
            self._expire()
            if not self._callers_gave_up and execution.stop is None and execution.state.body_ran:
                late = round(self._loop.time() - self._ends_at, 3)
                execution.state.note().stop = StopReport("limit", ending, late)
        if self.signal.reason is not self._reason:
            return False
        # What the body had asked of its own task has been taken back by now; what the caller has asked, stands.
        return not (self._callers_gave_up and self._cancelled_since)

    def close(self) -> None:
        """Clear the timer and let go of the caller's signal (HOST-137)."""
        self._timer.cancel()
        self._detach()

    def failure(self, execution: ToolExecution, late: ToolResult | None = None) -> ToolFailure:
        """Return the timeout's result; ``late`` is what the chain settled with afterwards, if it did."""
        lines = [
            f"Error: {self._message}",
            *output_lines(execution, "output before the limit"),
            NEVER_STARTED if execution.status == "queued" else stop_line(execution.stop, self._overrun(), "the limit"),
        ]
        contexts = UNSET if late is None else late.additional_contexts
        content = (TextBlock("\n".join(lines)),)
        return ToolFailure(ErrorDetail(self._message, _INFO), content, additional_contexts=contexts)

    def warn_if_slow(self, execution: ToolExecution) -> None:
        """Tell the operator of a body that went on long after it was told to stop."""
        overrun = self._overrun()
        if overrun:
            _log.warning(
                'tool "%s" (call %s) stopped %.1f s after its time limit',
                execution.name,
                execution.call_id,
                overrun,
            )

    def _overrun(self) -> float:
        """How many seconds the tool went on after the limit; 0 for the little that stopping takes."""
        if self._overrun_seconds is None:
            late = self._loop.time() - self._ends_at
            self._overrun_seconds = late if late > SLOW_TO_STOP_SECONDS else 0.0
        return self._overrun_seconds

    @property
    def _cancelled_since(self) -> bool:
        return self._task is not None and self._task.cancelling() > self._cancellations

    def _expire(self) -> None:
        # A native cancellation of the awaiting task is the caller's abort (D11); it has no signal.
        self._callers_gave_up = self._cancelled_since
        self._controller.abort(self._reason)
