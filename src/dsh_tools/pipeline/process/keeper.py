"""Keeps one worker process: starts it, ends it and everything it has started, and says how it ended.

Runs as a script of its own and splits in two. The child becomes the worker; the parent, the keeper, only waits.
So the end of a body never depends on the body: it may ignore signals, hold the interpreter's lock, or start
processes that leave its group. The keeper ends everything when it is told to, and when the host is gone. A body may
still stop it, since both belong to the same user: the host wakes it now and then, and its own end does it as well.

Uses the standard library only, and nothing of this package before the split.

    python keeper.py JOB_FD HOST_PID

Standard input is the host's control: a line ``stop SECONDS`` asks the worker to end and kills it after that time;
its end kills at once. Standard output takes the frames: ``b<pid>`` first, then the worker's, then ``x<JSON>``.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import sys
import time
import traceback
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# How long to go on killing what does not die, in seconds; only the kernel can hold a process that long.
KILL_FOR = 5.0
# How long what a body leaves behind has to end when it is asked to, in seconds.
LEFTOVER_GRACE = 0.5
_LONGEST_PAUSE = 0.02


class Keeper:
    """Waits for the worker, the host's commands, and the host's death."""

    def __init__(self, child: int, host: int, adopts: bool, wake: int) -> None:
        self._child = child
        self._host = host
        self._adopts = adopts
        self._wake = wake
        self._control = b""
        self._status: int | None = None
        self._alone = False
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN)
        self._poll.register(wake, select.POLLIN)
        self.grace: float | None = None
        self.killed = False

    def keep(self) -> dict[str, Any]:
        """Wait for the end, see to it that nothing is left, and return how it came."""
        while self._status is None and self.grace is None:
            self._wait(None)
        leftovers = 0
        if self._status is not None and not self._is_over():
            leftovers = max(1, len(self._members()))
            self.grace = LEFTOVER_GRACE if self.grace is None else self.grace
        survivors = [] if self._is_over() else self._end()
        code = None if self._status is None else os.waitstatus_to_exitcode(self._status)
        return {"code": code, "killed": self.killed, "leftovers": leftovers, "survivors": survivors}

    # ── waiting ───────────────────────────────────────────────────────────────

    def _wait(self, seconds: float | None) -> None:
        """Wait until something happens, or the time is up."""
        for fd, _ in self._poll.poll(None if seconds is None else max(0.0, seconds) * 1000):
            if fd == 0:
                self._listen()
            else:
                os.read(fd, 4096)
        if os.getppid() != self._host:
            self._kill_at_once()
        self._reap()

    def _listen(self) -> None:
        data = os.read(0, 4096)
        if not data:
            self._poll.unregister(0)
            self._kill_at_once()
            return
        self._control += data
        *lines, self._control = self._control.split(b"\n")
        for line in lines:
            if line.startswith(b"stop ") and self.grace is None:
                self.grace = float(line[5:])

    def _kill_at_once(self) -> None:
        self.grace = 0.0

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._alone = True
                return
            if pid == 0:
                self._alone = False
                return
            if pid == self._child:
                self._status = status

    def _is_over(self) -> bool:
        """Whether nothing is left of the worker and what it has started."""
        self._reap()
        if not self._alone:
            return False
        if self._adopts:
            # What its parents leave behind becomes a child of this process.
            return True
        try:
            os.killpg(self._child, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    # ── ending ────────────────────────────────────────────────────────────────

    def _end(self) -> list[int]:
        """Ask everybody to end, then kill; returns who is still there."""
        began = time.monotonic()
        if self.grace:
            self._signal(signal.SIGTERM)
            # Stopped processes would not hear the request.
            self._signal(signal.SIGCONT)
            while time.monotonic() < began + (self.grace or 0.0):
                if self._is_over():
                    return []
                self._wait(_LONGEST_PAUSE)
        self.killed = self._status is None
        ends = time.monotonic() + KILL_FOR
        pause = 0.001
        while time.monotonic() < ends:
            # Again and again: a process may have started another one meanwhile.
            self._signal(signal.SIGKILL)
            if self._is_over():
                return []
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if self._is_over():
                return []
        return self._members()

    def _signal(self, number: int) -> None:
        if self._status is None or not self._adopts:
            _send(os.killpg, self._child, number)
        for pid in self._members():
            _send(os.kill, pid, number)

    def _members(self) -> list[int]:
        """Return the pids of everything that descends from this process, where the system tells."""
        return descendants(os.getpid()) if self._adopts else []


def descendants(root: int) -> list[int]:
    """Return the pids of everything alive that descends from a process, where the system tells; else nothing."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    parents: dict[int, int] = {}
    for name in names:
        if name.isdecimal() and (parent := _parent_of(name)) is not None:
            parents[int(name)] = parent
    members: list[int] = []
    found = {root}
    while found:
        found = {pid for pid, parent in parents.items() if parent in found}
        members += found
    return members


def _parent_of(pid: str) -> int | None:
    """Return who started a process that is alive."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # Its name may hold anything, parentheses and blanks too.
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(parent)


def _send(how: Any, target: int, number: int) -> None:
    try:
        how(target, number)
    except OSError as error:
        if error.errno not in (errno.ESRCH, errno.EPERM):
            raise


def _call_prctl(option: int, value: int) -> bool:
    """Ask the kernel; False where it is not Linux's."""
    return sys.platform == "linux" and ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0


def _write(data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # the host has gone: nobody wants to know
        while data:
            data = data[os.write(1, data) :]


def _become_worker(keeper: int, job_fd: int, wake: tuple[int, int]) -> None:
    """Be the worker: wait for the host's word in which folders modules are found, and go on there."""
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    _call_prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)
    for fd in wake:
        os.close(fd)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # What the body prints must not get between the frames.
    frames = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(job_fd, "rb") as job:
        first = job.readline()
        if not first:
            os._exit(0)
        sys.path[:] = json.loads(first)
        from dsh_tools.pipeline.process.body import serve

        serve(job, frames)


def main() -> None:
    """Split, and be both halves."""
    job_fd, host = int(sys.argv[1]), int(sys.argv[2])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # What the host's thread has blocked is inherited, and must not be.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    heard, wake = os.pipe()
    os.set_blocking(wake, False)
    for number in (signal.SIGCHLD, signal.SIGCONT):
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    adopts = _call_prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # The end of the control says it as well, unless somebody else holds the other end by accident. This signal also
    # wakes a keeper that somebody has stopped.
    _call_prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _become_worker(keeper, job_fd, (heard, wake))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(job_fd)
    with contextlib.suppress(OSError):  # the child has done it, or is gone
        os.setpgid(child, child)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    _write(b"b%d\n" % child)
    end = Keeper(child, host, adopts, heard).keep()
    # What was killed may have left half a line.
    _write(b"\nx" + json.dumps(end).encode() + b"\n")


if __name__ == "__main__":
    main()
