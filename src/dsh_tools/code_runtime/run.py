"""One run: the first outcome wins, and nothing of it goes on afterwards (CODE-146, 147).

Both runtimes use this. They bring the worker; the account, the clocks, the signal and the host
functions are here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import HarnessError, LossyJsonError, describe_exception
from ..json_value import JsonValue, snapshot
from .budgets import RuntimeConfig, compute_exhausted, wall_reached
from .cpu_meter import CpuMeter
from .ledger import Ledger
from .seam import BindingFunction, CodeRunError, CodeRunRequest, CodeRunResult, HostAnswer

__all__ = ["STUCK", "Answer", "BindingRejection", "Outcome", "Reply", "Run", "abort_error"]

STUCK = CodeRunError("exception", "program is waiting for something that nothing pending can resolve")
"""The failure of a program that waits although nothing is left that could wake it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended. At most one field says something; none means that it returned nothing.

    Parameters:
        load: parses and freezes the completion value; raises ``LossyJsonError`` where it is none.
        large: that value is large enough to be read in a thread.
        error: why the run failed.
        over: the program said more than it may.
    """

    load: Callable[[], JsonValue] | None = None
    large: bool = False
    error: CodeRunError | None = None
    over: bool = False


class BindingRejection(HarnessError):
    """A call to the host failed; the **program** sees the message, in its own error class."""

    default_code = "BINDING_REJECTED"


Answer: TypeAlias = JsonValue | BindingRejection
"""What the host says to one call: a frozen value, or why there is none."""

Reply: TypeAlias = Callable[[Answer, "int | None"], object]
"""Takes an answer to the program, with the time that its clock shows from then on, if any."""


def _lossless(value: object) -> JsonValue:
    try:
        return snapshot(value)
    except LossyJsonError:
        raise BindingRejection("binding resolution must be lossless JSON") from None


def abort_error(reason: object) -> CodeRunError:
    """The failure of a run that was aborted: its message is the reason as text (CODE-146)."""
    return CodeRunError("abort", "aborted" if reason is None else describe_exception(reason))


class Run:
    """The state of one program between its start and its result.

    Parameters:
        request: what was asked for.
        config: the budgets.
    """

    def __init__(self, request: CodeRunRequest, config: RuntimeConfig) -> None:
        loop = asyncio.get_running_loop()
        self.request = request
        self.config = config
        self.outcome: asyncio.Future[Outcome] = loop.create_future()
        self._ledger = Ledger(config.max_output_bytes)
        self._functions: dict[tuple[str, str], BindingFunction] = {
            (binding.global_name, name): function
            for binding in request.bindings
            for name, function in binding.functions.items()
        }
        self._tasks: set[asyncio.Future[Any]] = set()
        self._meter: CpuMeter | None = None
        self._wall = loop.call_later(config.max_wall_ms / 1000, self.fail, wall_reached(config))
        signal = request.signal
        self._remove_callback = None if signal is None else signal.add_callback(self._aborted)

    @property
    def settled(self) -> bool:
        """Whether the outcome is known; what comes later changes nothing."""
        return self.outcome.done()

    @property
    def calls_in_flight(self) -> int:
        """How many calls to the host have not been answered yet."""
        return len(self._tasks)

    def settle(self, outcome: Outcome) -> None:
        """Set the outcome, unless there is one."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def fail(self, error: CodeRunError) -> None:
        """Set a failure as the outcome, unless there is one."""
        self.settle(Outcome(error=error))

    def meter(self, pid: int) -> None:
        """Begin to charge the CPU time of a process to the compute budget."""
        if not self.settled:
            self._meter = CpuMeter(pid, self.config.compute_ms, self._exhausted)

    def log(self, text: str) -> None:
        """Take one log entry; one too many is the end (CODE-154)."""
        if not self.settled and not self._ledger.log(text):
            self.settle(Outcome(over=True))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of one call beside the program; what is left of it ends with the run."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def call(self, namespace: str, name: str, load: Callable[[], JsonValue], reply: Reply) -> BindingRejection | None:
        """Call a host function and pass its answer on, unless the run is over by then.

        The answer is a value, checked and frozen, or the rejection that the program gets to see. A function
        that gives a :class:`HostAnswer` costs no task and no turn of the event loop. Where there is nothing to
        wait for, because no function could be called, that rejection is returned and ``reply`` hears nothing.

        Parameters:
            namespace: the global it belongs to.
            name: its name there.
            load: gives the arguments; raises ``LossyJsonError`` where they are none.
            reply: takes the answer.
        """
        try:
            made = self._begin(namespace, name, load)
        except BindingRejection as rejection:
            return rejection
        if isinstance(made, HostAnswer):
            self._attend(made, lambda done: self._answer_with(done, reply))
        else:
            self.spawn(self._await_answer(made, reply))
        return None

    def sleep(self, milliseconds: float, wake: Callable[[int | None], object]) -> HostAnswer | None:
        """Begin a timer of a repeatable program; ``wake`` takes the time of its end, unless the run is over by then.

        Returns the answer that the host will give; None for an ordinary program, and when the host raises,
        which ends the run.
        """
        determinism = self.request.determinism
        if determinism is None:
            return None
        try:
            made = determinism.sleep(milliseconds)
        except Exception as error:
            self._timer_failed(error)
            return None
        self._attend(made, lambda done: self._wake_with(done, wake))
        return made

    def forget(self, answer: HostAnswer) -> None:
        """Cancel a timer that the program has cleared."""
        answer.receiver = None
        answer.cancel()
        self._tasks.discard(answer)

    def _attend(self, made: HostAnswer, receiver: Callable[[HostAnswer], object]) -> None:
        if made.done():
            receiver(made)
        else:
            made.receiver = receiver
            self._tasks.add(made)

    def _answer_with(self, done: HostAnswer, reply: Reply) -> None:
        self._tasks.discard(done)
        if self.settled:
            return
        error = done.exception()
        if error is not None:
            reply(BindingRejection(describe_exception(error)), done.at)
            return
        try:
            value = _lossless(done.result())
        except BindingRejection as rejection:
            reply(rejection, done.at)
        else:
            reply(value, done.at)

    def _wake_with(self, done: HostAnswer, wake: Callable[[int | None], object]) -> None:
        self._tasks.discard(done)
        if self.settled:
            return
        error = done.exception()
        if error is None:
            wake(done.at)
        else:
            self._timer_failed(error)

    def _timer_failed(self, error: BaseException) -> None:
        self.fail(CodeRunError("worker-exit", f"worker error: a timer failed: {describe_exception(error)}"))

    async def _await_answer(self, made: Awaitable[JsonValue], reply: Reply) -> None:
        try:
            value = await self._finish(made)
        except BindingRejection as rejection:
            reply(rejection, None)
        else:
            reply(value, None)

    def _begin(self, namespace: str, name: str, load: Callable[[], JsonValue]) -> Awaitable[JsonValue]:
        function = self._functions.get((namespace, name))
        if function is None:
            raise BindingRejection(f'unknown binding "{namespace}.{name}"')
        try:
            arguments = load()
        except LossyJsonError:
            raise BindingRejection("binding arguments must be lossless JSON") from None
        try:
            return function(arguments)
        except Exception as error:
            raise BindingRejection(describe_exception(error)) from error

    async def _finish(self, made: Awaitable[JsonValue]) -> JsonValue:
        try:
            value = await made
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise BindingRejection(describe_exception(error)) from error
        except Exception as error:
            raise BindingRejection(describe_exception(error)) from error
        return _lossless(value)

    async def finish(self) -> CodeRunResult:
        """Stop what the run started, and make its result of the outcome.

        Call it when the worker has gone: until then the program could still print.
        """
        await self.release()
        outcome = self.outcome.result()
        return await asyncio.to_thread(self._result, outcome) if outcome.large else self._result(outcome)

    async def release(self) -> None:
        """Stop the clocks, let go of the signal, and cancel the calls that nobody waits for any more."""
        self._wall.cancel()
        if self._meter is not None:
            self._meter.stop()
        if self._remove_callback is not None:
            self._remove_callback()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _result(self, outcome: Outcome) -> CodeRunResult:
        if outcome.over:
            return self._ledger.overflow()
        if outcome.error is not None:
            return self._ledger.failure(outcome.error)
        if outcome.load is None:
            return self._ledger.completion()
        try:
            return self._ledger.success(outcome.load())
        except LossyJsonError:
            return self._ledger.failure(CodeRunError("invalid-output", "program completion must be lossless JSON"))

    def _aborted(self) -> None:
        signal = self.request.signal
        self.fail(abort_error(None if signal is None else signal.reason))

    def _exhausted(self) -> None:
        self.fail(compute_exhausted(self.config))
