"""Paths that are written out only when a message needs them.

A walk that is 100,000 levels deep would otherwise hold as many texts, each as long as it is deep.
A path is its root's text, or a pair of the parent's path and the next step.
"""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["DocumentPath", "ValuePath", "document_path", "value_path"]

ValuePath: TypeAlias = "str | tuple[ValuePath, str | int]"
"""Where a value is: steps are property names and list indices."""

DocumentPath: TypeAlias = "str | tuple[DocumentPath, str]"
"""Where a schema is: steps are texts that are simply put together (``.items``, ``.oneOf[1]``)."""


def value_path(path: ValuePath) -> str:
    """Write the path of a value: ``a.b[0]``; below an empty path the key stands alone (SCHEMA-D3)."""
    steps: list[str | int] = []
    while isinstance(path, tuple):
        path, step = path
        steps.append(step)
    steps.reverse()
    parts = [path]
    bare = not path
    for step in steps:
        if isinstance(step, int):
            parts.append(f"[{step}]")
            bare = False
        elif bare:
            parts.append(step)
            bare = not step
        else:
            parts.append("." + step)
    return "".join(parts)


def document_path(path: DocumentPath) -> str:
    """Write the path of a schema; keys are put in as they are (SCHEMA-B14)."""
    steps: list[str] = []
    while type(path) is tuple:
        path, step = path
        steps.append(step)
    steps.append(str(path))
    return "".join(reversed(steps))
