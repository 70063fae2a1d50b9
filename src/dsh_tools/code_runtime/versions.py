"""What the course of a program depends on, as a text that can be compared."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from pathlib import Path

__all__ = ["version_text"]


def version_text(interpreter: str, sources: Iterable[Path]) -> str:
    """Name an interpreter, the machine it runs on, and our own part that programs run in.

    Arithmetic beyond the basic operations may differ between machines, so the machine is named, too.

    Parameters:
        interpreter: its name and version.
        sources: the files of our part; a digest of their contents stands for them.
    """
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    return f"{interpreter} {platform.machine()}/worker {digest.hexdigest()[:16]}"
