"""What goes wrong with files. The **model** reads each message, and what to do next (HOST-216)."""

from __future__ import annotations

import errno

from ..errors import HarnessError

__all__ = [
    "AmbiguousEditError",
    "EditNotFoundError",
    "FileError",
    "FileExistsHereError",
    "FileIOError",
    "FileTooLargeError",
    "FilesAbortedError",
    "MissingFileError",
    "NotAFolderError",
    "NotObservedError",
    "NotPermittedError",
    "NotRegularFileError",
    "NotTextError",
    "OutsideRootsError",
    "StaleVersionError",
    "file_error",
]


class FileError(HarnessError):
    """A file operation failed; caused by the **model** or the disk, seen by the model."""

    default_code = "FS_IO_ERROR"


class MissingFileError(FileError):
    """There is no such file, or no such line in it."""

    default_code = "FS_NOT_FOUND"


class NotAFolderError(FileError):
    """A part of the path that should be a folder is something else."""

    default_code = "FS_NOT_DIRECTORY"


class NotTextError(FileError):
    """The file is an image, or other bytes that are not text."""

    default_code = "FS_NOT_TEXT"


class NotRegularFileError(FileError):
    """The path is a folder, a pipe, a socket or a device."""

    default_code = "FS_NOT_REGULAR_FILE"


class FileTooLargeError(FileError):
    """The file is too large to be changed by a tool that holds it in memory."""

    default_code = "FS_TOO_LARGE"


class NotPermittedError(FileError):
    """The operating system refuses."""

    default_code = "FS_PERMISSION_DENIED"


class OutsideRootsError(FileError):
    """The path leads out of the folders that the tools may use, or into one that is read-only."""

    default_code = "FS_SANDBOX_DENIED"


class FileIOError(FileError):
    """The disk failed, or is full."""


class FileExistsHereError(FileError):
    """Something is where a file should be moved to."""

    default_code = "FS_EXISTS"


class StaleVersionError(FileError):
    """The file has changed since the caller last saw it (HOST-214)."""

    default_code = "FS_STALE_VERSION"


class NotObservedError(FileError):
    """The caller wants to change a file that it has not read (HOST-214)."""

    default_code = "FS_NOT_OBSERVED"


class AmbiguousEditError(FileError):
    """The text to replace is there more than once."""

    default_code = "FS_AMBIGUOUS_EDIT"


class EditNotFoundError(FileError):
    """The text to replace is not there."""

    default_code = "FS_EDIT_NOT_FOUND"


class FilesAbortedError(FileError):
    """The caller gave up; nothing was changed."""

    default_code = "FS_ABORTED"


_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


def file_error(error: OSError, path: str) -> FileError:
    """Return what a failed system call means for the file that a model named."""
    why = error.strerror or str(error)
    if error.errno == errno.ENOENT:
        return MissingFileError(f"{path} does not exist")
    if error.errno == errno.ENOTDIR:
        return NotAFolderError(f"{path}: a part of this path is not a folder")
    if error.errno == errno.EISDIR:
        return NotRegularFileError(f"{path} is a folder; use glob to list its files")
    if error.errno in _READ_ONLY:
        return NotPermittedError(f"{path}: {why.lower()}; the operating system refuses, so choose another path or ask")
    if error.errno in (errno.ENAMETOOLONG, errno.EILSEQ):
        return MissingFileError(f"{path[:200]}… cannot be a file name: {why.lower()}")
    if error.errno == errno.ELOOP:
        return OutsideRootsError(f"{path}: too many symbolic links; use the path they lead to")
    if error.errno in (errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP):
        return NotRegularFileError(f"{path} is not a regular file")
    return FileIOError(f"{path}: {why.lower()}")
