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
``run.progress("…")`` before the limit, and say whether the body has stopped. It always has: the
call waits for its body (HOST-134), because a result that says "timed out" while the body goes on
to change things is worse than a late one. Whoever gives a limit to a synchronous body in a thread
is refused at registration (D44).

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
from ..errors import InvalidTimeoutError, ListenerError, ToolTimeoutError
from ..json_value import js_number
from ..kernel.abort import MAX_TIMEOUT_SECONDS, AbortController
from ..tools.events import EXECUTE, TOOL_PROGRESS
from ..tools.result import ErrorDetail, ErrorInfo, ToolFailure, ToolResult

if TYPE_CHECKING:
    from ..kernel.abort import AbortSignal
    from ..kernel.context import Context
    from ..kernel.hooks import Next
    from ..pipeline.service import Tools
    from ..tools.execution import CallToken, ToolExecution

__all__ = ["TimeoutConfig", "TimeoutPlugin"]

_log = logging.getLogger("dsh_tools")

_INFO = ErrorInfo("ToolTimeoutError", ToolTimeoutError.default_code)
_MAX_OUTPUT_CHARS = 16_384
_SLOW_TO_STOP_SECONDS = 1.0


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
        ctx.on(TOOL_PROGRESS, wrapper.note_progress)


class _Wrapper:
    """The wrapper, and the calls that are under a deadline now."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._deadlines: dict[CallToken, _Deadline] = {}

    async def execute(self, execution: ToolExecution, next: Next[ToolResult]) -> ToolResult:
        """Run the rest of the chain under the limit that the visible definition declares."""
        limit = self._limit_of(execution)
        if limit is None:
            return await next()
        callers = execution.signal
        deadline = _Deadline(limit, callers)
        execution.signal = deadline.signal
        self._deadlines[execution.token] = deadline
        try:
            result = await next()
        except ListenerError:
            raise
        except Exception as error:
            if not deadline.passed:
                raise
            _log.debug('"%s" failed after its time limit', execution.name, exc_info=error)
            return deadline.failure()
        finally:
            deadline.close()
            execution.signal = callers
            self._deadlines.pop(execution.token, None)
        if not deadline.passed:
            return result
        deadline.warn_if_slow(execution)
        return deadline.failure(result)

    def note_progress(self, execution: ToolExecution, value: object) -> None:
        """Keep what a body reports as text while its limit is not up."""
        deadline = self._deadlines.get(execution.token)
        if deadline is not None and isinstance(value, str):
            deadline.note(value)

    def _limit_of(self, execution: ToolExecution) -> float | None:
        definition = self._tools.get(execution.name, execution.scope)
        limit = None if definition is None else definition.timeout_ms
        if limit is not None and limit > MAX_TIMEOUT_SECONDS * 1000:
            most = js_number(MAX_TIMEOUT_SECONDS * 1000)
            raise InvalidTimeoutError(f'tool "{execution.name}" timeoutMs must be at most {most}')
        return limit


class _Deadline:
    """One call's limit: a signal that follows the caller's, and a timer that may fire it first."""

    def __init__(self, limit_ms: float, callers: AbortSignal) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._message = f"tool call timed out after {js_number(limit_ms)}ms"
        self._reason = ToolTimeoutError(self._message)
        self._controller = AbortController()
        self._output = _Output()
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

    @property
    def passed(self) -> bool:
        """Whether the limit was up before the caller gave up (HOST-135)."""
        return self.signal.reason is self._reason and not self._callers_gave_up

    def note(self, text: str) -> None:
        """Keep a piece of output, unless the call has been told to stop already."""
        if not self.signal.aborted:
            self._output.add(text)

    def close(self) -> None:
        """Clear the timer and let go of the caller's signal (HOST-137)."""
        self._timer.cancel()
        self._detach()

    def failure(self, late: ToolResult | None = None) -> ToolFailure:
        """Return the timeout's result; ``late`` is what the chain settled with afterwards, if it did."""
        lines = [f"Error: {self._message}", *self._output.lines()]
        overrun = self._overrun()
        lines.append(
            f"[the tool has stopped, {overrun:.1f} s after the limit]" if overrun else "[the tool has stopped]"
        )
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
            self._overrun_seconds = late if late > _SLOW_TO_STOP_SECONDS else 0.0
        return self._overrun_seconds

    def _expire(self) -> None:
        # A native cancellation of the awaiting task is the caller's abort (D11); it has no signal.
        task = self._task
        self._callers_gave_up = task is not None and task.cancelling() > self._cancellations
        self._controller.abort(self._reason)


class _Output:
    """The text a body reported so far; of a long one the end is kept."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0
        self._cut = False

    def add(self, text: str) -> None:
        """Add a piece; a piece that does not end its line gets the line's end."""
        piece = text if text.endswith("\n") else text + "\n"
        self._pieces.append(piece)
        self._size += len(piece)
        # Not at every piece, so that many small pieces stay cheap.
        if self._size > 2 * _MAX_OUTPUT_CHARS:
            self._trim()

    def lines(self) -> list[str]:
        """Return the lines to show, under a heading; nothing if there is no output."""
        if not self._pieces:
            return []
        self._trim()
        heading = "[output before the limit; its beginning was cut off]" if self._cut else "[output before the limit]"
        return [heading, "".join(self._pieces).rstrip("\n")]

    def _trim(self) -> None:
        if self._size <= _MAX_OUTPUT_CHARS:
            return
        kept = "".join(self._pieces)[-_MAX_OUTPUT_CHARS:]
        self._pieces = [kept]
        self._size = len(kept)
        self._cut = True
