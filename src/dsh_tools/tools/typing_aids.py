"""What lets a type checker hold a body against the classes of its definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypedDict, TypeVar

from ..content import ContentBlock
from ..schema import RawSchema, Schema
from .definition import OutputSpec, PresentedResult

if TYPE_CHECKING:
    from .cards import CallView, ResultView
    from .execution import ToolExecution
    from .result import ToolResult

__all__ = ["DynamicOutput", "DynamicParameters", "ExactClass", "ExactDict", "Render", "ToolOptions"]

A = TypeVar("A")
R = TypeVar("R")

# mypy takes this for true, every other reader for what it says.
MYPY = False

# With ``output: type[R]`` a checker may widen R until a body that returns something else fits, too.
# These protocols match classes and leave R no room. mypy does not widen, and needs the plain form.
if MYPY:

    class ExactClass(Protocol[R]):  # type: ignore[misc]
        """A class, standing for exactly its own instances."""

        def __call__(self, *args: Any, **kwargs: Any) -> R:
            """Make an instance; its type names the class."""
            ...

    class ExactDict(Protocol[R]):  # type: ignore[misc]
        """A TypedDict class, standing for exactly its own values."""

        def __call__(self, *args: Any, **kwargs: Any) -> R:
            """Make an instance; its type names the class."""
            ...

else:

    class ExactClass(Protocol[R]):
        """A class, standing for exactly its own instances."""

        def __subclasses__(self) -> list[type[R]]:
            """What every class has; its type names the class."""
            ...

    class ExactDict(Protocol[R]):
        """A TypedDict class, standing for exactly its own values."""

        def copy(_self, value: R, /) -> R:
            """What every TypedDict has; its type names the class."""
            ...


DynamicParameters: TypeAlias = Mapping[str, Any] | Schema | RawSchema
"""Parameters whose Python type a checker cannot know: the DSL, a compiled schema, raw JSON Schema."""

DynamicOutput: TypeAlias = UnionType | OutputSpec | Mapping[str, Any] | Schema | RawSchema
"""An output whose Python type a checker cannot know."""

Render: TypeAlias = Callable[[A, R], Sequence[ContentBlock]]
"""Turns arguments and a value into what a model reads; synchronous and pure (D29)."""


class ToolOptions(TypedDict, Generic[A], total=False):
    """The options that every way of writing a tool has in common.

    ``A`` is the type of the arguments, as the body gets them.
    """

    finalize_content: Callable[[ToolExecution, ToolResult], Sequence[ContentBlock] | None] | None
    is_concurrency_safe: bool | Callable[[A], bool]
    present_call: Callable[[A], CallView | None] | None
    present_result: Callable[[A, PresentedResult], ResultView | None] | None
    idempotent: bool
