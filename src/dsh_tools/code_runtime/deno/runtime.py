"""TypeScript programs in Deno processes: one process a run, started ahead, used once (CODE-156 to 182)."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

from ...errors import CodeRuntimeError, ConfigError
from ..base import PooledRuntime
from ..budgets import RuntimeConfig
from ..run import Run
from ..versions import version_text
from .conversation import converse, frame_limit
from .process import WORKER, DenoProcess, source_files

__all__ = ["DenoRuntime"]

_VERSION_SECONDS = 30
_INSTALL = 'TypeScript programs run in Deno, which is not installed: pip install "dsh-tools[code]"'


class DenoWorker(DenoProcess):
    """A Deno process that takes one program."""

    def begin(self, run: Run) -> None:
        """Hand the program over."""
        converse(self, run)


class DenoRuntime(PooledRuntime[DenoWorker]):
    """Runs TypeScript programs, each in a locked-down Deno process of its own.

    A program has no files, no network, no environment, no subprocess and no foreign functions (D3).
    Deno's permissions say so; on Linux, Landlock and resource limits say so again.

    Parameters:
        config: budgets and pool sizes; the defaults where None.
        deno: the Deno binary; the one of the ``deno`` package where None.
        landlock: whether to use Landlock where the kernel has it.
        worker: another program that speaks the worker's side of the protocol; for tests of this one.

    Raises:
        ConfigError: Deno is not installed.
    """

    language = "typescript"
    isolation = "process"

    def __init__(
        self,
        config: RuntimeConfig | None = None,
        *,
        deno: str | None = None,
        landlock: bool = True,
        worker: Path = WORKER,
    ) -> None:
        super().__init__(config)
        self._deno = _find_deno() if deno is None else deno
        self._binary = deno
        self._landlock = landlock
        self._worker = worker
        self._removals: set[asyncio.Task[None]] = set()

    @property
    def version(self) -> str:
        """Deno's version, the machine, and a digest of the worker; see :class:`CodeRuntime`.

        Raises:
            CodeRuntimeError: a binary other than the package's does not say its version.
        """
        return _version(self._binary, self._worker)

    async def _start_worker(self) -> DenoWorker:
        return await DenoWorker.start(
            self._deno,
            self.config,
            worker=self._worker,
            landlock=self._landlock,
            frame_limit=frame_limit(self.config.max_output_bytes),
            remove_folder=self._remove_folder,
        )

    def _remove_folder(self, folder: str) -> None:
        """Remove a worker's folder beside the runs: a disk can take longer than a program."""
        removal = asyncio.ensure_future(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)

    async def _release(self) -> None:
        while self._removals:
            await asyncio.wait(set(self._removals))


def _find_deno() -> str:
    """Find the binary that the package brings along."""
    try:
        # The extra is optional, so it is looked for only when a runtime is made.
        from deno import find_deno_bin

        return str(find_deno_bin())
    except (ImportError, FileNotFoundError):
        raise ConfigError(_INSTALL) from None


@cache
def _version(deno: str | None, worker: Path) -> str:
    return version_text(f"deno {version('deno')}" if deno is None else _ask_version(deno), source_files(worker))


def _ask_version(deno: str) -> str:
    try:
        told = subprocess.run([deno, "--version"], capture_output=True, check=True, timeout=_VERSION_SECONDS, text=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise CodeRuntimeError(f"{deno} does not say its version: {error}") from error
    return " ".join(told.stdout.split())
