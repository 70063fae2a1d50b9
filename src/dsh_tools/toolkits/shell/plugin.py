"""The plugin: registers ``bash``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from ...errors import ConfigError
from ...tools import PRE_EXECUTE, TOOL_RESULT
from .bash import bash_tool
from .config import ShellConfig
from .escalation import Escalations
from .executor import Executor
from .sandbox import Sandbox, require_bubblewrap

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
        sandbox = None if config.sandbox is None else Sandbox(await require_bubblewrap(), config.sandbox)
        escalations = Escalations(ctx)
        definition = bash_tool(executor, lambda: cast("Jobs | None", ctx.get("jobs")), sandbox, escalations)
        if sandbox is not None and sandbox.config.allow_escalation:
            escalations.watch(definition)
            ctx.on(PRE_EXECUTE, escalations.decide)
            ctx.on(TOOL_RESULT, escalations.forget)
        ctx.tools.register(definition)
