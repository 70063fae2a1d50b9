"""From a path that a model wrote to an open folder and a name in it, without ever leaving the roots.

Each folder on the way is opened relative to the one before, and never through a symbolic link. A link is
read and its target walked in the same way, from the root again where it is absolute. So neither ``..``, nor
a link, nor a folder that is swapped for a link meanwhile leads out: what was checked is what is used.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from .file_errors import MissingFileError, NotAFolderError, OutsideRootsError, file_error
from .workspace import Root

__all__ = ["Place", "locate"]

_MAX_LINKS = 40
# A walk by folders could go deeper, but nobody else could open what is there.
_MAX_LENGTH = 4000
_FOLDER_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


class Place:
    """A name in an open folder. Close it, or use it in a ``with`` block.

    Parameters:
        root: the root it is in.
        fd: the open folder; all operations are relative to it.
        name: the last part of the path, ``.`` for the root itself.
        real: the absolute path, without symbolic links.
        shown: the path for people and models: relative to the working folder where it is inside it.
    """

    __slots__ = ("fd", "name", "real", "root", "shown")

    def __init__(self, root: Root, fd: int, name: str, real: str, shown: str) -> None:
        self.root = root
        self.fd = fd
        self.name = name
        self.real = real
        self.shown = shown

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def status(self) -> os.stat_result | None:
        """Return what is there now, None where nothing is; a link stands for itself."""
        try:
            return os.stat(self.name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise file_error(error, self.shown) from error

    def require_writable(self) -> None:
        """Refuse to change anything in a root that is only to be read.

        Raises:
            OutsideRootsError: the root is read-only.
        """
        if not self.root.writable:
            raise OutsideRootsError(f"{self.shown} is in a folder that may only be read; choose a path elsewhere")


def locate(roots: Sequence[Root], base: str, path: str, *, follow: bool = True, make_folders: bool = False) -> Place:
    """Walk to a path; the last part need not exist.

    Parameters:
        roots: where the path may be.
        base: the absolute folder that a relative path starts from.
        path: as the model wrote it.
        follow: go on where the last part is a symbolic link; otherwise the link itself is the place.
        make_folders: make the folders on the way that are missing.

    Raises:
        OutsideRootsError: the path leads out of the roots.
        MissingFileError: a folder on the way is missing.
        NotAFolderError: something on the way is not a folder.
        NotPermittedError: the operating system refuses.
    """
    _check_name(path)
    walk = _Walk(roots, base, path, make_folders)
    try:
        return walk.run(follow)
    except OSError as error:
        raise file_error(error, path) from error
    finally:
        walk.close()


def _check_name(path: str) -> None:
    """Refuse what no system takes for a path."""
    if not path:
        raise MissingFileError("the path is empty; name a file")
    if "\0" in path:
        raise MissingFileError("a path cannot contain a NUL character")
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        raise MissingFileError("the path has half a character (a lone surrogate); no file is called that") from None
    if length > _MAX_LENGTH:
        raise MissingFileError(f"the path has {length} bytes, more than {_MAX_LENGTH}; no program could use it")


class _Walk:
    """One way down from a root: the open folders so far, and the parts still to go."""

    def __init__(self, roots: Sequence[Root], base: str, path: str, make_folders: bool) -> None:
        self._roots = roots
        self._base = base
        self._path = path
        self._make_folders = make_folders
        self._fds: list[int] = []
        self._names: list[str] = []
        self._parts: deque[str] = deque()
        self._links = 0
        self._root = roots[0]
        self._enter(path if path.startswith("/") else f"{base}/{path}")

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    def run(self, follow: bool) -> Place:
        while self._parts:
            part = self._parts.popleft()
            if part in ("", "."):
                continue
            if part == "..":
                self._up()
            elif any(rest not in ("", ".") for rest in self._parts):
                self._down(part)
            else:
                target = self._link_at(part) if follow else None
                if target is None:
                    return self._place(part)
                self._parts.clear()
                self._follow(part, target)
        return self._place(".")

    def _enter(self, absolute: str) -> None:
        """Begin at the root that an absolute path is in."""
        for candidate in (absolute, os.path.normpath(absolute)):
            for root in self._roots:
                rest = root.rest_of(candidate)
                if rest is not None:
                    self.close()
                    self._names.clear()
                    self._root = root
                    self._fds.append(os.open(root.real, _FOLDER_FLAGS))
                    self._parts = deque(rest.split("/"))
                    return
        raise self._outside()

    def _up(self) -> None:
        if self._names:
            self._names.pop()
            os.close(self._fds.pop())
        else:
            rest = "/".join(self._parts)
            self._enter(os.path.normpath(f"{self._root.real}/../{rest}"))

    def _down(self, part: str) -> None:
        here = self._fds[-1]
        try:
            fd = os.open(part, _FOLDER_FLAGS, dir_fd=here)
        except FileNotFoundError:
            if not self._make_folders:
                raise MissingFileError(f"{self._path}: the folder {part} does not exist") from None
            if not self._root.writable:
                raise OutsideRootsError(f"{self._path} is in a folder that may only be read") from None
            with suppress(FileExistsError):  # somebody else was faster
                os.mkdir(part, dir_fd=here)
            fd = os.open(part, _FOLDER_FLAGS, dir_fd=here)
        except OSError as error:
            target = self._link_at(part)
            if target is not None:
                self._follow(part, target)
                return
            if isinstance(error, NotADirectoryError):
                raise NotAFolderError(f"{self._path}: {part} is not a folder") from error
            raise
        self._fds.append(fd)
        self._names.append(part)

    def _link_at(self, part: str) -> str | None:
        """Return where a link points, None where there is no link."""
        try:
            found = os.stat(part, dir_fd=self._fds[-1], follow_symlinks=False)
            return os.readlink(part, dir_fd=self._fds[-1]) if stat.S_ISLNK(found.st_mode) else None
        except OSError:
            return None

    def _follow(self, part: str, target: str) -> None:
        self._links += 1
        if self._links > _MAX_LINKS:
            raise OutsideRootsError(f"{self._path}: too many symbolic links; use the path they lead to")
        rest = list(self._parts)
        if target.startswith("/"):
            try:
                self._enter(target)
            except OutsideRootsError:
                raise self._outside(f"the symbolic link {part} leads to {target}") from None
        else:
            self._parts = deque(target.split("/"))
        self._parts.extend(rest)

    def _place(self, name: str) -> Place:
        parts = self._names if name == "." else [*self._names, name]
        real = self._root.real.rstrip("/") + "".join("/" + part for part in parts) or "/"
        return Place(self._root, self._fds.pop(), name, real, _shown(real, self._base))

    def _outside(self, why: str = "") -> OutsideRootsError:
        allowed = ", ".join(root.spelled for root in self._roots)
        reason = f" ({why})" if why else ""
        return OutsideRootsError(
            f"{self._path} is outside the folders that this tool may use{reason}; use a path inside {allowed}"
        )


def _shown(real: str, base: str) -> str:
    """Return a path as a model can use it again."""
    if real == base:
        return "."
    inside = base if base.endswith("/") else base + "/"
    return real[len(inside) :] if real.startswith(inside) else real
