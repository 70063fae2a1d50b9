"""What authors may take from pydantic, told without importing it.

Pydantic takes longer to import than this package. Its objects can only be there where the program has imported it;
so only then somebody looks for them, and ``pydantic_types.py`` is imported for the first type that needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeGuard

from .guards import is_class

if TYPE_CHECKING:
    from annotated_types import Predicate
    from pydantic.fields import FieldInfo

__all__ = ["is_field_info", "is_grouped", "is_predicate", "is_pydantic_json", "is_pydantic_type"]


def is_field_info(item: object) -> TypeGuard[FieldInfo]:
    """Whether it is what ``pydantic.Field`` returns."""
    return isinstance(item, _loaded("pydantic.fields", "FieldInfo"))


def is_predicate(item: object) -> TypeGuard[Predicate]:
    """Whether it is a predicate of ``annotated_types``."""
    return isinstance(item, _loaded("annotated_types", "Predicate"))


def is_grouped(item: object) -> TypeGuard[Iterable[object]]:
    """Whether it stands for several statements, over which it iterates: ``GroupedMetadata`` of ``annotated_types``."""
    marked = hasattr(item, "__is_annotated_types_grouped_metadata__")
    return marked and isinstance(item, Iterable) and not is_class(item)


def is_pydantic_json(tp: object) -> bool:
    """Whether a type is ``pydantic.JsonValue``."""
    return tp is _loaded("pydantic.types", "JsonValue")


def is_pydantic_type(cls: Any) -> bool:
    """Whether a class says itself how pydantic should treat it; typing forms and plain classes do not."""
    if not is_class(cls):
        return False
    # Models have the method, too.
    return hasattr(cls, "__get_pydantic_core_schema__") or _is_pydantic_dataclass(cls)


def _is_pydantic_dataclass(cls: type) -> bool:
    tell: Any = _loaded("pydantic.dataclasses", "is_pydantic_dataclass")
    return tell is not _Absent and tell(cls)


class _Absent:
    """Stands for a class that is not there: nothing is one of it."""


def _loaded(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, _Absent)
