"""What a call ends in: one immutable record, a success or a failure.

The JSON form is camelCase and leaves absent keys out (PIPE-182).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from ..content import Content, TextBlock
from ..errors import HarnessError, describe_exception
from ..messages import UserMessage

__all__ = [
    "ErrorDetail",
    "ErrorInfo",
    "ToolFailure",
    "ToolResult",
    "ToolSuccess",
    "failure",
    "failure_from",
]


class ErrorInfo(msgspec.Struct, frozen=True, rename="camel"):
    """The machine-readable half of an error; present only for errors that carry a code (PIPE-10)."""

    name: str
    code: str


class ErrorDetail(msgspec.Struct, frozen=True, rename="camel"):
    """The error of a failed call: ``message`` without the ``Error: `` prefix."""

    message: str
    info: ErrorInfo | UnsetType = UNSET


class ToolSuccess(msgspec.Struct, frozen=True, rename="camel"):
    """A call that ended well: the canonical ``value`` and the ``content`` a model reads."""

    value: Any
    content: Content
    meta: Any = UNSET
    additional_contexts: tuple[UserMessage, ...] | UnsetType = UNSET
    concludes_turn: bool | UnsetType = UNSET
    is_error: Literal[False] = False


class ToolFailure(msgspec.Struct, frozen=True, rename="camel"):
    """A call that failed, was denied, or was cancelled."""

    error: ErrorDetail
    content: Content
    meta: Any = UNSET
    additional_contexts: tuple[UserMessage, ...] | UnsetType = UNSET
    is_error: Literal[True] = True


ToolResult: TypeAlias = ToolSuccess | ToolFailure


def failure(
    message: str,
    info: ErrorInfo | UnsetType = UNSET,
    *,
    contexts: tuple[UserMessage, ...] | UnsetType = UNSET,
) -> ToolFailure:
    """Return the failed result a model reads as ``Error: <message>``."""
    return ToolFailure(ErrorDetail(message, info), (TextBlock("Error: " + message),), additional_contexts=contexts)


def failure_from(error: BaseException, *, contexts: tuple[UserMessage, ...] | UnsetType = UNSET) -> ToolFailure:
    """Return the failed result for something that was raised; only typed errors give ``info`` (PIPE-10)."""
    info = ErrorInfo(error.name, error.code) if isinstance(error, HarnessError) and _is_coded(error) else UNSET
    return failure(describe_exception(error), info, contexts=contexts)


def _is_coded(error: HarnessError) -> bool:
    """Whether an author's error kept to its declared types: a log takes no other code than a string (PIPE-12)."""
    return isinstance(error.name, str) and isinstance(error.code, str)  # pyright: ignore[reportUnnecessaryIsInstance]
