"""The worker's half of a call: finds the body by its name, calls it, and tells the host what comes of it.

A frame is one line: a letter and JSON. ``p`` progress, ``d`` a deferred context, ``t`` the end of the turn,
``v`` the value, ``e`` what was raised, ``n`` what had to be imported. Everything here runs in the worker; nothing here
is ever called in the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import io
import json
import logging
import os
import pickle
import runpy
import signal
import sys
import threading
import traceback
import types
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ...errors import (
    AbortError,
    HarnessError,
    JsonTextError,
    LossyJsonError,
    ToolOutputError,
    ToolProcessError,
    describe_exception,
)
from ...json_value import parse_json, snapshot, to_json_text
from ...kernel.abort import AbortController, AbortSignal
from ...messages import UserMessage
from ...tools.assembly import read_arguments, read_output
from ...tools.decorator import tool
from ...tools.define import define_body
from ...tools.definition import ToolDefinition
from ...tools.execution import CallToken, ToolRunContext
from ...tools.imported import BodyPlace, ImportedBody, find_attribute
from ..cancellation import BodyCancellation
from .frames import MAX_FRAME_BYTES, Failure, Job, unpack
from .worker import importing

__all__ = ["serve"]

_STOPPED = "the call was told to stop"
# What may be imported before there is a job: this package, and what takes long of what it needs. Nobody's own modules,
# which may look at the folder and the environment that come with the job.
_PREPARED = frozenset({"dsh_tools", "griffe", "pydantic"})


def serve(job_file: io.BufferedReader, frames: int) -> None:
    """Wait for a job, do it, and end the process."""
    line = _next_job(job_file)
    if not line:
        os._exit(0)
    channel = _Channel(frames)
    stop = _Stop(channel)
    try:
        value = _perform(unpack(line), channel, stop)
    except BaseException as error:
        stop.disarm()
        channel.send("e", msgspec.json.encode(_failure_of(error)))
    else:
        channel.send("v", value)
    with contextlib.suppress(Exception):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    # Threads that the body has left, and handlers of exits, would only hold up the end.
    os._exit(0)


def _next_job(job_file: io.BufferedReader) -> bytes:
    """Return the line of the job, nothing if none will come; import meanwhile what other bodies have needed."""
    wanted: deque[str] = deque()
    while True:
        if not wanted or _is_waiting(job_file):
            line = job_file.readline()
            if not line.startswith(b"["):
                return line
            wanted.extend(json.loads(line))
        else:
            # Whoever needs it will see why it fails.
            with contextlib.suppress(Exception):
                importlib.import_module(wanted.popleft())


def _is_waiting(job_file: io.BufferedReader) -> bool:
    """Whether there is another line, or the beginning of one."""
    os.set_blocking(job_file.fileno(), False)
    try:
        return bool(job_file.peek(1))
    finally:
        os.set_blocking(job_file.fileno(), True)


def _perform(job: Job, channel: _Channel, stop: _Stop) -> bytes:
    """Call the body and return its value as JSON."""
    run: ToolRunContext = _Run(job, channel, stop.signal)
    stop.arm()
    _move_in(job)
    present = set(sys.modules)
    body = _find(job.place, job.name)
    needed = [name for name in list(sys.modules) if name not in present and name.partition(".")[0] in _PREPARED]
    if needed:
        channel.send("n", json.dumps(needed).encode())
    value = _call(body, parse_json(job.arguments), run, stop)
    stop.disarm()
    try:
        text = to_json_text(value).encode()
    except LossyJsonError as error:
        raise ToolOutputError(job.name, [f"value is not lossless JSON\n{error.message}"]) from error
    if len(text) > MAX_FRAME_BYTES:
        what = f"value is {len(text)} bytes of JSON; at most {MAX_FRAME_BYTES} come out of a process"
        raise ToolOutputError(job.name, [what])
    return text


def _move_in(job: Job) -> None:
    """Take over what the host has now: this process may have been started long before."""
    for name in os.environ.keys() - job.environment.keys():
        del os.environ[name]
    os.environ.update(job.environment)
    sys.path[:] = job.path
    os.chdir(job.folder)


# ── the body ──────────────────────────────────────────────────────────────────


def _find(place: BodyPlace, name: str) -> Callable[[Any, Any], Any]:
    """Return the body that stands at a place, ready for JSON arguments."""
    importing.append(place.script or place.main or place.module)
    try:
        module = _import(place)
        found = find_attribute(module, place.qualname)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {describe_exception(error)}"
        raise ToolProcessError(
            f'the process could not import "{place.qualname}" of the module "{place.module}": {what}'
        ) from error
    finally:
        importing.clear()
    if place.form == "function" and not isinstance(found, ToolDefinition):
        found = tool(isolation="process")(found)
    if isinstance(found, ToolDefinition):
        execute = found.execute
        return execute.here if isinstance(execute, ImportedBody) else execute
    if place.form == "typed":
        parameters, output = pickle.loads(place.classes)
        convert = None if parameters is None else read_arguments(parameters, {}).convert
        encode = None if output is None else read_output(name, output, None, None, {}).encoder(name)
        return define_body(found, convert, encode)
    return found


def _import(place: BodyPlace) -> object:
    if place.main is not None:
        module: types.ModuleType = importlib.import_module(place.main)
    elif place.script is not None:
        module = types.ModuleType("__mp_main__")
        # The name by which scripts know that they are only imported, as in ``multiprocessing``.
        module.__dict__.update(runpy.run_path(place.script, run_name="__mp_main__"))
    else:
        return importlib.import_module(place.module)
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    return module


def _call(body: Callable[[Any, Any], Any], args: Any, run: ToolRunContext, stop: _Stop) -> Any:
    value = body(args, run)
    return asyncio.run(_attend(value, stop)) if inspect.isawaitable(value) else value


async def _attend(body: Awaitable[Any], stop: _Stop) -> Any:
    """Run an async body as the pipeline does: its signal cancels it (PIPE-192, 193)."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.fire)
    watch = BodyCancellation(stop.signal)
    try:
        return await body
    finally:
        watch.close()
        loop.remove_signal_handler(signal.SIGTERM)
        stop.listen()


