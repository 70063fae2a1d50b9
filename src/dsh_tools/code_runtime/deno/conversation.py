"""What the host does with each frame of a running program."""

from __future__ import annotations

from ...errors import LossyJsonError
from ..protocol import (
    CallFrame,
    DoneFrame,
    FaultFrame,
    Frame,
    IdleFrame,
    LogFrame,
    failure_reply,
    program_line,
    success_reply,
)
from ..run import STUCK, Answer, BindingRejection, Outcome, Run
from ..seam import CodeRunError
from .process import DenoProcess

__all__ = ["FRAME_BYTES", "converse", "frame_limit"]

FRAME_BYTES = 64 << 20
"""The largest arguments of one call, in bytes of JSON text."""

# How many calls a worker sends before it waits for a reply. It keeps the rest in its own memory.
_WINDOW_CALLS = 512
_WINDOW_BYTES = 32 << 20

# Values beyond this size are read in a thread, so that the event loop gets its turns.
_LARGE = 1 << 20


def frame_limit(output_bytes: int) -> int:
    """The longest line to take from a worker: the larger of the two things it may send, with escapes."""
    return 2 * max(FRAME_BYTES, output_bytes) + 4096


def converse(process: DenoProcess, run: Run) -> None:
    """Hand the program to the process; its frames and its end go to the run from now on."""
    conversation = _Conversation(process, run)
    process.attend(conversation.take, run.fail)
    limits = {
        "capacity": run.config.max_output_bytes,
        "frameLimit": FRAME_BYTES,
        "windowCalls": _WINDOW_CALLS,
        "windowBytes": _WINDOW_BYTES,
    }
    run.meter(process.pid)
    process.send(program_line(run.request.program, run.request.bindings, limits))


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

    def take(self, frame: Frame) -> None:
        """Act on one frame; after the outcome, on none."""
        run = self._run
        if run.settled:
            return
        if isinstance(frame, CallFrame):
            self._call(frame)
        elif isinstance(frame, LogFrame):
            run.log(frame.text)
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
        self._run.call(frame.namespace, frame.name, frame.arguments.value, lambda answer: self._reply(frame, answer))

    def _reply(self, frame: CallFrame, answer: Answer) -> None:
        if isinstance(answer, BindingRejection):
            reply = failure_reply(frame.id, answer.message)
        else:
            try:
                reply = success_reply(frame.id, answer)
            except LossyJsonError as error:
                reply = failure_reply(frame.id, f"binding resolution must be lossless JSON\n{error}")
        self._open_calls -= 1
        self._open_bytes -= len(frame.arguments.text)
        self._process.resume()
        self._process.send(reply)
