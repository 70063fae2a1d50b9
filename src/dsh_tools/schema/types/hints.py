"""Turning annotations into types: strings, forward references, names of an enclosing function."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from typing_extensions import get_type_hints

from ... import json_value
from .refusals import refuse, type_name

__all__ = ["ANY_JSON", "UNRESOLVED", "class_hints", "resolve"]

UNRESOLVED = (NameError, AttributeError, SyntaxError, TypeError, IndexError)
"""What evaluating an annotation may raise: an unknown name, a module without it, text that is no type."""

# The aliases are strings at run time, spelled with names that the annotated module need not have.
_MEANING: dict[str, Any] = {"JsonValue": Any, "JsonScalar": str | int | float | bool | None}
_ALIASES: dict[str, Any] = {name: getattr(json_value, name) for name in _MEANING}

ANY_JSON: Any = dict[str, Any] | list[Any] | str | int | float | bool | None
"""What the ``JsonValue`` alias comes to, wherever it is nested."""


def class_hints(cls: Any, names: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the annotations of a class, its bases included, with ``Annotated`` and qualifiers kept.

    Names are looked up where the class was defined; ``names``, the locals of whoever defines the
    tool, serve only what is not found there.
    """
    module = vars(sys.modules.get(cls.__module__, object))
    known = _namespace(module, {})
    try:
        return get_type_hints(cls, localns=known, include_extras=True)
    except UNRESOLVED:
        pass
    try:
        known = {**_namespace(module, names), cls.__name__: cls}
        return get_type_hints(cls, localns=known, include_extras=True)
    except UNRESOLVED as error:
        raise refuse(
            where,
            f"an annotation of {type_name(cls)} cannot be resolved: {error}",
            "import the name at module level, not only for type checking",
        ) from None


def resolve(annotation: Any, module: Mapping[str, Any], names: Mapping[str, Any]) -> Any:
    """Return the type an annotation means; raise one of ``UNRESOLVED`` where it means none."""

    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    localns = _namespace(module, names)
    return get_type_hints(holder, globalns=dict(module), localns=localns, include_extras=True)["it"]


def _namespace(module: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the local names for an evaluation, in which our aliases mean what they say."""
    found = {name: meaning for name, meaning in _MEANING.items() if module.get(name, _ALIASES[name]) is _ALIASES[name]}
    for name, value in names.items():
        found[name] = _MEANING[name] if name in _ALIASES and _ALIASES[name] == value else value
    return found
