"""Writing a file so that nobody ever sees half of it."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress

from ..file_errors import StaleVersionError, file_error
from ..places import Place
from .bytes_io import open_regular

__all__ = ["create_file", "move_name", "replace_file"]

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20
# A file system without hard links, or a rule against them.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def create_file(place: Place, data: bytes, check: Callable[[], None]) -> None:
    """Write a file that does not exist yet.

    Parameters:
        check: called until the file appears; raises where the caller has given up.

    Raises:
        StaleVersionError: something is there by now.
        FileError: the disk or the system refuses.
    """
    try:
        temporary = _write_beside(place, data, None, check)
        try:
            check()
            _name_new(place, temporary)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=place.fd)
    except OSError as error:
        raise file_error(error, place.shown) from error


def replace_file(place: Place, data: bytes, before: os.stat_result, check: Callable[[], None]) -> None:
    """Write a file anew in one step, with the owner, mode and attributes that it has.

    Parameters:
        before: what was there when the old content was read.
        check: called until the file is replaced; raises where the caller has given up.

    Raises:
        StaleVersionError: the file has been changed since.
        NotPermittedError: the file is write-protected.
        FileError: the disk or the system refuses.
    """
    # Replacing needs rights on the folder only; the file's own are asked for by opening it.
    with open_regular(place, os.O_WRONLY):
        pass
    try:
        temporary = _write_beside(place, data, before, check)
        try:
            check()
            now = place.status()
            if now is None or _identity(now) != _identity(before):
                raise StaleVersionError(f"{place.shown} was changed at the same time; read it again")
            os.replace(temporary, place.name, src_dir_fd=place.fd, dst_dir_fd=place.fd)
        except BaseException:
            os.unlink(temporary, dir_fd=place.fd)
            raise
    except OSError as error:
        raise file_error(error, place.shown) from error


def move_name(source: Place, destination: Place) -> None:
    """Give a file, link or folder a new name where nothing is.

    Raises:
        FileExistsError: something is there.
        OSError: the system refuses.
    """
    found = source.status()
    if found is not None and not stat.S_ISDIR(found.st_mode):
        try:
            os.link(
                source.name, destination.name, src_dir_fd=source.fd, dst_dir_fd=destination.fd, follow_symlinks=False
            )
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            os.unlink(source.name, dir_fd=source.fd)
            return
    if destination.status() is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    os.rename(source.name, destination.name, src_dir_fd=source.fd, dst_dir_fd=destination.fd)


def _name_new(place: Place, temporary: str) -> None:
    """Give the finished file its name, unless somebody else has taken it."""
    try:
        try:
            os.link(temporary, place.name, src_dir_fd=place.fd, dst_dir_fd=place.fd, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if place.status() is not None:
                raise FileExistsError from error
            os.rename(temporary, place.name, src_dir_fd=place.fd, dst_dir_fd=place.fd)
    except FileExistsError:
        raise StaleVersionError(f"{place.shown} has appeared at the same time; read it before you write it") from None


def _write_beside(place: Place, data: bytes, before: os.stat_result | None, check: Callable[[], None]) -> str:
    """Write a temporary file in the same folder and return its name."""
    name = f".dsh-tools-{secrets.token_hex(8)}.tmp"
    fd = os.open(name, _NEW_FILE, 0o666 if before is None else 0o600, dir_fd=place.fd)
    try:
        view = memoryview(data)
        while view:
            check()
            view = view[os.write(fd, view[:_PIECE]) :]
        if before is not None:
            _copy_attributes(place, fd, before)
        os.fsync(fd)
    except BaseException:
        os.unlink(name, dir_fd=place.fd)
        raise
    finally:
        os.close(fd)
    return name


def _copy_attributes(place: Place, fd: int, before: os.stat_result) -> None:
    """Give the new file what the old one has; the mode last, because a change of owner clears parts of it."""
    mine = os.fstat(fd)
    if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid):
        # Only root may give files away; a group of one's own may be kept.
        with suppress(OSError):
            os.fchown(fd, before.st_uid, before.st_gid)
    if hasattr(os, "listxattr"):
        with suppress(OSError), open_regular(place) as old:
            for name in os.listxattr(old):
                with suppress(OSError):
                    os.setxattr(fd, name, os.getxattr(old, name))
    os.fchmod(fd, stat.S_IMODE(before.st_mode))


def _identity(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
