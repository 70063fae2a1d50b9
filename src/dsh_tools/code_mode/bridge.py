"""The bridge between one program and the pipeline (CODE section I).

Every call of the program is a call like any other: whole pipeline, its own id, the outer call's
token as its parent. The lane starts the calls in the order of their submission, lets safe bodies
overlap and commits in order; the bridge answers the program at the commit, notes what the outer
call inherits, and leaves only when all that it started has stopped.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from ..code_runtime import BindingNamespace, CodeRunRequest, CodeRunResult, ErrorClassSpec, HostAnswer
from ..errors import HarnessError, LossyJsonError, ToolError, describe_exception
from ..json_value import snapshot
from ..kernel.abort import AbortController
from ..kernel.tasks import as_failure
from ..pipeline import CallLane, Slot
from ..tools.execution import ToolCall
from ..tools.registry import RESERVED_NAME
from ..tools.result import ToolResult, ToolSuccess
from .inheritance import inherit
from .recording import DispatchLog

if TYPE_CHECKING:
    from ..code_runtime import CodeRuntime
    from ..kernel.abort import AbortSignal
    from ..pipeline import Tools
    from ..tools.execution import ToolExecution
    from .recording import DispatchRecorder
    from .step import Step

__all__ = ["SETTLED", "Bridge", "DispatchError", "SubCall", "refuse_reentry"]

SETTLED = "run_code settled"
_ERROR_CLASS = ErrorClassSpec("ToolCallError", "toolName")


class DispatchError(HarnessError):
    """A call of a program failed; the **program** sees the message in a ``ToolCallError`` (CODE-96)."""

    default_code = "DISPATCH_FAILED"


class SubCall:
    """What the bridge notes on one call: who waits for it, and its entry in the log."""

    __slots__ = ("answer", "start")

    def __init__(self, answer: HostAnswer) -> None:
        self.answer = answer
        self.start: object = None

    def resolve(self, value: Any) -> None:
        """Give the program the call's value."""
        if not self.answer.done():
            self.answer.set_result(value)

    def reject(self, message: str) -> None:
        """Give the program an error with this message."""
        if not self.answer.done():
            self.answer.set_exception(DispatchError(message))


