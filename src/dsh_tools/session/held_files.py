"""Files that nothing but SQLite may open in this process, because closing them again would cost it its locks."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

__all__ = ["hold", "is_held"]

_paths: Counter[Path] = Counter()
_changing = threading.Lock()


def hold(path: Path) -> Callable[[], None]:
    """Say that a connection to the store in ``path`` is open, until what this returns is called."""
    with _changing:
        _paths[path] += 1

    def release() -> None:
        with _changing:
            _paths[path] -= 1
            if not _paths[path]:
                del _paths[path]

    return release


def is_held(found: os.stat_result) -> bool:
    """Whether a file belongs to a session store that is open here; whoever reads files has to pass it over.

    Parameters:
        found: the status of the file, which must not have been opened to get it.
    """
    if not _paths:
        return False
    with _changing:
        paths = tuple(_paths)
    for path in paths:
        # The file itself and the index of its write-ahead log are the two that SQLite locks.
        for name in (path, f"{path}-shm"):
            try:
                if os.path.samestat(found, os.stat(name)):
                    return True
            except OSError:
                continue
    return False
