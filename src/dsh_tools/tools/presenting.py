"""Asking a tool's presenters for cards, so that nothing they do reaches the call.

Used by whoever shows calls: a terminal, a page, a replay. A replay has the logged arguments and the persisted
content, error flag and presentation meta; the canonical value is never persisted (PIPE-208).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from ..errors import HarnessError
from ..json_value import parse_json
from .cards import CallView, ResultView, call_view_from_json, result_view_from_json

if TYPE_CHECKING:
    from .definition import PresentedResult, ToolDefinition

__all__ = ["view_of_call", "view_of_result"]

_log = logging.getLogger("dsh_tools")
_CALL_TYPES = get_args(CallView)
_RESULT_TYPES = get_args(ResultView)

V = TypeVar("V")


def view_of_call(definition: ToolDefinition | None, arguments: Any) -> CallView | None:
    """Return the card of a pending call, or None where the generic fallback is to be shown.

    None for a tool without presenter, for arguments that don't parse, and for a presenter that raises or
    returns something that is not a card, which is logged (PIPE-205, 207).

    Parameters:
        definition: the tool; None for one that is not visible any more.
        arguments: the arguments as a JSON value, or as the JSON text that was logged.
    """
    if definition is None or definition.present_call is None:
        return None
    try:
        parsed = _parsed(arguments)
    except HarnessError:
        return None
    present = definition.present_call
    return _contained(definition.name, "present_call", lambda: present(parsed), _CALL_TYPES, call_view_from_json)


def view_of_result(definition: ToolDefinition | None, arguments: Any, presented: PresentedResult) -> ResultView | None:
    """Return the card of a settled call, or None where the generic fallback is to be shown.

    ``presented`` is what is persisted of the result. Otherwise like :func:`view_of_call`.
    """
    if definition is None or definition.present_result is None:
        return None
    try:
        parsed = _parsed(arguments)
    except HarnessError:
        return None
    present = definition.present_result
    return _contained(
        definition.name,
        "present_result",
        lambda: present(parsed, presented),
        _RESULT_TYPES,
        result_view_from_json,
    )


def _parsed(arguments: Any) -> Any:
    return parse_json(arguments) if isinstance(arguments, str) else arguments


def _contained(
    tool: str,
    role: str,
    present: Callable[[], object],
    types: tuple[type, ...],
    from_json: Callable[[object], V],
) -> V | None:
    try:
        view = present()
        if view is None or isinstance(view, types):
            return view  # pyright: ignore[reportReturnType]
        return from_json(view)
    except Exception:
        _log.warning('%s of tool "%s" failed; the generic card is shown', role, tool, exc_info=True)
        return None
