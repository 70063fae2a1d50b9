"""The command ``dsh-tools``: one verb per file."""

from __future__ import annotations

from .app import main

__all__ = ["main"]
