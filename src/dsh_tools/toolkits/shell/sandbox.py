"""Confining commands with bubblewrap: a read-only system, one writable folder, no network."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...errors import ConfigError
from .config import SandboxConfig

__all__ = ["Confinement", "Escalation", "looks_denied", "require_bubblewrap", "wider_modes"]

Escalation = Literal["workspace-write", "full-access"]
"""What a model may ask for beyond the configured mode."""

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
        for folder in (*_MASKED, *self.config.hide):
            if os.path.isdir(folder) and not os.path.islink(folder):
                words += ["--tmpfs", folder]
            elif os.path.isfile(folder):
                words += ["--ro-bind", "/dev/null", folder]
        for folder in self.readable:
            words += ["--ro-bind", folder, folder]
        words += ["--bind" if self.mode == "workspace-write" else "--ro-bind", self.folder, self.folder]
        return [*words, "--chdir", cwd, "--", *argv]


def wider_modes(config: SandboxConfig) -> tuple[Escalation, ...]:
    """Return what a model may ask for: modes strictly wider than the configured one (HOST-205)."""
    if not config.allow_escalation:
        return ()
    return ("workspace-write", "full-access") if config.mode == "read-only" else ("full-access",)


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