class Bridge:
    """Runs the calls of one program, and is the owner of their lane.

    Parameters:
        tools: where the calls run.
        execution: the call of ``run_code`` that the program belongs to.
        recorder: who logs the calls, if anybody does.
    """

    def __init__(self, tools: Tools, execution: ToolExecution, recorder: DispatchRecorder | None) -> None:
        self._tools = tools
        self._execution = execution
        self._loop = asyncio.get_running_loop()
        self._controller = AbortController()
        self._signal: AbortSignal = self._controller.signal
        self._log = DispatchLog(recorder, tools.service.bus, execution)
        self._lane: CallLane[SubCall] = CallLane(tools, self, max_parallel=self._most, signal=self._signal)
        self._prefix = f"{execution.call_id}:code:"
        self._submitted: int = 0
        self._open: dict[SubCall, str] = {}
        self._failure: Exception | None = None
        self.interruption: BaseException | None = None
        self.active = True

    def abort(self, reason: object) -> None:
        """End the run with this reason, unless it is over (CODE-115)."""
        self._controller.abort(reason)

    def is_of(self, execution: ToolExecution) -> bool:
        """Whether the program belongs to the one who makes this call."""
        return self.active and self._execution.agent is execution.agent

    async def run(self, runtime: CodeRuntime, program: str) -> CodeRunResult:
        """Run the program, and return when all its calls are committed and logged (CODE-117, 118).

        Raises:
            Exception: the runtime failed, or the log did not take an entry; or the body of a call raised what passes
                through calls, which is kept as ``interruption``. All calls have ended.
        """
        _RUNNING.set(self)
        outer = self._execution.signal
        detach = outer.add_callback(lambda: self.abort(outer.reason))
        work = asyncio.create_task(self._keep_lane())
        work.add_done_callback(self._lane_ended)
        try:
            return await runtime.run(self._request(program))
        finally:
            self.abort(SETTLED)
            self._lane.close()
            try:
                await work
                if self._failure is not None:
                    raise self._failure
                await self._log.drain()
            finally:
                detach()
                self.active = False

    # ── the program's side ────────────────────────────────────────────────────

    def _request(self, program: str) -> CodeRunRequest:
        return CodeRunRequest(program, (self._namespace(),), self._signal)

    def _namespace(self) -> BindingNamespace:
        """One function for each tool that the caller sees now (CODE-20, 94)."""
        names = self._tools.view(self._execution.scope).entries
        functions = {name: partial(self._dispatch, name) for name in names if name != RESERVED_NAME}
        return BindingNamespace("tools", functions, _ERROR_CLASS)

    def _dispatch(self, name: str, arguments: Any, step: Step | None = None) -> HostAnswer:
        """Submit one call; the future has its canonical value once it is committed (CODE-95 to 99).

        Parameters:
            step: the call as a journal has it, where the run is kept.
        """
        sub = SubCall(HostAnswer(loop=self._loop)) if step is None else step
        if self._signal.aborted:
            sub.reject(self._over(f"{name} not dispatched"))
            return sub.answer
        try:
            frozen = snapshot(arguments)
        except LossyJsonError as error:
            hint = f"call tools.{name} with an arguments object of plain values"
            self._refused(sub, f"tool arguments must be lossless JSON: {error.message}; {hint}")
            return sub.answer
        self._submitted += 1
        execution = self._execution
        call = ToolCall(
            name,
            frozen,
            f"{self._prefix}{self._submitted}",
            execution.root_call_id,
            execution.agent,
            execution.token,
            self._signal,
            by_program=True,
            durable=step,
        )
        self._submit(sub, call)
        return sub.answer

    def _refused(self, sub: SubCall, message: str) -> None:
        """Tell the program what is wrong with its arguments."""
        sub.reject(message)

    def _submit(self, sub: SubCall, call: ToolCall) -> None:
        self._open[sub] = call.name
        self._lane.submit(call, sub)

    def _over(self, what: str) -> str:
        return f"run_code run is over ({describe_exception(self._signal.reason)}); {what}"

    # ── the lane's side ───────────────────────────────────────────────────────

    def _most(self) -> int:
        return self._tools.service.config.max_parallel_sub_calls

    def starting(self, slot: Slot[SubCall]) -> None:
        """Log the start, before any policy looks at the call (CODE-107)."""
        slot.tag.start = self._log.started(slot.call)

    async def committed(self, slot: Slot[SubCall], result: ToolResult) -> None:
        """Answer the program, hand on what the outer call inherits, log the end (CODE-103, 109, 112 to 114)."""
        sub, call = slot.tag, slot.call
        self._open.pop(sub, None)
        if self._signal.aborted:
            sub.reject(self._over(f"{call.name} result discarded"))
        elif isinstance(result, ToolSuccess):
            sub.resolve(result.value)
        else:
            sub.reject(result.error.message)
        inherit(self._execution, result)
        self._log.settled(sub.start, call, result)
        if self._log.pending > self._most():
            await self._log.keep_up(self._most())

    def abandoned(self, slot: Slot[SubCall]) -> None:
        """Tell the program that the call will never start; nothing is logged (CODE-116)."""
        self._open.pop(slot.tag, None)
        slot.tag.reject(self._over(f"{slot.call.name} tool call abandoned"))

    async def _keep_lane(self) -> None:
        """Run the lane. Where it fails nobody can be answered any more: end the program."""
        try:
            await self._lane.run()
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except Exception as error:
            self._failure = error
        except BaseException as error:
            # Not raised here: a task that raises KeyboardInterrupt ends the event loop, with all that still runs.
            self._failure, self.interruption = as_failure(error, "a call of the program"), error

    def _lane_ended(self, _work: asyncio.Task[None]) -> None:
        if self._failure is not None:
            self.abort(self._failure)
        for sub, name in self._open.items():
            sub.reject(self._over(f"{name} result discarded"))
        self._open.clear()


_RUNNING: ContextVar[Bridge | None] = ContextVar("dsh_tools_program", default=None)


def refuse_reentry(execution: ToolExecution) -> None:
    """Refuse a program inside a program of the same caller, through whatever tool it came (CODE-20).

    An agent that a program's call has started is another caller, and may run programs.

    Raises:
        ToolError: the model reads why.
    """
    bridge = _RUNNING.get()
    if bridge is not None and bridge.is_of(execution):
        raise ToolError(f"{RESERVED_NAME} cannot be called by a program, nor by a tool that a program calls")
