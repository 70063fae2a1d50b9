"""One program from its start until nothing of it is left. Everything here runs in the supervisor's thread."""

from __future__ import annotations

import logging
import os
import secrets
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol, cast

import psutil

from .family import MARK, Family

__all__ = ["Launch", "Outcome", "OutputSink", "Stream", "Supervisor"]

_log = logging.getLogger("dsh_tools")

Stream = Literal["stdout", "stderr"]

_CHUNK = 65_536
# How often the leader is looked at where the system has no process descriptors, in seconds.
_LOOK_EVERY = 0.02
# How long what the leader leaves behind may take to end by itself, in seconds: the end of a pipeline, say.
_SETTLE = 0.2
# How long to wait for the end of a pipe that nobody known can still write to, in seconds.
_LAST_OUTPUT = 0.25
# How long to go on killing what does not die, in seconds; only the kernel can hold a process that long.
_KILL_FOR = 5.0


@dataclass(frozen=True, slots=True)
class Launch:
    """What to run.

    Parameters:
        argv: the program and its arguments; no shell is involved.
        cwd: the working folder.
        env: the whole environment.
        timeout: how many seconds it may take; None is no limit.
        grace: how many seconds it has to end by itself when it is told to stop, before it is killed.
        pass_fds: descriptors that it inherits.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    timeout: float | None = None
    grace: float = 3.0
    pass_fds: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended.

    Parameters:
        exit_code: its exit status; None where a signal ended it.
        signal: the name of the signal that ended it.
        timed_out: its time was up.
        stopped: it was told to stop.
        leftovers: how many processes it had left running, which were stopped.
        survivors: pids that could not be ended.
    """

    exit_code: int | None
    signal: str | None
    timed_out: bool = False
    stopped: bool = False
    leftovers: int = 0
    survivors: tuple[int, ...] = field(default=())


class OutputSink(Protocol):
    """Takes what a program writes, in the supervisor's thread."""

    def feed(self, stream: Stream, data: bytes) -> None:
        """Take a piece; what this raises stops the program and goes out of :meth:`Supervisor.run`."""
        ...

    def flush(self) -> float | None:
        """Hand on what waits; return in how many seconds to call again, None where nothing waits."""
        ...


