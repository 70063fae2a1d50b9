"""Rules that can match nothing: they name a tool that nobody has registered, or an argument that no tool takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

from .rules import Rule

if TYPE_CHECKING:
    from ...tools.registered import RegisteredTool

__all__ = ["faults_of"]

_PARTS = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties")
"""Where one of these stands in a schema, arguments may be declared elsewhere than in its ``properties``."""


def faults_of(rules: Iterable[Rule], tools: Collection[RegisteredTool]) -> Iterator[str]:
    """Say for each rule that the registered tools leave without a meaning what it names in vain.

    A pattern over tool names may be meant for tools that are not there now; a name without wildcards may not.
    """
    for rule in rules:
        matching = [tool for tool in tools if rule.tool.matches(tool.name)]
        if matching:
            yield from _undeclared(rule, matching)
        elif rule.tool.is_exact:
            name = rule.tool.literal or ""
            near = _nearest(name, (tool.name for tool in tools))
            yield f'rule "{rule.name}" matches nothing: no registered tool is called "{name}"{near}'


def _undeclared(rule: Rule, matching: Iterable[RegisteredTool]) -> Iterator[str]:
    declared: set[str] = set()
    for tool in matching:
        names = _declared(tool.schema.parameters)
        if names is None:
            return
        declared.update(names)
    for predicate in rule.predicates:
        first = predicate.path.first
        if first is None or first not in declared:
            named = predicate.path.text
            near = _nearest(first or named, declared)
            yield f'rule "{rule.name}" matches nothing: no tool that it is about declares "{named}"{near}'


def _declared(schema: Any) -> Iterable[str] | None:
    """Return the arguments that a schema declares; None where any name may be one."""
    if not isinstance(schema, dict) or any(part in schema for part in _PARTS):
        return None
    parameters = cast("dict[str, Any]", schema)
    others = parameters.get("additionalProperties")
    if isinstance(others, dict) or ("properties" not in parameters and others is not False):
        return None
    return parameters.get("properties", ())


def _nearest(name: str, known: Iterable[str]) -> str:
    found = get_close_matches(name, sorted(known), 1)
    return f'; did you mean "{found[0]}"?' if found else ""
