"""One Deno process: started locked down, spoken to by pipes, ended by a signal (CODE-156, design section 7)."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, cast

from ...kernel.exits import wait_for_exit
from ...kernel.tasks import outlast, see_out
from ..budgets import RuntimeConfig
from ..framing import LineCutter
from ..pool import WorkerStartError
from ..protocol import Frame, ReadyFrame, greeting, parse_frame
from ..seam import CodeRunError

__all__ = ["WORKER", "DenoProcess", "source_files"]

_log = logging.getLogger("dsh_tools")

_HERE = Path(__file__).parent
_LAUNCHER = _HERE / "launcher.py"
WORKER = _HERE / "worker.ts"

_MIB = 1 << 20
_ENGINE_BYTES = 512 * _MIB
_FILE_BYTES = 64 * _MIB
_CPU_GRACE_SECONDS = 30
_START_SECONDS = 30.0
_STDERR_KEPT = 16384
# As much as a pipe holds.
_READ_BYTES = 65536

# Where the loader finds shared libraries; none of these holds anything of the user's.
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store", "/gnu/store")
# The stripper asks the C library for the bounds of its stack, which reads the process's own map.
_READABLE = ("/etc/ld.so.cache", "/etc/ld.so.preload", "/proc/self/maps")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")

_FLAGS = (
    *("--quiet", "--no-prompt", "--no-remote", "--no-npm", "--no-config", "--no-lock", "--no-code-cache"),
    *(f"--deny-{right}" for right in ("read", "write", "net", "env", "run", "ffi", "sys", "import")),
)


def source_files(worker: Path) -> list[Path]:
    """Return a worker's module and those it may import: the ones beside it."""
    return sorted(worker.parent.glob("*.ts"))


class _Pipe(asyncio.Protocol):
    """Our end of a pipe: hands bytes on, where any come, and knows when it is closed."""

    def __init__(self, on_data: Callable[[bytes], None]) -> None:
        self._on_data = on_data
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


