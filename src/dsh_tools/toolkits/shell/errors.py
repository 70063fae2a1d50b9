"""What goes wrong with commands. The **model** reads each message."""

from __future__ import annotations

from ...errors import HarnessError

__all__ = ["ShellError"]


class ShellError(HarnessError):
    """A command could not be started, or must not run like this; nothing has run."""

    default_code = "SHELL_ERROR"
