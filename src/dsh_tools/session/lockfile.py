"""A lock between processes that ends with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

__all__ = ["FileLock"]


class FileLock:
    """An exclusive ``flock`` on a file of its own.

    The kernel lets it go when the process dies, kill -9 included, so a crash never leaves a
    session locked. The file is removed with the lock; one that a crash left behind is harmless.
    Two locks on one path exclude each other inside one process as well.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def acquire(self) -> bool:
        """Take the lock, without waiting; False where somebody else has it."""
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(fd)
                return False
            if self._is_current(fd):
                self._fd = fd
                return True
            # Its holder removed the file between our open and our lock: that lock guards nothing.
            os.close(fd)

    def release(self) -> None:
        """Give the lock back; again does nothing."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            # While we still hold it, so that nobody can lock the file we are about to remove.
            self._path.unlink(missing_ok=True)
        finally:
            os.close(fd)

    def _is_current(self, fd: int) -> bool:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        mine = os.fstat(fd)
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
