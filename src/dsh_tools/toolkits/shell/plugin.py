"""The plugin: registers ``bash``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from ...errors import ConfigError
from .bash import bash_tool
from .config import ShellConfig
from .executor import Executor

if TYPE_CHECKING:
    from ...kernel.context import Context
    from ...services.jobs import Jobs

__all__ = ["ShellPlugin"]


class ShellPlugin:
    """Offers ``bash`` while it is mounted."""

    name = "shell"
    inject = ("tools",)
    Config = ShellConfig

    async def apply(self, ctx: Context, config: ShellConfig) -> None:
        """Register the tool.

        Raises:
            ConfigError: there is no shell, the folder does not exist, or a sandbox is wanted and cannot be had.
        """
        if not hasattr(os, "killpg"):
            raise ConfigError("the shell tool needs a POSIX system: commands cannot be stopped for good here")
        executor = Executor(config)
        ctx.effect(lambda: executor.dispose, "shell output")
        ctx.tools.register(bash_tool(executor, lambda: cast("Jobs | None", ctx.get("jobs"))))
