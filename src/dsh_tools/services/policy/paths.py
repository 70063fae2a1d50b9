"""Paths into arguments: ``options.force``, ``files[0]``, ``files[*]``, ``["odd.key"]``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, cast

__all__ = ["MISSING", "ArgumentPath"]


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING
"""Stands for a place that the arguments don't have."""

_STEP = re.compile(r'(?:^|\.)(?P<key>[^.\[\]"]+)|\[(?P<index>\d+)\]|\[(?P<all>\*)\]|\["(?P<quoted>[^"]*)"\]')


class ArgumentPath:
    """A path from the arguments' root to one place, or with ``[*]`` to several.

    Raises:
        ValueError: the path is malformed.
    """

    __slots__ = ("_steps", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps: list[str | int | None] = []
        position = 0
        while position < len(text):
            step = _STEP.match(text, position)
            if step is None or (position == 0 and text.startswith(".")):
                raise ValueError(f"{text!r} is not a path into arguments, such as options.force or files[*]")
            self._steps.append(_read_step(step))
            position = step.end()
        if not self._steps:
            raise ValueError("a path into arguments cannot be empty")

    @property
    def first(self) -> str | None:
        """The argument that the path leads into; None where it begins with an index, which arguments don't have."""
        step = self._steps[0]
        return step if isinstance(step, str) else None

    def select(self, arguments: Any) -> list[Any]:
        """Return the values at the path; :data:`MISSING` stands for each place that is not there."""
        found: list[Any] = [arguments]
        for step in self._steps:
            found = [deeper for value in found for deeper in _descend(value, step)]
        return found


def _read_step(step: re.Match[str]) -> str | int | None:
    if step["all"]:
        return None
    if step["index"]:
        return int(step["index"])
    return step["quoted"] if step["key"] is None else step["key"]


def _descend(value: Any, step: str | int | None) -> Iterator[Any]:
    if isinstance(step, str):
        members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        yield members.get(step, MISSING)
    elif not isinstance(value, list):
        yield MISSING
    elif step is None:
        yield from cast("list[Any]", value)
    else:
        elements = cast("list[Any]", value)
        yield elements[step] if step < len(elements) else MISSING
