"""File tools: ``read``, ``write``, ``edit``, ``multi_edit``, ``delete`` and ``move``, and ``read_image`` if wanted."""

from __future__ import annotations

from ..file_errors import (
    AmbiguousEditError,
    EditNotFoundError,
    FileError,
    FileExistsHereError,
    FileIOError,
    FilesAbortedError,
    FileTooLargeError,
    MissingFileError,
    NotAFolderError,
    NotObservedError,
    NotPermittedError,
    NotRegularFileError,
    NotTextError,
    OutsideRootsError,
    StaleVersionError,
)
from .plugin import FilesPlugin
from .space import FilesConfig

__all__ = [
    "AmbiguousEditError",
    "Config",
    "EditNotFoundError",
    "FileError",
    "FileExistsHereError",
    "FileIOError",
    "FileTooLargeError",
    "FilesAbortedError",
    "FilesConfig",
    "FilesPlugin",
    "MissingFileError",
    "NotAFolderError",
    "NotObservedError",
    "NotPermittedError",
    "NotRegularFileError",
    "NotTextError",
    "OutsideRootsError",
    "StaleVersionError",
    "apply",
    "inject",
    "name",
]

# The module is itself a plugin, for `plugins: [dsh_tools.toolkits.files]`.
plugin = FilesPlugin()
name = plugin.name
inject = plugin.inject
Config = FilesConfig
apply = plugin.apply
