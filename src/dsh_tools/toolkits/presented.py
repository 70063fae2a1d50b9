"""Reading what a result has left for its card."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ..tools import PresentedResult

__all__ = ["meta_of"]

T = TypeVar("T", bound=msgspec.Struct)


def meta_of(presented: PresentedResult, shape: type[T]) -> T | None:
    """Return the presentation meta of a success in its shape; None for a failure, and where the meta is another one.

    A log may be older than the tool that shows it.
    """
    if presented.is_error:
        return None
    try:
        return msgspec.convert(presented.meta, shape)
    except msgspec.ValidationError:
        return None
