"""``{{name}}`` in sections (HOST-68)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...errors import PromptError

__all__ = ["VARIABLE_NAME", "interpolate"]

VARIABLE_NAME = re.compile(r"[a-z][a-z0-9_]*")


def interpolate(section: str, text: str, variables: Mapping[str, str | None]) -> str:
    """Put values in the place of variables. What is put in is not looked at again.

    Raises:
        PromptError: a group between double braces is no variable that has a value; the text names
            the section. Opening braces without closing ones behind them are plain text.
    """
    pieces: list[str] = []
    position = 0
    while (start := text.find("{{", position)) >= 0:
        end = text.find("}}", start + 2)
        if end < 0:
            break
        name = text[start + 2 : end]
        pieces += [text[position:start], _value(section, name, variables)]
        position = end + 2
    pieces.append(text[position:])
    return "".join(pieces)


def _value(section: str, name: str, variables: Mapping[str, str | None]) -> str:
    if VARIABLE_NAME.fullmatch(name) is None:
        shown = name if len(name) <= 40 else name[:40] + "…"
        raise PromptError(
            f'section "{section}": {{{{{shown}}}}} is not a variable; write {{{{name}}}}, or mark the section literal'
        )
    if name not in variables:
        known = ", ".join(sorted(variables)) or "none"
        raise PromptError(f'section "{section}": unknown variable {{{{{name}}}}} (known: {known})')
    value = variables[name]
    if value is None:
        raise PromptError(f'section "{section}": the variable {{{{{name}}}}} has no value here')
    return value
