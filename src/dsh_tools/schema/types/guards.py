"""``isinstance`` for values of any type, with answers that the type checker can use."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypeIs

__all__ = ["is_class", "is_dict", "is_list"]


def is_dict(value: Any) -> TypeIs[dict[Any, Any]]:
    """Whether a value is a dict."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeIs[list[Any]]:
    """Whether a value is a list."""
    return isinstance(value, list)


def is_class(value: Any) -> TypeIs[type[Any]]:
    """Whether a value is a class."""
    return isinstance(value, type)
