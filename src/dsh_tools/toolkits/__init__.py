"""Tools that people get out of the box. Each folder is a plugin: mount it, and its tools are registered."""

from __future__ import annotations

from .files import FilesConfig, FilesPlugin
from .search import SearchConfig, SearchPlugin
from .shell import ShellConfig, ShellPlugin

__all__ = ["FilesConfig", "FilesPlugin", "SearchConfig", "SearchPlugin", "ShellConfig", "ShellPlugin"]
