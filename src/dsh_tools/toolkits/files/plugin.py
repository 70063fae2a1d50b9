"""The plugin: registers the file tools."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...errors import ConfigError
from .edit import edit_tool, multi_edit_tool
from .image import read_image_tool
from .read import read_tool
from .remove import delete_tool, move_tool
from .space import FilesConfig, FileSpace
from .write import write_tool

if TYPE_CHECKING:
    from ...kernel.context import Context

__all__ = ["FilesPlugin"]


class FilesPlugin:
    """Offers the file tools while it is mounted."""

    name = "files"
    inject = ("tools",)
    Config = FilesConfig

    def apply(self, ctx: Context, config: FilesConfig) -> None:
        """Register the tools.

        Raises:
            ConfigError: a folder does not exist, or the system cannot open files relative to folders.
        """
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise ConfigError("the file tools need a POSIX system: paths cannot be kept inside their folders here")
        space = FileSpace(config)
        ctx.tools.register(read_tool(space))
        if config.images:
            ctx.tools.register(read_image_tool(space))
        if not config.read_only:
            for make in (write_tool, edit_tool, multi_edit_tool, delete_tool, move_tool):
                ctx.tools.register(make(space))
