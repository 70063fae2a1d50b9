"""Opening and reading regular files through a place, without hanging on anything that is not one."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from hashlib import blake2b

from ...session import is_held
from ..file_errors import FileTooLargeError, MissingFileError, NotPermittedError, NotRegularFileError, file_error
from ..places import Place

__all__ = ["Version", "chunks_of", "open_regular", "read_all", "version_of"]

Version = bytes
"""A digest of a file's bytes: equal versions have equal content."""

_CHUNK = 256 * 1024


@contextmanager
def open_regular(place: Place, flags: int = os.O_RDONLY) -> Generator[int]:
    """Open a regular file for the length of a block.

    A pipe or a device is refused before it is opened, and without waiting should it appear in between.

    Raises:
        MissingFileError: nothing is there.
        NotRegularFileError: something else is there.
        NotPermittedError: the operating system refuses.
    """
    found = place.status()
    if found is None:
        raise MissingFileError(f"{place.shown} does not exist{_close_name(place)}")
    _require_regular(found, place)
    if is_held(found):
        raise NotPermittedError(f"{place.shown} keeps the sessions of this application, which is using it")
    try:
        fd = os.open(place.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place.fd)
    except OSError as error:
        raise file_error(error, place.shown) from error
    try:
        _require_regular(os.fstat(fd), place)
        yield fd
    except OSError as error:
        raise file_error(error, place.shown) from error
    finally:
        os.close(fd)


def chunks_of(fd: int, check: Callable[[], None], whole_up_to: int = 0) -> Iterator[bytes]:
    """Read a file from its beginning; small ones in one piece.

    Parameters:
        check: called before each piece; raises where the caller has given up.
        whole_up_to: files of fewer bytes come in one piece.
    """
    size = os.fstat(fd).st_size
    step = size + 1 if 0 < size < whole_up_to else _CHUNK
    while True:
        check()
        piece = os.read(fd, step)
        if not piece:
            return
        yield piece


def read_all(place: Place, check: Callable[[], None], limit: int) -> bytes:
    """Return a file's bytes.

    Raises:
        FileTooLargeError: it has more than ``limit`` bytes.
        FileError: it cannot be read.
    """
    with open_regular(place) as fd:
        pieces: list[bytes] = []
        room = limit
        for piece in chunks_of(fd, check, limit):
            room -= len(piece)
            if room < 0:
                raise FileTooLargeError(
                    f"{place.shown} has more than {limit} bytes, too many to change it here; use a shell command"
                )
            pieces.append(piece)
        return b"".join(pieces)


def version_of(data: bytes) -> Version:
    """Return the version of a file with these bytes."""
    return blake2b(data, digest_size=16).digest()


_KINDS = (
    (stat.S_ISDIR, "a folder; use glob to list its files"),
    (stat.S_ISLNK, "a symbolic link that leads nowhere usable"),
    (stat.S_ISFIFO, "a named pipe, not a file; it is not opened"),
    (stat.S_ISSOCK, "a socket, not a file"),
    (stat.S_ISCHR, "a device, not a file; it is not opened"),
    (stat.S_ISBLK, "a device, not a file; it is not opened"),
)


def _require_regular(found: os.stat_result, place: Place) -> None:
    if stat.S_ISREG(found.st_mode):
        return
    what = next((kind for is_kind, kind in _KINDS if is_kind(found.st_mode)), "not a regular file")
    raise NotRegularFileError(f"{place.shown} is {what}")


def _close_name(place: Place) -> str:
    """Say what is there under a name that differs in case or in its ending only."""
    try:
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.fd)
    except OSError:
        return ""
    try:
        wanted = place.name.casefold()
        stem = wanted.rpartition(".")[0] or wanted
        with os.scandir(listed) as entries:
            for entry in entries:
                name = entry.name.casefold()
                if name == wanted or (name.rpartition(".")[0] or name) == stem:
                    folder = place.shown.rpartition("/")[0]
                    return f"; there is {folder + '/' if folder else ''}{entry.name}"
    except OSError:
        return ""
    finally:
        os.close(listed)
    return ""
