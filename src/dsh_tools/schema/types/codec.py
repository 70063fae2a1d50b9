"""How JSON values become Python values and back, once a schema has admitted them.

A codec never validates what the schema says: it runs after validation. What it may still
meet is a constructor or a validator of the author's that refuses a value; that is a :class:`Fault`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

from ...json_value import join_path

__all__ = ["Codec", "Convert", "Fault", "Problem", "Shape", "path_of", "same"]

Convert: TypeAlias = Callable[[Any], Any]
Segment: TypeAlias = str | int


@dataclass(slots=True)
class Problem:
    """One complaint: what is wrong, and where, as path segments from the outside in."""

    message: str
    path: list[Segment] = field(default_factory=list[Segment])


class Fault(Exception):
    """A Python type refused a value that its schema admits; containers add where they met it."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems[0].message if problems else "")
        self.problems = problems

    @classmethod
    def of(cls, message: str) -> Fault:
        """Return a fault about the value at hand."""
        return cls([Problem(message)])

    def inside(self, segment: Segment) -> Fault:
        """Note that the value sits at ``segment`` of its container, and return the fault."""
        for problem in self.problems:
            problem.path.insert(0, segment)
        return self


def path_of(root: str, segments: list[Segment]) -> str:
    """Return where a problem is, in the contract's form: ``a.b[0]`` (SCHEMA-D3)."""
    return reduce(join_path, segments, root)


@dataclass(frozen=True, slots=True)
class Codec:
    """The two conversions of one type.

    Parameters:
        load: from an admitted JSON value to the Python value; None where they are the same object.
        dump: from a Python value to JSON data, not yet checked; None where they are the same.
            A value of another type passes through unchanged, so that validation can name it.
        owns: whether a Python value looks like one of this type; decides between union branches.
    """

    load: Convert | None
    dump: Convert | None
    owns: Callable[[object], bool]


def same(*kinds: type) -> Codec:
    """Return the codec of types whose JSON form is the value itself."""
    return Codec(None, None, lambda value: type(value) in kinds)


@dataclass(frozen=True, slots=True)
class Shape:
    """A translated type: its JSON Schema document and its codec."""

    document: dict[str, Any]
    codec: Codec