class Supervisor:
    """Runs one program; use it once.

    Parameters:
        launch: what to run.
        sink: where its output goes.
    """

    def __init__(self, launch: Launch, sink: OutputSink) -> None:
        self._launch = launch
        self._sink = sink
        self._lock = threading.Lock()
        self._stop_asked = False
        self._wake: int | None = None
        self._timed_out = False

    def stop(self) -> None:
        """Tell the program to end; returns at once, may be called from any thread and more than once."""
        with self._lock:
            self._stop_asked = True
            if self._wake is not None:
                with suppress(BlockingIOError):
                    os.write(self._wake, b"x")

    def run(self) -> Outcome:
        """Run the program; when this returns, nothing of it is left.

        Raises:
            OSError: it could not be started.
            BaseException: whatever the sink raised; the program has been ended.
        """
        heard, wake = os.pipe()
        os.set_blocking(wake, False)
        try:
            with self._lock:
                self._wake = wake
                stopped_before = self._stop_asked
            if stopped_before:
                return Outcome(None, None, stopped=True)
            return self._run(heard)
        finally:
            with self._lock:
                self._wake = None
            os.close(heard)
            os.close(wake)

    def _run(self, heard: int) -> Outcome:
        mark = secrets.token_hex(12)
        before = frozenset(psutil.pids())
        child = subprocess.Popen(
            self._launch.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=self._launch.cwd,
            env={**self._launch.env, MARK: mark},
            start_new_session=True,
            pass_fds=tuple(self._launch.pass_fds),
        )
        family = Family(child.pid, mark, before)
        try:
            with _Watch(child, heard) as watch:
                return self._supervise(child, family, watch)
        except BaseException:
            family.kill()
            child.wait()
            raise
        finally:
            for pipe in (child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()

    def _supervise(self, child: subprocess.Popen[bytes], family: Family, watch: _Watch) -> Outcome:
        limit = self._launch.timeout
        deadline = None if limit is None else time.monotonic() + limit
        while not watch.leader_gone and not self._stop_asked:
            if deadline is not None and time.monotonic() >= deadline:
                self._timed_out = True
                break
            watch.wait(self._sink, deadline)
        leftovers = 0
        if watch.leader_gone and not self._wait_for_end(family, watch, _SETTLE):
            leftovers = len(family.members())
        survivors = self._end(family, watch) if leftovers or not watch.leader_gone else ()
        last = time.monotonic() + _LAST_OUTPUT
        while watch.open_pipes and time.monotonic() < last:
            watch.wait(self._sink, last)
        self._sink.flush()
        if survivors and not watch.leader_gone:
            return Outcome(None, None, self._timed_out, self._stop_asked, leftovers, survivors)
        code = child.wait()
        number = -code if code < 0 else None
        return Outcome(
            code if number is None else None,
            None if number is None else _signal_name(number),
            self._timed_out,
            self._stop_asked,
            leftovers,
            survivors,
        )

    def _end(self, family: Family, watch: _Watch) -> tuple[int, ...]:
        """Ask the family to end, then kill it, and return who is still there."""
        family.signal(signal.SIGTERM)
        # Stopped processes would not hear the request.
        family.signal(signal.SIGCONT)
        if self._wait_for_end(family, watch, self._launch.grace):
            return ()
        ends = time.monotonic() + _KILL_FOR
        while time.monotonic() < ends:
            family.kill()
            # Again and again: a process may have started another one meanwhile.
            if self._wait_for_end(family, watch, 0.1):
                return ()
        left = tuple(process.pid for process in family.members())
        _log.error("processes %s do not end, although they were killed", list(left))
        return left

    def _wait_for_end(self, family: Family, watch: _Watch, seconds: float) -> bool:
        """Hand on output until everybody is gone or the time is up."""
        ends = time.monotonic() + seconds
        pause = 0.002
        while True:
            if watch.leader_gone and not family.members():
                return True
            now = time.monotonic()
            if now >= ends:
                return False
            watch.wait(self._sink, min(ends, now + pause))
            pause = min(pause * 2, 0.05)


class _Watch:
    """Waits for output, for the end of the leader, and for a call to stop."""

    def __init__(self, child: subprocess.Popen[bytes], heard: int) -> None:
        self._child = child
        self._heard = heard
        self._selector = selectors.DefaultSelector()
        self._pidfd: int | None = None
        self.leader_gone = False
        self.open_pipes = 0
        self._flush_at: float | None = None

    def __enter__(self) -> _Watch:
        for stream, name in ((self._child.stdout, "stdout"), (self._child.stderr, "stderr")):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream.fileno(), selectors.EVENT_READ, name)
            self.open_pipes += 1
        self._selector.register(self._heard, selectors.EVENT_READ, "stop")
        if hasattr(os, "pidfd_open"):
            self._pidfd = os.pidfd_open(self._child.pid)
            self._selector.register(self._pidfd, selectors.EVENT_READ, "leader")
        return self

    def __exit__(self, *_error: object) -> None:
        self._selector.close()
        if self._pidfd is not None:
            os.close(self._pidfd)

    def wait(self, sink: OutputSink, until: float | None) -> None:
        """Wait for something to happen, at most until ``until``, and hand on what was written."""
        events = self._selector.select(self._patience(until))
        for key, _ in events:
            if key.data == "leader":
                self.leader_gone = True
                self._selector.unregister(key.fd)
            elif key.data == "stop":
                self._selector.unregister(key.fd)
            else:
                self._read(key.fd, cast("Stream", key.data), sink)
        if self._pidfd is None and not self.leader_gone:
            self.leader_gone = self._child.poll() is not None
        due = sink.flush()
        self._flush_at = None if due is None else time.monotonic() + due

    def _patience(self, until: float | None) -> float | None:
        times = [moment for moment in (until, self._flush_at) if moment is not None]
        left = max(0.0, min(times) - time.monotonic()) if times else None
        if self._pidfd is None and not self.leader_gone:
            return _LOOK_EVERY if left is None else min(left, _LOOK_EVERY)
        return left

    def _read(self, fd: int, stream: Stream, sink: OutputSink) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        if data:
            sink.feed(stream, data)
        else:
            self._selector.unregister(fd)
            self.open_pipes -= 1


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
