"""The bridge of a program whose run is kept: it can stop for a person and go on in another process (D34).

Each request of the program, a call or a timer, has a number. The journal has what came of it, and the
order in which the program was told: ``started`` is written before a body runs, the outcome before the
program gets it. A program that runs again is told the same in the same order without running anything;
what it asks for beyond that is held until it has been told all, and then goes on as always.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from ..code_runtime import BindingNamespace, CodeRunRequest, CodeRunResult, Determinism, HostAnswer
from ..errors import CallSuspended, CodeRunFailedError
from ..json_value import digest, js_number
from ..tools.result import ToolResult, ToolSuccess
from .bridge import Bridge
from .inheritance import hand_on, inheritance
from .journal import JournalStep, ProgramJournal, StepKind, StepState
from .replayed import DIVERGED, diverged, replayed_result, shown
from .step import Step

if TYPE_CHECKING:
    from ..code_runtime import CodeRuntime
    from ..pipeline import Slot, Tools
    from ..tools.execution import ToolCall, ToolExecution
    from .journal import DurableProgram
    from .recording import DispatchRecorder

__all__ = ["DIVERGED", "OUTCOME_UNKNOWN", "JournaledBridge"]

OUTCOME_UNKNOWN: Final = (
    "TOOL_OUTCOME_UNKNOWN: the process ended while this call ran; check what it did before calling the tool again"
)
"""What the program reads of a call that had begun, has no outcome, and must not be run twice."""

_SUSPENDED = "run_code suspended"
_TIMER = "sleep"


class JournaledBridge(Bridge):
    """Runs the calls of one program, and keeps what came of them.

    Parameters:
        tools: where the calls run.
        execution: the call of ``run_code`` that the program belongs to; it is a durable one.
        recorder: who logs the calls, if anybody does.
        journal: the journal of this program.
    """

    def __init__(
        self, tools: Tools, execution: ToolExecution, recorder: DispatchRecorder | None, journal: ProgramJournal
    ) -> None:
        super().__init__(tools, execution, recorder)
        durable = execution.state.durable
        assert durable is not None
        self.call_key = durable.call_key
        self.is_resumed = durable.is_resumed
        self._durable = cast("DurableProgram", durable)
        # Whether a body has been called that the journal did not have.
        self._goes_on = False
        self._journal = journal
        self._recorded = {step.number: step for step in journal.steps}
        told = sorted(
            (step for step in journal.steps if step.delivery is not None), key=lambda step: step.delivery or 0
        )
        self._to_tell: deque[JournalStep] = deque(told)
        self._told = len(told)
        self._clock = journal.started_at
        self._still_since: float | None = None
        self._numbered = 0
        self._known: dict[int, Step] = {}
        self._held: list[Step] = []
        self._timers: set[asyncio.TimerHandle] = set()
        self._divergence: CodeRunFailedError | None = None

    async def run(self, runtime: CodeRuntime, program: str) -> CodeRunResult:
        """Run the program, from its start or once more; see :meth:`Bridge.run`.

        Raises:
            CallSuspended: a call waits for a person; nothing of the run is left but its journal.
            CodeRunFailedError: ``CODE_REPLAY_DIVERGED``: the program did not do what it had done before.
            Exception: the runtime failed, the log or the journal did not take an entry.
        """
        try:
            return await self._run(runtime, program)
        finally:
            self._journal.close()

    async def _run(self, runtime: CodeRuntime, program: str) -> CodeRunResult:
        try:
            result = await super().run(runtime, program)
        finally:
            for timer in tuple(self._timers):
                timer.cancel()
        suspended = self._lane.suspended
        if suspended is not None and suspended.run is not None and suspended.run.suspension is not None:
            await self._journal.end("suspended")
            raise suspended.run.suspension
        left = self._signal.reason
        if isinstance(left, CallSuspended) and not self._goes_on:
            await self._journal.end("suspended")
            raise left
        self._check_end(result)
        await self._journal.end("done")
        return result

    def _check_end(self, result: CodeRunResult) -> None:
        """A program that ends by itself has asked for all that it had asked for before."""
        missing = [step for number, step in self._recorded.items() if number > self._numbered]
        ended = result.error is None or result.error.kind == "exception"
        if self._divergence is None and ended and (missing or self._to_tell):
            step = missing[0] if missing else self._to_tell[0]
            self._divergence = diverged(step.number, f"was {shown(step)}, and did not come")
        if self._divergence is not None:
            raise self._divergence

    # ── the program's side ────────────────────────────────────────────────────

    def _request(self, program: str) -> CodeRunRequest:
        journal = self._journal
        determinism = Determinism(journal.seed, journal.started_at, self._sleep)
        return CodeRunRequest(program, (self._namespace(),), self._signal, determinism)

    def _namespace(self) -> BindingNamespace:
        """The functions in the order of their names: another process may register tools in another order."""
        given = super()._namespace()
        functions = {name: partial(self._dispatch_step, name) for name in sorted(given.functions)}
        return BindingNamespace(given.global_name, functions, given.error_class)

    def _dispatch_step(self, name: str, arguments: Any) -> HostAnswer:
        return self._dispatch(name, arguments, self._next_step("call", name))

    def _refused(self, sub: Any, message: str) -> None:
        step: Step = sub
        step.outcome = ("error", message, None)
        self._take(step)

    def _submit(self, sub: Any, call: ToolCall) -> None:
        """Let a call go on: to the lane or, in a run that is repeated, with what is known of it."""
        step: Step = sub
        step.arguments = digest(call.arguments)
        step.call = call
        self._take(step)

    def _sleep(self, milliseconds: float) -> HostAnswer:
        """Answer when the time is up on the program's clock, which stood still while the program was suspended."""
        step = self._next_step("timer", _TIMER)
        step.arguments = js_number(milliseconds)
        step.due = self._clock + milliseconds
        if not self._signal.aborted:
            self._take(step)
        return step.answer

    def _next_step(self, kind: StepKind, name: str) -> Step:
        self._numbered += 1
        return Step(self, HostAnswer(loop=self._loop), self._numbered, kind, name)

    def _take(self, step: Step) -> None:
        """Let a step go on; where that fails the program must not go on as if it were the step's own failure."""
        try:
            self._follow(step)
        except Exception as error:
            self.abort(error)

    def _follow(self, step: Step) -> None:
        """Let a step go on from what the journal says of it."""
        recorded = self._recorded.get(step.number)
        if recorded is not None:
            if (recorded.kind, recorded.name, recorded.arguments) != (step.kind, step.name, step.arguments):
                self._divergence = diverged(step.number, f"was {shown(recorded)}, and now is {shown(step)}")
                self.abort(self._divergence)
                return
            if recorded.state != "started":
                step.outcome = (recorded.state, recorded.outcome, recorded.inherited)
            elif not self._may_run_again(step.name):
                step.outcome = ("error", OUTCOME_UNKNOWN, None)
            if recorded.delivery is not None:
                self._follow_told(step, recorded)
                return
        # What was held before goes first.
        if self._to_tell or self._held:
            self._held.append(step)
        else:
            self._go(step)

    def _follow_told(self, step: Step, recorded: JournalStep) -> None:
        """Tell the program what it was told before, if it is this step's turn.

        The answer goes out when the function that the program has called returns, so nothing else must be told
        before that: not what waits for this step, and not what was held.
        """
        if self._to_tell[0] is not recorded:
            self._known[step.number] = step
            return
        self._to_tell.popleft()
        self._repeat(step, recorded)
        if self._known or self._held:
            self._loop.call_soon(self._tell_known)

    def _tell_known(self) -> None:
        """Tell the program what it has asked for and was told next; after all of it, let go what was held."""
        if self._signal.aborted:
            return
        try:
            while self._to_tell:
                recorded = self._to_tell[0]
                step = self._known.pop(recorded.number, None)
                if step is None:
                    return
                self._to_tell.popleft()
                self._repeat(step, recorded)
            held, self._held = self._held, []
            for step in held:
                self._go(step)
        except Exception as error:
            self.abort(error)

    def _repeat(self, step: Step, recorded: JournalStep) -> None:
        self._log_again(step, recorded)
        hand_on(self._execution, recorded.inherited)
        self._tell(step, recorded)

    def _go(self, step: Step) -> None:
        """Begin a step that the journal has no answer to; all earlier answers have been given."""
        if step.outcome is not None:
            state, outcome, inherited = step.outcome
            if step.call is not None:
                self._log_again(step, JournalStep(step.number, step.kind, step.name, "", state, outcome=outcome))
            hand_on(self._execution, inherited)
            self._settle(step, state, outcome, inherited)
        elif step.call is not None:
            super()._submit(step, step.call)
        else:
            # By the program's own clock, which stands still from one answer to the next, and while the program is
            # suspended: timers go off in the order in which they are due there.
            if self._still_since is None:
                self._still_since = self._loop.time()
            # A nanosecond for each step keeps those that are due at once in their order.
            due = self._still_since + (step.due - self._clock) / 1000 + step.number * 1e-9
            timer = self._loop.call_at(due, self._timer_up, step)
            self._timers.add(timer)
            step.answer.add_done_callback(partial(self._forget_timer, timer))

    def _timer_up(self, step: Step) -> None:
        if step.answer.done() or self._signal.aborted:
            return
        try:
            self._settle(step, "value", None, None)
        except Exception as error:
            self.abort(error)

    def _forget_timer(self, timer: asyncio.TimerHandle, _answer: object) -> None:
        timer.cancel()
        self._timers.discard(timer)

    def _may_run_again(self, name: str) -> bool:
        entry = self._tools.view(self._execution.scope).entries.get(name)
        return entry is not None and entry.definition.idempotent is True

    # ── telling the program ───────────────────────────────────────────────────

    def _settle(self, step: Step, state: StepState, outcome: Any, inherited: Any) -> asyncio.Future[None] | None:
        """Keep what came of a step, and then tell the program. A future that is returned is to be awaited."""
        self._told += 1
        self._clock = max(self._clock, time.time_ns() // 1_000_000)
        settled = JournalStep(
            step.number, step.kind, step.name, step.arguments, state, self._told, self._clock, outcome, inherited
        )
        kept = self._journal.write(settled)
        if kept is None:
            self._tell(step, settled)
        else:
            kept.add_done_callback(partial(self._kept, step, settled))
        return kept

    def _kept(self, step: Step, settled: JournalStep, kept: asyncio.Future[None]) -> None:
        error = None if kept.cancelled() else kept.exception()
        if error is not None:
            self.abort(error)
        elif not kept.cancelled():
            self._tell(step, settled)

    def _tell(self, step: Step, settled: JournalStep) -> None:
        assert settled.at is not None
        self._clock, self._still_since = settled.at, self._loop.time()
        if step.answer.done():
            return
        step.answer.at = settled.at
        if settled.state == "value":
            step.resolve(settled.outcome)
        else:
            step.reject(str(settled.outcome))

    # ── the lane's side ───────────────────────────────────────────────────────

    def note_begun(self, step: Step, execution: ToolExecution) -> asyncio.Future[None] | None:
        """Keep that a body is about to run, so that it never runs twice."""
        if not self._goes_on:
            self._goes_on = True
            self._durable.goes_on()
        if self._may_run_again(execution.name):
            return None
        return self._journal.write(JournalStep(step.number, "call", step.name, step.arguments, "started"))

    def starting(self, slot: Slot[Any]) -> None:
        """Log the start, unless an earlier run has logged it."""
        step: Step = slot.tag
        logged = self._journal.logged.get(slot.call.call_id)
        step.start = self._log.started(slot.call) if logged is None else logged

    async def committed(self, slot: Slot[Any], result: ToolResult) -> None:
        """Keep the outcome, tell the program, hand on what the outer call inherits, log the end."""
        step: Step = slot.tag
        self._open.pop(step, None)
        state: StepState = "value" if isinstance(result, ToolSuccess) else "error"
        outcome = result.value if isinstance(result, ToolSuccess) else result.error.message
        inherited = inheritance(result)
        if self._signal.aborted:
            step.reject(self._over(f"{step.name} result discarded"))
            settled = JournalStep(
                step.number, "call", step.name, step.arguments, state, outcome=outcome, inherited=inherited
            )
            kept = self._journal.write(settled)
        else:
            kept = self._settle(step, state, outcome, inherited)
        if kept is not None:
            await kept
        hand_on(self._execution, inherited)
        self._log.settled(step.start, slot.call, result)
        if self._log.pending > self._most():
            await self._log.keep_up(self._most())

    def abandoned(self, slot: Slot[Any]) -> None:
        """Tell the program that the call will never start; a program that is suspended is told nothing."""
        if self._lane.suspended is None:
            super().abandoned(slot)
        else:
            self._open.pop(slot.tag, None)

    def _lane_ended(self, work: asyncio.Task[None]) -> None:
        if self._lane.suspended is not None:
            self._open.clear()
            self.abort(_SUSPENDED)
        super()._lane_ended(work)

    def _log_again(self, step: Step, recorded: JournalStep) -> None:
        """Write what a process that died had no time to write into the session's log."""
        if step.call is None:
            return
        logged = self._journal.logged
        call_id = step.call.call_id
        start = logged.get(call_id)
        if start is None and call_id in logged:
            return
        entry = self._tools.view(self._execution.scope).entries.get(step.name)
        result = replayed_result(entry, step.call.arguments, recorded)
        self._log.settled(self._log.started(step.call) if start is None else start, step.call, result)
