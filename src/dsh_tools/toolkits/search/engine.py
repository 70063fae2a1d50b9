"""What an engine does, and what both engines share."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ..file_errors import NotRegularFileError, file_error
from ..places import Place

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal
    from .patterns import LinePattern

__all__ = ["Engine", "FileHits", "Include", "SearchFolder", "open_folder"]

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

FileHits: TypeAlias = tuple[str, Sequence[tuple[int, str]]]
"""The matching lines of one file: its path relative to the search's folder, and number and text of each."""


@dataclass(frozen=True, slots=True)
class SearchFolder:
    """The folder of one search, open for its length.

    Parameters:
        fd: the open folder.
        real: its path.
        shown: how a model names it, ending in a slash; empty for the working folder itself.
        only: the one file in it that is searched, where a file was named.
    """

    fd: int
    real: str
    shown: str
    only: str | None = None

    def close(self) -> None:
        """Close the folder."""
        os.close(self.fd)


@dataclass(frozen=True, slots=True)
class Include:
    """Which files are searched: the pattern as text, and compiled for paths relative to the folder."""

    text: str
    expression: re.Pattern[str]


class Engine(Protocol):
    """Finds files and lines. Results are sorted by path; files that hold a NUL byte have no lines."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    async def list_files(self, folder: SearchFolder, include: Include | None, signal: AbortSignal) -> list[str]:
        """Return the paths of all files that are wanted and not ignored, relative to the folder.

        Raises:
            SearchError: it failed, was aborted, or found too much.
        """
        ...

    async def search(
        self, folder: SearchFolder, pattern: LinePattern, include: Include | None, signal: AbortSignal
    ) -> list[FileHits]:
        """Return the matching lines of all files that are wanted and not ignored.

        Raises:
            InvalidPatternError: the pattern cannot be used.
            SearchError: it failed, was aborted, or found too much.
        """
        ...


def open_folder(place: Place, *, file_allowed: bool) -> SearchFolder:
    """Open the folder at a place, or with ``file_allowed`` the folder of the file there. Close it afterwards.

    Raises:
        FileError: nothing is there, or something else.
    """
    try:
        fd = os.open(place.name, _FLAGS, dir_fd=place.fd)
    except NotADirectoryError:
        if not file_allowed:
            raise NotRegularFileError(f"{place.shown} is a file; name the folder that it is in") from None
        return _folder_of_file(place)
    except OSError as error:
        raise file_error(error, place.shown) from error
    shown = "" if place.shown == "." else place.shown.rstrip("/") + "/"
    return SearchFolder(fd, place.real, shown)


def _folder_of_file(place: Place) -> SearchFolder:
    head, slash, _ = place.shown.rpartition("/")
    found = place.status()
    if found is None or not stat.S_ISREG(found.st_mode):
        raise NotRegularFileError(f"{place.shown} is neither a folder nor a file")
    try:
        fd = os.open(".", _FLAGS, dir_fd=place.fd)
    except OSError as error:
        raise file_error(error, place.shown) from error
    return SearchFolder(fd, os.path.dirname(place.real), head + slash, place.name)
