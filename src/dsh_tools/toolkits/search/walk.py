"""Listing the files below a folder, without another program: hidden ones too, ignored ones not."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from ...session import is_held
from .ignore import IgnoreFile, IgnoreStack, parse_ignore_file

__all__ = ["HiddenFiles", "open_regular_at", "walk_files"]

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_IGNORE_BYTES = 10_000_000
_GIT = ".git"


def walk_files(top: int, real: str, check: Callable[[], None]) -> Iterator[str]:
    """Yield the paths of regular files below a folder, relative to it; links are not followed.

    What cannot be read is passed over.

    Parameters:
        top: the open folder.
        real: its path, for the ``.gitignore`` files above it.
        check: called for each folder; raises where the caller has given up.
    """
    folders: list[tuple[str, IgnoreStack]] = [("", _above(real))]
    while folders:
        check()
        folder, outer = folders.pop()
        # No descriptor is open while the caller works: it may stop at any file.
        try:
            files, below = _list_folder(top, folder, outer)
        except OSError:
            continue
        folders += below
        yield from files


def _list_folder(top: int, folder: str, outer: IgnoreStack) -> tuple[list[str], list[tuple[str, IgnoreStack]]]:
    """Return the files of one folder, and the folders in it with the rules that hold there."""
    fd = os.open(folder or ".", _FOLDER_FLAGS, dir_fd=top)
    try:
        with os.scandir(fd) as listed:
            entries = list(listed)
        names = {entry.name for entry in entries}
        own = _read_ignore_file(fd) if ".gitignore" in names else None
        stack = outer.below(_bytes_path(folder), own, bool(folder) and _GIT in names)
        files: list[str] = []
        folders: list[tuple[str, IgnoreStack]] = []
        for entry in entries:
            path = folder + entry.name
            if entry.name == _GIT:
                continue
            if entry.is_dir(follow_symlinks=False):
                if not stack.hides(_bytes_path(path), True):
                    folders.append((path + "/", stack))
            elif entry.is_file(follow_symlinks=False) and not stack.hides(_bytes_path(path), False):
                files.append(path)
        return files, folders
    finally:
        os.close(fd)


class HiddenFiles:
    """Tells of single files whether :func:`walk_files` would pass them over.

    Parameters:
        top: the open folder that paths are relative to.
        real: its path.
    """

    def __init__(self, top: int, real: str) -> None:
        self._top = top
        self._real = real
        # What holds in each folder; None where the folder itself is hidden.
        self._stacks: dict[str, IgnoreStack | None] = {}

    def __contains__(self, path: str) -> bool:
        stack = self._stack(path[: path.rfind("/") + 1])
        return stack is None or stack.hides(_bytes_path(path), False)

    def _stack(self, folder: str) -> IgnoreStack | None:
        missing: list[str] = []
        while folder not in self._stacks:
            missing.append(folder)
            if not folder:
                break
            folder = folder[: folder.rfind("/", 0, -1) + 1]
        for inner in reversed(missing):
            self._stacks[inner] = (
                self._look(inner, self._stacks.get(folder)) if inner else self._look("", _above(self._real))
            )
            folder = inner
        return self._stacks[folder]

    def _look(self, folder: str, outer: IgnoreStack | None) -> IgnoreStack | None:
        if outer is None or (folder and outer.hides(_bytes_path(folder[:-1]), True)):
            return None
        try:
            fd = os.open(folder or ".", _FOLDER_FLAGS, dir_fd=self._top)
        except OSError:
            return outer
        try:
            return outer.below(_bytes_path(folder), _read_ignore_file(fd), bool(folder) and _has_repository(fd))
        finally:
            os.close(fd)


def _has_repository(folder: int) -> bool:
    try:
        os.stat(_GIT, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def open_regular_at(top: int, path: str) -> int | None:
    """Open a regular file below a folder; None where it is not one, or cannot be read, or a store that is in use."""
    try:
        if is_held(os.stat(path, dir_fd=top, follow_symlinks=False)):
            return None
        fd = os.open(path, _FILE_FLAGS, dir_fd=top)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _bytes_path(path: str) -> str:
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


def _read_ignore_file(folder: int) -> IgnoreFile | None:
    fd = open_regular_at(folder, ".gitignore")
    if fd is None:
        return None
    with os.fdopen(fd, "rb") as file:
        return parse_ignore_file(file.read(_MAX_IGNORE_BYTES))


def _above(real: str) -> IgnoreStack:
    """Read the ``.gitignore`` files of the folders above, up to the repository's, the nearest first."""
    found: list[tuple[str, IgnoreFile]] = []
    here, below = real, ""
    while not os.path.lexists(os.path.join(here, _GIT)):
        parent, name = os.path.split(here)
        if parent == here:
            break
        here, below = parent, f"{name}/{below}" if below else name
        try:
            fd = os.open(here, _FOLDER_FLAGS)
        except OSError:
            continue
        try:
            file = _read_ignore_file(fd)
        finally:
            os.close(fd)
        if file is not None:
            found.append((_bytes_path(below), file))
    return IgnoreStack.above(found)