# ── being stopped ─────────────────────────────────────────────────────────────


class _Stop:
    """Hears the request to end. It fires the body's signal, and raises into a body that is not async."""

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel
        self._controller = AbortController()
        self._armed = False
        channel.after_write = self._raise_if_due
        self._due = False
        self.listen()

    @property
    def signal(self) -> AbortSignal:
        """Fires with the request."""
        return self._controller.signal

    def listen(self) -> None:
        """Take the request wherever the main thread is."""
        signal.signal(signal.SIGTERM, self._interrupt)

    def fire(self) -> None:
        """Fire the signal."""
        self._controller.abort(AbortError(_STOPPED))

    def arm(self) -> None:
        """Let the request interrupt what runs from now on, once."""
        self._armed = True

    def disarm(self) -> None:
        """Interrupt nothing any more."""
        self._armed = False

    def _interrupt(self, _number: int, _frame: types.FrameType | None) -> None:
        self.fire()
        self._due = True
        # Half a frame would spoil the next one.
        if not self._channel.is_writing:
            self._raise_if_due()

    def _raise_if_due(self) -> None:
        if self._due and self._armed:
            self._armed = False
            raise asyncio.CancelledError(_STOPPED)


# ── telling the host ──────────────────────────────────────────────────────────


class _Channel:
    """The way to the host. Bodies may use it from any thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.RLock()
        self._writer: int | None = None
        self.after_write: Callable[[], None] = lambda: None

    @property
    def is_writing(self) -> bool:
        """Whether the calling thread is in the middle of a frame, or waits for its turn."""
        return self._writer == threading.get_ident()

    def send(self, letter: str, payload: bytes) -> None:
        """Write one frame; waits where the host is far behind."""
        data = letter.encode() + payload + b"\n"
        main = threading.current_thread() is threading.main_thread()
        if main:
            # Set before the lock is asked for: an interruption there would leave it held.
            self._writer = threading.get_ident()
        try:
            with self._lock:
                while data:
                    data = data[os.write(self._fd, data) :]
        finally:
            if main:
                self._writer = None
        if main:
            self.after_write()


class _Run:
    """What the body gets beside its arguments: a :class:`ToolRunContext` at a distance."""

    def __init__(self, job: Job, channel: _Channel, signal: AbortSignal) -> None:
        self.call_id = job.call_id
        self.root_call_id = job.root_call_id
        self.name = job.name
        self.signal = signal
        # Agents and other calls are the host's; a token that is settled authorises nothing.
        self.agent = None
        self.token = CallToken(None)
        self._channel = channel

    @property
    def scope(self) -> None:
        """A body in a process sees no scope."""
        return None

    def progress(self, value: object) -> None:
        """Tell observers how far the body is; what is not JSON goes as its ``repr``."""
        try:
            text = to_json_text(snapshot(value))
        except LossyJsonError:
            text = to_json_text(repr(value))
        self._channel.send("p", text.encode())

    def defer_context(self, context: UserMessage | str) -> None:
        """Add a message that the model reads after this batch of calls (PIPE-169)."""
        if not isinstance(context, (str, UserMessage)):
            raise TypeError(f"defer_context() takes a string or a UserMessage of content blocks, got {context!r}")
        self._channel.send("d", msgspec.json.encode(context))

    def conclude_turn(self) -> None:
        """End the agent's turn after this batch, if the call succeeds (PIPE-173)."""
        self._channel.send("t", b"null")


def _failure_of(error: BaseException) -> Failure:
    """Describe what was raised, as text that always can be sent."""
    if isinstance(error, JsonTextError):
        error = HarnessError(f"the arguments cannot be sent to a process: {error.message}", error.code, name=error.name)
    code, name = (error.code, error.name) if isinstance(error, HarnessError) else (None, None)
    coded = type(code) is str and type(name) is str
    trace = "".join(traceback.format_exception(error))
    return Failure(
        _sendable(describe_exception(error)),
        type(error).__name__,
        code if coded else None,
        name if coded else None,
        isinstance(error, asyncio.CancelledError),
        _sendable(trace),
    )


def _sendable(text: str) -> str:
    """Return the text without lone surrogates, which UTF-8 does not have."""
    return text[: MAX_FRAME_BYTES // 8].encode("utf-8", "backslashreplace").decode()