class DenoProcess:
    """A worker that takes one program and is never used again.

    Make one with :meth:`start`, and say with :meth:`attend` who hears of it.
    """

    def __init__(
        self,
        folder: str,
        child: subprocess.Popen[bytes],
        frame_limit: int,
        remove_folder: Callable[[str], object],
    ) -> None:
        self.pid = child.pid
        self._on_frame: Callable[[Frame], None] = _ignore
        self._on_exit: Callable[[CodeRunError], None] = _ignore
        self._end: CodeRunError | None = None
        self._folder = folder
        self._remove_folder = remove_folder
        self._child = child
        self._nonce = secrets.token_hex(16) + ":"
        self._cutter = LineCutter(self._nonce.encode(), frame_limit, self._line)
        self._stderr = bytearray()
        self._killed = False
        self._paused = False
        self._stdin: asyncio.WriteTransport | None = None
        self._stdout: asyncio.ReadTransport | None = None
        self._pipes: list[_Pipe] = []
        self._watch: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        deno: str,
        config: RuntimeConfig,
        *,
        worker: Path = WORKER,
        landlock: bool = True,
        frame_limit: int,
        remove_folder: Callable[[str], object],
    ) -> Self:
        """Start a process and wait until it is ready for a program.

        ``remove_folder`` is called with the process's temporary folder when the process has gone.

        Raises:
            WorkerStartError: it did not start, or ended before it was ready.
        """
        starting = asyncio.ensure_future(asyncio.to_thread(_launch, deno, config, worker, landlock, os.getpid()))
        try:
            await asyncio.wait([starting])
        except asyncio.CancelledError:
            # The thread cannot be called back: take what it makes, and end that.
            await outlast(starting)
            if starting.exception() is None:
                await cls(*starting.result(), frame_limit, remove_folder).close()
            raise
        if (error := starting.exception()) is not None:
            raise WorkerStartError(_start_error(f"{Path(deno).name} could not be started: {error}")) from error
        folder, child = starting.result()
        process = cls(folder, child, frame_limit, remove_folder)
        try:
            await process._connect()
            await asyncio.wait_for(process._greet(), _START_SECONDS)
        except BaseException as error:
            await process.close()
            if isinstance(error, TimeoutError):
                raise WorkerStartError(_start_error(f"not ready after {_START_SECONDS:g} s")) from None
            raise
        return process

    @property
    def alive(self) -> bool:
        """Whether it can still take a program."""
        return not self._killed and self._child.returncode is None

    def attend(self, on_frame: Callable[[Frame], None], on_exit: Callable[[CodeRunError], None]) -> None:
        """Say who hears of each frame, and once, after everything it wrote has been read, of its end.

        If it has ended already, ``on_exit`` is called at once.
        """
        self._on_frame, self._on_exit = on_frame, on_exit
        if self._end is not None:
            on_exit(self._end)

    def send(self, line: bytes) -> None:
        """Write one line, which ends in a newline; to a process that has gone, nothing."""
        if self._stdin is not None and self.alive and not self._stdin.is_closing():
            self._stdin.write(line)

    def pause(self) -> None:
        """Stop reading what it writes; it will block when its pipe is full."""
        if self._stdout is not None and not self._killed and self._stdout.is_reading():
            self._paused = True
            self._stdout.pause_reading()

    def resume(self) -> None:
        """Read on after :meth:`pause`."""
        if self._paused and self._stdout is not None and not self._stdout.is_closing():
            self._paused = False
            self._stdout.resume_reading()

    def kill(self) -> None:
        """End it, and whatever it may have started, at once. Frames that come later are dropped."""
        self._killed = True
        self.resume()
        # Until its exit status is read the pid is still its own, so this hits nobody else.
        if self._child.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def close(self) -> None:
        """End it and wait until the process and its pipes are gone. Its folder goes afterwards."""
        self.kill()
        if self._watch is None:
            # Its pipes were never connected, so they are closed here.
            self._watch = asyncio.ensure_future(self._bury())
        await see_out(self._watch)

    # ── the start ─────────────────────────────────────────────────────────────

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        child = self._child
        for stream, on_data in ((child.stdout, self._cutter.feed), (child.stderr, self._keep_stderr)):
            pipe = _Pipe(on_data)
            transport, _ = await loop.connect_read_pipe(lambda pipe=pipe: pipe, cast("Any", stream))
            self._pipes.append(pipe)
            # asyncio makes a buffer of this size for each read: 256 KiB by default, which takes longer than the read.
            if hasattr(transport, "max_size"):
                cast("Any", transport).max_size = _READ_BYTES
            if stream is child.stdout:
                self._stdout = transport
        stdin = _Pipe(_ignore)
        self._stdin, _ = await loop.connect_write_pipe(lambda: stdin, cast("Any", child.stdin))
        self._pipes.append(stdin)
        self._watch = asyncio.ensure_future(self._wait_for_end())

    async def _greet(self) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_frame(frame: Frame) -> None:
            if isinstance(frame, ReadyFrame) and not ready.done():
                ready.set_result(None)

        def on_exit(error: CodeRunError) -> None:
            if not ready.done():
                ready.set_exception(WorkerStartError(error, self._stderr.decode("utf-8", "replace").strip()))

        self.attend(on_frame, on_exit)
        self.send(greeting(self._nonce))
        await ready
        self.attend(_ignore, _ignore)

    # ── what comes in ─────────────────────────────────────────────────────────

    def _line(self, line: bytes) -> None:
        if not self._killed:
            frame = parse_frame(line)
            if frame is not None:
                self._on_frame(frame)

    def _keep_stderr(self, data: bytes) -> None:
        room = _STDERR_KEPT - len(self._stderr)
        if room > 0:
            self._stderr += data[:room]

    # ── the end ───────────────────────────────────────────────────────────────

    async def _wait_for_end(self) -> None:
        await wait_for_exit(self.pid)
        code = self._child.wait()
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.abort()
        for pipe in self._pipes:
            await pipe.closed
        self._remove_folder(self._folder)
        self._end = self._exit_error(code)
        self._on_exit(self._end)

    def _exit_error(self, code: int) -> CodeRunError:
        if not self._killed:
            _log.debug("a Deno process ended with %d: %s", code, self._stderr.decode("utf-8", "replace"))
        told = b"out of memory" in self._stderr or b"memory allocation of" in self._stderr
        # An allocator that meets the process's data limit aborts without a word.
        if told or (code == -signal.SIGABRT and not self._stderr):
            return CodeRunError("worker-exit", "worker error: out of memory")
        shown = code if code >= 0 else 128 - code
        return CodeRunError("worker-exit", f"worker exited with code {shown} before completing")

    async def _bury(self) -> None:
        await wait_for_exit(self.pid)
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout, self._child.stderr):
            if stream is not None:
                stream.close()
        self._remove_folder(self._folder)


def _start_error(reason: str) -> CodeRunError:
    return CodeRunError("worker-exit", f"worker error: {reason}")


def _ignore(_: object) -> None:
    """Take no notice: nobody waits for this worker any more, or not yet."""


def _launch(
    deno: str, config: RuntimeConfig, worker: Path, landlock: bool, parent: int
) -> tuple[str, subprocess.Popen[bytes]]:
    """Make the folder and start the process; runs in a thread, because both wait for the disk."""
    folder = tempfile.mkdtemp(prefix="dsh-tools-deno-")
    try:
        heap = math.ceil(config.max_old_generation_size_mb)
        paths: dict[str, Sequence[str]] = {
            "execute": (deno, *_LIBRARIES),
            "read": (*map(str, source_files(worker)), *_READABLE),
            "write": (folder, *_DEVICES),
        }
        limits = {
            "data_bytes": heap * _MIB + _ENGINE_BYTES,
            "cpu_seconds": math.ceil(config.compute_ms / 1000) + _CPU_GRACE_SECONDS,
            "file_bytes": _FILE_BYTES,
            "parent": parent,
            "landlock": paths if landlock else None,
        }
        command = [deno, "run", *_FLAGS, f"--v8-flags=--max-old-space-size={heap}", str(worker)]
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(_LAUNCHER), json.dumps(limits), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=folder,
            env={"DENO_DIR": folder, "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1", "TZ": "UTC"},
            start_new_session=True,
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder, child
