"""Faults up to a number, for values that have very many of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .scalars import Fault

__all__ = ["BoundedFaults", "EnoughFaults"]


class EnoughFaults(Exception):
    """As many faults were found as were asked for."""


class BoundedFaults(list["Fault"]):
    """A list of faults whose last one ends the walk.

    Parameters:
        most: how many faults are wanted; at least 1.
    """

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def append(self, fault: Fault, /) -> None:
        """Take a fault.

        Raises:
            EnoughFaults: it was the last one wanted.
        """
        super().append(fault)
        if len(self) >= self._most:
            raise EnoughFaults

    def extend(self, faults: Iterable[Fault], /) -> None:
        """Take faults. Raises as :meth:`append`."""
        for fault in faults:
            self.append(fault)
