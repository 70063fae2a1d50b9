"""Configuration of the shell tool."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pydantic

from ...kernel import MAX_TIMEOUT_MS

__all__ = ["Escalation", "SandboxConfig", "SandboxMode", "ShellConfig"]

SandboxMode = Literal["read-only", "workspace-write"]
"""What a confined command may change: nothing, or the project folder."""


Escalation = Literal["workspace-write", "full-access"]
"""What a model may ask for beyond the configured mode."""


class SandboxConfig(pydantic.BaseModel):
    """How commands are confined. Where this is set, no command runs unconfined unless a person allows it.

    Parameters:
        mode: ``workspace-write`` lets commands change the project folder, ``read-only`` nothing at all.
        network: let commands use the network.
        folder: the project folder; without it the folder of the agent's session, or the shell's ``cwd``.
        hide: folders that commands find empty, and files that they cannot read.
        allow_escalation: let the model ask a person to run one command with more rights.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    mode: SandboxMode = "workspace-write"
    network: bool = False
    folder: str | None = None
    hide: list[str] = pydantic.Field(default_factory=list[str])
    allow_escalation: bool = True

    @property
    def wider_modes(self) -> tuple[Escalation, ...]:
        """What a model may ask for: modes strictly wider than the configured one (HOST-205)."""
        if not self.allow_escalation:
            return ()
        return ("workspace-write", "full-access") if self.mode == "read-only" else ("full-access",)


class ShellConfig(pydantic.BaseModel):
    """Configuration of ``bash`` (HOST-202).

    Parameters:
        cwd: the working folder for agents whose session has none; by default the process's.
        shell: the shell to use; ``bash`` from the search path by default.
        timeout_ms: the time limit of a command that names none, in milliseconds.
        max_timeout_ms: the longest limit; longer ones are cut to it.
        max_output_bytes: how much of each stream is kept; its end is.
        max_spill_bytes: how large the file with all of a stream may get.
        spill_folder: where these files go; by default a private temporary folder, removed with the plugin.
        grace_ms: how long a command may take to end when it is told to, before it is killed.
        enable_run_in_background: offer ``run_in_background``, which needs the jobs service.
        env: variables to set for every command.
        keep_env: names of variables to hand on although they look like secrets.
        sandbox: confine commands with bubblewrap.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    cwd: str | None = None
    shell: str | None = None
    timeout_ms: int = pydantic.Field(default=120_000, ge=1, le=MAX_TIMEOUT_MS, strict=True)
    max_timeout_ms: int = pydantic.Field(default=600_000, ge=1, le=MAX_TIMEOUT_MS, strict=True)
    max_output_bytes: int = pydantic.Field(default=64_000, ge=1, strict=True)
    max_spill_bytes: int = pydantic.Field(default=67_108_864, ge=0, strict=True)
    spill_folder: Path | None = None
    grace_ms: int = pydantic.Field(default=3_000, ge=0, le=MAX_TIMEOUT_MS, strict=True)
    enable_run_in_background: bool = True
    env: dict[str, str] = pydantic.Field(default_factory=dict[str, str])
    keep_env: list[str] = pydantic.Field(default_factory=list[str])
    sandbox: SandboxConfig | None = None

    @pydantic.model_validator(mode="after")
    def _default_within_cap(self) -> ShellConfig:
        if self.timeout_ms > self.max_timeout_ms:
            raise ValueError("timeout_ms must not be more than max_timeout_ms")
        return self
