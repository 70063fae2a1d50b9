"""One worker process as the host sees it: spoken to by pipes, gone when its keeper says so."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from ...kernel.exits import ExitWatch
from .frames import MAX_FRAME_BYTES, End
from .insistence import Insistence

__all__ = ["WorkerProcess", "importing", "search_path"]

_log = logging.getLogger("dsh_tools")

_KEEPER = Path(__file__).with_name("keeper.py")
_READ_BYTES = 65_536
_FLAGS = (("dont_write_bytecode", "-B"), ("no_user_site", "-s"), ("ignore_environment", "-E"))


importing: list[str] = []
"""What this process is importing to find a body there, where it is a worker itself."""


class WorkerProcess:
    """A process that takes one job and is never used again. It begins to start when it is made.

    ``gone`` is done when nothing of it is left: neither the process, nor what it has started, nor a descriptor.

    Raises:
        OSError: it could not be started.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[End] = self._loop.create_future()
        self._on_frame: Callable[[str, bytes], object] = _ignore
        self._end: End | None = None
        self._body: int | None = None
        self._held = bytearray()
        self._overran = False
        job_end, self._job = os.pipe()
        try:
            self._keeper = subprocess.Popen(
                [sys.executable, "-P", *_interpreter_flags(), str(_KEEPER), str(job_end), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                pass_fds=(job_end,),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._job)
            raise
        finally:
            os.close(job_end)
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._control = self._keeper.stdin
        self._frames = self._keeper.stdout.fileno()
        self._unsent = bytearray()
        for fd in (self._job, self._frames, self._control.fileno()):
            os.set_blocking(fd, False)
        self._loop.add_reader(self._frames, self._read)
        self._insistence = Insistence(self._keeper, lambda: self._body)
        ExitWatch(self._keeper.pid, self._keeper_gone)
        self._send(json.dumps(search_path()).encode() + b"\n")

    @property
    def pid(self) -> int:
        """The keeper's pid; it leads the session of everything that belongs to the worker."""
        return self._keeper.pid

    def prepare(self, modules: Sequence[str]) -> None:
        """Let it import modules for as long as it has no job."""
        self._send(json.dumps(modules).encode() + b"\n")

    def begin(self, job: bytes, on_frame: Callable[[str, bytes], object]) -> None:
        """Hand over the job. ``on_frame`` gets the letter and the JSON of each frame."""
        self._on_frame = on_frame
        self._insistence.begin()
        self._send(job + b"\n")

    def stop(self, grace: float) -> None:
        """Ask it to end, and let it be killed after ``grace`` seconds; returns at once."""
        if not self._control.closed:
            with suppress(OSError):
                self._control.write(b"stop %.3f\n" % grace)
            self._insistence.expect_end(grace)

    def kill(self) -> None:
        """End it at once; returns before it has."""
        if not self._control.closed:
            with suppress(OSError):
                self._control.close()
            self._insistence.expect_end(0)

    # ── writing ───────────────────────────────────────────────────────────────

    def _send(self, data: bytes) -> None:
        waiting = bool(self._unsent)
        self._unsent += data
        if not waiting:
            self._write()

    def _write(self) -> None:
        try:
            while self._unsent:
                sent = os.write(self._job, self._unsent[:_READ_BYTES])
                del self._unsent[:sent]
        except BlockingIOError:
            self._loop.add_writer(self._job, self._write)
            return
        except OSError:
            self._unsent.clear()  # its end will be reported
        self._loop.remove_writer(self._job)

    # ── reading ───────────────────────────────────────────────────────────────

    def _read(self) -> bool:
        """Take what the pipe holds now, a piece at most; say whether there was any."""
        try:
            data = os.read(self._frames, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(self._frames)
            return False
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._held:
                self._held += line
                line = bytes(self._held)
                self._held = bytearray()
            if not self._overran:
                self._take(line)
            self._overran = False
        self._held += rest
        if len(self._held) > MAX_FRAME_BYTES + _READ_BYTES:
            # No frame of ours: the body has written to a descriptor that is not its own.
            self._overran = True
            self._held = bytearray()
        return True

    def _take(self, line: bytes) -> None:
        letter, payload = chr(line[0]) if line else "", line[1:]
        if letter == "b" and self._body is None:
            with suppress(ValueError):
                self._body = int(payload)
        elif letter == "x":
            with suppress(msgspec.DecodeError):
                self._end = msgspec.json.decode(payload, type=End)
        elif letter:
            self._on_frame(letter, payload)

    # ── the end ───────────────────────────────────────────────────────────────

    def _keeper_gone(self) -> None:
        """Take what is left in the pipe, and let go of everything."""
        self._insistence.close()
        while self._read():
            pass
        if self._end is None:
            # Somebody has killed the keeper. The worker goes with it; its group is still known by its number.
            self._kill_group()
        self._loop.remove_reader(self._frames)
        self._loop.remove_writer(self._job)
        os.close(self._job)
        self._keeper.wait()
        with suppress(OSError):
            self._control.close()
        assert self._keeper.stdout is not None
        self._keeper.stdout.close()
        self._on_frame = _ignore
        end = self._end or End(None, self._insistence.has_killed, survivors=self._insistence.survivors)
        if end.survivors:
            _log.error("processes %s do not end, although they were killed", list(end.survivors))
        if not self.gone.done():
            self.gone.set_result(end)

    def _kill_group(self) -> None:
        if self._body is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._body, signal.SIGKILL)


def search_path() -> list[str]:
    """Return where modules are looked for, as absolute folders: the worker may start elsewhere."""
    return [os.path.abspath(entry) for entry in sys.path]


def _interpreter_flags() -> list[str]:
    flags = [flag for name, flag in _FLAGS if getattr(sys.flags, name)]
    return [*flags, *(["-" + "O" * sys.flags.optimize] if sys.flags.optimize else [])]


def _ignore(_letter: str, _payload: bytes) -> None:
    """Take no notice: nobody waits for this worker, or not yet."""
