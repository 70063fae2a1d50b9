"""What the host does with each frame of a running program."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from ...errors import LossyJsonError
from ..protocol import (
    CallFrame,
    DoneFrame,
    FaultFrame,
    Frame,
    IdleFrame,
    LogFrame,
    SleepFrame,
    WakeFrame,
    at_member,
    failure_reply,
    program_line,
    success_reply,
)
from ..run import STUCK, Answer, BindingRejection, Outcome, Run
from ..seam import CodeRunError, HostAnswer
from .process import DenoProcess

__all__ = ["FRAME_BYTES", "converse", "frame_limit"]

FRAME_BYTES = 64 << 20
"""The largest arguments of one call, in bytes of JSON text."""

# How many calls a worker sends before it waits for a reply. It keeps the rest in its own memory.
_WINDOW_CALLS = 512
_WINDOW_BYTES = 32 << 20

# Our worker keeps to half of this.
_MOST_TIMERS = 20_000

# Values beyond this size are read in a thread, so that the event loop gets its turns.
_LARGE = 1 << 20


def frame_limit(output_bytes: int) -> int:
    """The longest line to take from a worker: the larger of the two things it may send, with escapes."""
    return 2 * max(FRAME_BYTES, output_bytes) + 4096


def converse(process: DenoProcess, run: Run) -> None:
    """Hand the program to the process; its frames and its end go to the run from now on."""
    conversation = _Conversation(process, run)
    process.attend(conversation.take, run.fail)
    determinism = run.request.determinism
    terms: dict[str, Any] = {
        "capacity": run.config.max_output_bytes,
        "frameLimit": FRAME_BYTES,
        "windowCalls": _WINDOW_CALLS,
        "windowBytes": _WINDOW_BYTES,
        "key": None,
    }
    if determinism is not None:
        terms["key"] = sha256(determinism.seed.encode()).hexdigest()
        terms["startedAt"] = determinism.started_at
    run.meter(process.pid)
    process.send(program_line(run.request.program, run.request.bindings, terms))


def _outcome(frame: DoneFrame) -> Outcome:
    if frame.value is None:
        return Outcome(error=frame.error, over=frame.over)
    return Outcome(load=frame.value.value, large=len(frame.value.text) > _LARGE)


class _Conversation:
    """The host's half. It trusts no frame: ids count upwards, and too many open calls stop the reading."""

    def __init__(self, process: DenoProcess, run: Run) -> None:
        self._process = process
        self._run = run
        self._last_id = 0
        self._open_calls = 0
        self._open_bytes = 0
        self._repeatable = run.request.determinism is not None
        self._timers: dict[int, HostAnswer] = {}

    def take(self, frame: Frame) -> None:
        """Act on one frame; after the outcome, on none."""
        run = self._run
        if run.settled:
            return
        if isinstance(frame, CallFrame):
            self._call(frame)
        elif isinstance(frame, LogFrame):
            run.log(frame.text)
        elif isinstance(frame, SleepFrame):
            self._sleep(frame)
        elif isinstance(frame, WakeFrame):
            self._wake(frame)
        elif isinstance(frame, DoneFrame):
            run.settle(_outcome(frame))
        elif isinstance(frame, FaultFrame):
            run.fail(CodeRunError("worker-exit", f"worker error: {frame.message}"))
        elif isinstance(frame, IdleFrame):
            run.fail(STUCK)

    def _call(self, frame: CallFrame) -> None:
        # A worker counts upwards, so an id that is not new was answered already, or is being answered.
        if frame.id <= self._last_id:
            return
        self._last_id = frame.id
        self._open_calls += 1
        self._open_bytes += len(frame.arguments.text)
        # Our worker stays within its window; one that does not has to wait at its own full pipe.
        if self._open_calls > 2 * _WINDOW_CALLS or self._open_bytes > _WINDOW_BYTES + 2 * FRAME_BYTES:
            self._process.pause()
        rejection = self._run.call(
            frame.namespace, frame.name, frame.arguments.value, lambda answer, at: self._reply(frame, answer, at)
        )
        if rejection is not None:
            self._reply(frame, rejection, None)

    def _reply(self, frame: CallFrame, answer: Answer, at: int | None) -> None:
        more = at_member(at) if self._repeatable else ""
        if isinstance(answer, BindingRejection):
            reply = failure_reply(frame.id, answer.message, more)
        else:
            try:
                reply = success_reply(frame.id, answer, more)
            except LossyJsonError as error:
                reply = failure_reply(frame.id, f"binding resolution must be lossless JSON\n{error}", more)
        self._open_calls -= 1
        self._open_bytes -= len(frame.arguments.text)
        self._process.resume()
        self._process.send(reply)

    def _sleep(self, frame: SleepFrame) -> None:
        if frame.id <= self._last_id or not self._repeatable:
            return
        self._last_id = frame.id
        if len(self._timers) >= _MOST_TIMERS:
            self._run.fail(CodeRunError("worker-exit", "worker error: too many timers"))
            return
        answer = self._run.sleep(frame.milliseconds, lambda at: self._ring(frame.id, at))
        if answer is not None and not answer.done():
            self._timers[frame.id] = answer

    def _ring(self, timer_id: int, at: int | None) -> None:
        self._timers.pop(timer_id, None)
        self._process.send(success_reply(timer_id, None, at_member(at)))

    def _wake(self, frame: WakeFrame) -> None:
        answer = self._timers.pop(frame.id, None)
        if answer is not None:
            self._run.forget(answer)
