"""Rewriting schema documents: definitions inlined, unions told apart.

Only positions that hold schemas are walked, so that a property or a default named ``$ref`` is data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .disjoint import pairwise_disjoint
from .guards import is_dict, is_list

__all__ = [
    "DEFINITION_PREFIX",
    "endless",
    "map_children",
    "ordered",
    "reference",
    "reference_name",
    "rename_references",
    "settle",
]

DEFINITION_PREFIX = "#/$defs/"

_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs")
_SINGLES = (
    "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")

# The contract's member order, so that a model's prompt stays the same byte for byte (SCHEMA-B17).
_ORDER = (
    "$ref", "type", "oneOf", "anyOf", "description", "title", "default", "examples", "additionalProperties",
    "properties", "required", "items", "enum", "const",
)  # fmt: skip
_NOTES = ("description", "title", "default", "examples", "deprecated")
_INLINE_BUDGET = 2_000


def reference(name: str) -> dict[str, Any]:
    """Return a reference to a definition of the same document."""
    return {"$ref": DEFINITION_PREFIX + name}


def reference_name(document: Mapping[str, Any]) -> str | None:
    """Return the definition that a document refers to, None where it is no such reference."""
    target = document.get("$ref")
    if isinstance(target, str) and target.startswith(DEFINITION_PREFIX):
        return target.removeprefix(DEFINITION_PREFIX)
    return None


def map_children(document: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a copy in which every schema right below ``document`` was put through ``change``."""
    result = dict(document)
    for key in _MAPS:
        if is_dict(document.get(key)):
            result[key] = {name: change(child) for name, child in document[key].items()}
    for key in _SINGLES:
        if is_dict(document.get(key)):
            result[key] = change(document[key])
    for key in _LISTS:
        if is_list(document.get(key)):
            result[key] = [change(child) for child in document[key]]
    return result


def rename_references(document: Any, names: Mapping[str, str]) -> Any:
    """Return the document with its references to definitions renamed."""
    if not is_dict(document):
        return document
    result = map_children(document, lambda child: rename_references(child, names))
    name = reference_name(result)
    if name is not None and name in names:
        result["$ref"] = DEFINITION_PREFIX + names[name]
    return result


def settle(document: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the finished document.

    Definitions are put in place where they are used; the recursive ones stay behind a reference, under
    ``$defs`` at the root, and so do shared ones once copies would add up to a huge document. A union
    whose branches provably exclude each other is written ``oneOf``, any other ``anyOf`` (D31).
    """
    return _Settler(definitions).run(document)


def endless(definitions: Mapping[str, Any]) -> str | None:
    """Return a definition that is itself a branch of itself, and so says nothing; None where all are sound."""
    for start in definitions:
        seen: set[str] = set()
        todo = _in_place(definitions[start])
        while todo:
            name = todo.pop()
            if name == start:
                return start
            if name in definitions and name not in seen:
                seen.add(name)
                todo.extend(_in_place(definitions[name]))
    return None


def _in_place(document: Any) -> list[str]:
    """Return the definitions that a document refers to about the very value it is about."""
    if not is_dict(document):
        return []
    name = reference_name(document)
    found = [] if name is None else [name]
    for key in ("anyOf", "oneOf", "allOf"):
        for branch in document.get(key, ()):
            found.extend(_in_place(branch))
    return found


class _Settler:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self.definitions = definitions
        self.kept: dict[str, Any] = {}
        self.recursive = {name for name in definitions if self._reaches(name, name)}
        self.budget = _INLINE_BUDGET

    def run(self, document: dict[str, Any]) -> dict[str, Any]:
        name = reference_name(document)
        if name in self.recursive and document.keys() == {"$ref"}:
            # Whoever reads the root wants to see its type, e.g. that arguments are an object.
            document = self.definitions[name]
        result = self._expand(document)
        return {**result, "$defs": self.kept} if self.kept else result

    def _reaches(self, start: str, target: str) -> bool:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for name in _references(self.definitions[todo.pop()]):
                if name == target:
                    return True
                if name in self.definitions and name not in seen:
                    seen.add(name)
                    todo.append(name)
        return False

    def _expand(self, document: Any) -> Any:
        if not is_dict(document):
            return document
        self.budget -= 1
        name = reference_name(document)
        if name is not None and name in self.definitions:
            return self._dereference(name, document)
        return self._exclusive(map_children(document, self._expand))

    def _dereference(self, name: str, document: dict[str, Any]) -> dict[str, Any]:
        notes = {key: value for key, value in document.items() if key != "$ref"}
        inline = name not in self.recursive and self.budget > 0 and all(key in _NOTES for key in notes)
        if not inline:
            if name not in self.kept:
                self.kept[name] = True  # Claims the place, so that a recursive definition is entered once.
                self.kept[name] = self._expand(self.definitions[name])
            return document
        # The text at the place of use is nearer to the reader than the definition's own.
        return ordered({**self._expand(self.definitions[name]), **notes})

    def _exclusive(self, document: dict[str, Any]) -> dict[str, Any]:
        document = ordered(document)
        branches = document.get("anyOf")
        document.pop("discriminator", None)  # OpenAPI's; the branches' own constants say the same.
        if not is_list(branches) or "oneOf" in document or len(branches) < 2:
            return document
        if not pairwise_disjoint(branches, self.definitions):
            return document
        return {("oneOf" if key == "anyOf" else key): value for key, value in document.items()}


def ordered(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with its members in the contract's order, unknown ones last."""
    result = {key: document[key] for key in _ORDER if key in document}
    result.update(document)
    return result


def _references(document: Any) -> set[str]:
    found: set[str] = set()

    def visit(child: Any) -> Any:
        if is_dict(child):
            name = reference_name(child)
            if name is not None:
                found.add(name)
            map_children(child, visit)
        return child

    visit(document)
    return found
