"""The shell tool: ``bash``."""

from __future__ import annotations

from .config import SandboxConfig, ShellConfig
from .errors import ShellError
from .plugin import ShellPlugin

__all__ = ["Config", "SandboxConfig", "ShellConfig", "ShellError", "ShellPlugin", "apply", "inject", "name"]

# The module is itself a plugin, for `plugins: [dsh_tools.toolkits.shell]`.
plugin = ShellPlugin()
name = plugin.name
inject = plugin.inject
Config = ShellConfig
apply = plugin.apply
