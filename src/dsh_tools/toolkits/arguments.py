"""Checks of arguments that a schema cannot say, made before anybody is asked (D25)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ..tools import ToolDefinition

__all__ = ["also_check"]


def also_check(definition: ToolDefinition, check: Callable[[Any], Sequence[str]]) -> ToolDefinition:
    """Return the definition with a further check of its arguments.

    Parameters:
        check: ``(JSON arguments) -> violations``; called for arguments that fit the schema.
    """
    before = definition.check_arguments

    def checked(args: Any) -> Sequence[str]:
        return (() if before is None else before(args)) or check(args)

    return dataclasses.replace(definition, check_arguments=checked)
