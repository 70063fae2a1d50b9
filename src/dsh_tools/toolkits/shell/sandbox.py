"""Confining commands with bubblewrap: a read-only system, one writable folder, no network."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import ConfigError, HarnessError
from .config import SandboxConfig
from .errors import ShellError

__all__ = ["Confinement", "Sandbox", "looks_denied", "require_bubblewrap"]

_DENIALS = re.compile(
    r"read-only file system|network is unreachable|temporary failure in name resolution"
    r"|could not resolve host|name or service not known|operation not permitted",
    re.IGNORECASE,
)
# Folders with sockets of services that would do for a command what it must not do itself.
_MASKED = ("/run", "/var/run")


@dataclass(frozen=True, slots=True)
class Confinement:
    """How one command is confined.

    Parameters:
        bwrap: the program.
        config: network and hidden paths.
        mode: what may be changed.
        folder: the project folder.
        readable: folders that would be hidden otherwise and are to be seen.
    """

    bwrap: str
    config: SandboxConfig
    mode: str
    folder: str
    readable: Sequence[str] = ()

    def wrap(self, argv: Sequence[str], cwd: str) -> list[str]:
        """Return the command line that runs ``argv`` confined."""
        words = [self.bwrap, "--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
        words += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
        if not self.config.network:
            words.append("--unshare-net")
        words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm"]
        for path in _kernel_settings():
            words += ["--ro-bind", path, path]
        for folder in (*_MASKED, *self.config.hide):
            if os.path.isdir(folder) and not os.path.islink(folder):
                words += ["--tmpfs", folder]
            elif os.path.isfile(folder):
                words += ["--ro-bind", "/dev/null", folder]
        for folder in self.readable:
            words += ["--ro-bind", folder, folder]
        words += ["--bind" if self.mode == "workspace-write" else "--ro-bind", self.folder, self.folder]
        return [*words, "--chdir", cwd, "--", *argv]


def _kernel_settings() -> list[str]:
    """Return what the kernel offers below /proc beside processes, where that can be written to.

    The root of a sandbox owns these files where root has started it, and they hold for the whole system.
    """
    with os.scandir("/proc") as entries:
        return sorted(
            entry.path
            for entry in entries
            if not entry.name.isdigit()
            and not entry.is_symlink()
            and (entry.is_dir() or entry.stat(follow_symlinks=False).st_mode & 0o222)
        )


class Sandbox:
    """Confines commands as configured.

    Parameters:
        bwrap: the program, which works here.
        config: how.

    Raises:
        ConfigError: the project folder does not exist, or is everything.
    """

    def __init__(self, bwrap: str, config: SandboxConfig) -> None:
        self.config = config
        self._bwrap = bwrap
        if config.folder is not None and not os.path.isdir(os.path.expanduser(config.folder)):
            raise ConfigError(f"the sandbox's folder {config.folder} does not exist")
        if config.folder is not None:
            _require_part(os.path.realpath(os.path.expanduser(config.folder)), ConfigError)

    def confinement(self, mode: str | None, folder: str, readable: Sequence[str]) -> Confinement | None:
        """Return how one command is confined; None for not at all.

        Parameters:
            mode: what a person has allowed for this command; None is the configured mode.
            folder: the project folder, where the configuration names none.
            readable: folders that would be hidden otherwise and are to be seen.

        Raises:
            ShellError: the project folder is the whole system.
        """
        if mode == "full-access":
            return None
        project = os.path.realpath(os.path.expanduser(self.config.folder or folder))
        _require_part(project, ShellError)
        return Confinement(self._bwrap, self.config, mode or self.config.mode, project, tuple(readable))


def _require_part(project: str, error: type[HarnessError]) -> None:
    if project == "/":
        raise error("the sandbox's project folder is /, the whole system; set sandbox.folder to the project")


def looks_denied(exit_code: int | None, stderr: str) -> bool:
    """Whether a failed command complains of something that the sandbox does."""
    return exit_code not in (0, None) and _DENIALS.search(stderr) is not None


async def require_bubblewrap() -> str:
    """Return the path of a bubblewrap that works here.

    Raises:
        ConfigError: there is none, or the system does not let it confine anything.
    """
    found = shutil.which("bwrap")
    if found is None:
        raise ConfigError(
            "the shell's sandbox needs bubblewrap (bwrap), which is not installed; "
            "install it (Debian package: bubblewrap), or remove `sandbox` from the shell's config"
        )
    probe = Confinement(found, SandboxConfig(), "read-only", "/")
    process = await asyncio.create_subprocess_exec(
        *probe.wrap(["true"], "/"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    if process.returncode != 0:
        why = said.decode("utf-8", "replace").strip().splitlines()
        raise ConfigError(f"bubblewrap cannot confine commands on this system: {why[-1] if why else 'it failed'}")
    return found
