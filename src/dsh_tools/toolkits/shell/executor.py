"""Running one command: where, with which environment, for how long, and what is kept of it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import ConfigError
from ..processes import Launch, Outcome, Supervisor, attend
from ..workspace import session_folder
from .config import ShellConfig
from .errors import ShellError
from .output import Capture, Kept, SpillFile, StreamTail, Watcher

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal
    from ...tools.execution import AgentLike
    from .sandbox import Confinement

__all__ = ["Command", "Executor", "Finished"]

_SECRET = re.compile("KEY|PASSWORD|SECRET|TOKEN", re.IGNORECASE)
# Files that a shell would run before the command.
_STARTUP = ("BASH_ENV", "ENV")


@dataclass(frozen=True, slots=True)
class Command:
    """One command, checked and ready to run.

    Parameters:
        text: what the shell is given.
        cwd: the absolute working folder.
        timeout_ms: the time limit in milliseconds, None for none.
        confinement: how it is confined, None for not at all.
    """

    text: str
    cwd: str
    timeout_ms: int | None
    confinement: Confinement | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended, and what is kept of its output."""

    outcome: Outcome
    stdout: Kept
    stderr: Kept


class Executor:
    """Runs commands with one configuration.

    Raises:
        ConfigError: there is no shell, or the working folder does not exist.
    """

    def __init__(self, config: ShellConfig) -> None:
        self.config = config
        self._shell = _find_shell(config.shell)
        self._start = os.path.realpath(os.path.join(os.getcwd(), os.path.expanduser(config.cwd or "")))
        if not os.path.isdir(self._start):
            raise ConfigError(f"the working folder {config.cwd} does not exist")
        self._private: Path | None = None

    # ── where and how long ────────────────────────────────────────────────────

    def folder(self, agent: AgentLike | None) -> str:
        """Return the folder that an agent's commands run in: its session's, or the configured one (HOST-201)."""
        return os.path.join(self._start, session_folder(agent) or "")

    def working_folder(self, agent: AgentLike | None, workdir: str | None) -> str:
        """Return the folder for one command.

        Raises:
            ShellError: it is not a folder.
        """
        folder = os.path.normpath(os.path.join(self.folder(agent), workdir or ""))
        if not os.path.isdir(folder):
            raise ShellError(f"workdir {workdir or folder} is not a folder; nothing was run")
        return folder

    def limit(self, timeout_ms: int | None) -> int:
        """Return the time limit in force for what the model asked for, in milliseconds (HOST-202)."""
        wanted = self.config.timeout_ms if timeout_ms is None else timeout_ms
        return min(wanted, self.config.max_timeout_ms)

    # ── running ───────────────────────────────────────────────────────────────

    async def run(
        self, command: Command, signal: AbortSignal, report: Callable[[str], object] | None = None
    ) -> Finished:
        """Run a command to its end; when this returns or raises, nothing of it is left.

        Parameters:
            signal: stops the command when it fires.
            report: gets the output line by line while it comes, on the event loop's thread.

        Raises:
            ShellError: it could not be started.
            asyncio.CancelledError: the waiting task was cancelled, after the command has ended.
        """
        watcher = None if report is None else Watcher(asyncio.get_running_loop(), report)
        capture = Capture(self._tail("stdout"), self._tail("stderr"), watcher)
        supervisor = Supervisor(self._launch(command), capture)

        def work() -> Finished:
            try:
                outcome = supervisor.run()
            except OSError as error:
                raise ShellError(f"the command could not be started: {error.strerror or error}") from error
            finally:
                kept = capture.finish()
            return Finished(outcome, *kept)

        return await attend(work, supervisor.stop, signal)

    def _launch(self, command: Command) -> Launch:
        argv = [*self._shell, "-c", command.text]
        if command.confinement is not None:
            argv = command.confinement.wrap(argv, command.cwd)
        timeout = None if command.timeout_ms is None else command.timeout_ms / 1000
        return Launch(argv, command.cwd, self._environment(os.environ), timeout, self.config.grace_ms / 1000)

    def _environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return what a command inherits: nothing that looks like a secret, nothing of ours (HOST-202)."""
        keep = set(self.config.keep_env)
        passed = {
            name: value
            for name, value in inherited.items()
            if name in keep or not (_SECRET.search(name) or name.startswith("DSH_") or name in _STARTUP)
        }
        return {**passed, **self.config.env}

    # ── files for long output ─────────────────────────────────────────────────

    def _tail(self, stream: str) -> StreamTail:
        config = self.config
        return StreamTail(config.max_output_bytes, SpillFile(self._spill_folder, stream, config.max_spill_bytes))

    def _spill_folder(self) -> Path:
        configured = self.config.spill_folder
        if configured is not None:
            configured.mkdir(mode=0o700, parents=True, exist_ok=True)
            return configured
        if self._private is None:
            self._private = Path(tempfile.mkdtemp(prefix="dsh-tools-shell-"))
        return self._private

    def readable_folders(self) -> list[str]:
        """Return the folder with long output, if there is one: confined commands may read it."""
        folder = self.config.spill_folder if self._private is None else self._private
        return [] if folder is None or not folder.is_dir() else [str(folder.resolve())]

    def dispose(self) -> None:
        """Remove the private folder."""
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)
            self._private = None


def _find_shell(configured: str | None) -> tuple[str, ...]:
    found = shutil.which(configured or "bash")
    if found is None:
        raise ConfigError(f"the shell tool needs {configured or 'bash'}, which is not on the search path")
    return (found, "--noprofile", "--norc") if os.path.basename(found) == "bash" else (found,)
