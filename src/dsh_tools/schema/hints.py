"""Hints: how to put right what a model sent, for the lines after the contract's message (D38).

Nothing is coerced. A hint shows the form that would have been accepted.
"""

from __future__ import annotations

import difflib
from collections.abc import Generator
from typing import Any, TypeAlias, cast

from ..errors import JsonTextError
from ..json_value import exceeds_depth, literal_text, parse_json
from .compiled import Schema
from .issues import TYPE_PHRASES, quoted_path
from .nodes import (
    AnyNode,
    ArrayNode,
    BooleanNode,
    IntegerNode,
    MapNode,
    Node,
    NullNode,
    NumberNode,
    ObjectNode,
    RefNode,
    StringNode,
    UnionNode,
)
from .paths import ValuePath, value_path
from .scalars import discriminates, fits_type
from .validate import Validator

__all__ = ["MAX_HINTS", "argument_hints"]

MAX_HINTS = 5
"""How many hints one value gets; more would bury the message."""

_MAX_SHOWN = 60
# Advice is worth a bounded effort: beyond these, the message has to do alone.
_MAX_DEPTH = 64
_MAX_STEPS = 20_000
_Steps: TypeAlias = "Generator[_Steps, None, None]"


def argument_hints(schema: Schema, value: Any, path: str = "") -> list[str]:
    """Return hint lines for a value that the schema refuses; empty when there is nothing to advise.

    Args:
        schema: the compiled schema that refused the value.
        value: the lossless value.
        path: what the value is called; ``""`` reads as ``arguments``.

    A number sent as text gives ``"ms": send 2000, not "2000"``; an object or list sent as JSON text, a misspelt
    property, and a union whose intended branch is plain get hints too.
    """
    if exceeds_depth(value, _MAX_DEPTH):
        return []
    finder = _Finder(schema)
    pending: list[_Steps] = [finder.look(schema.node, value, path)]
    for _ in range(_MAX_STEPS):
        if not pending or len(finder.hints) >= MAX_HINTS:
            break
        child = next(pending[-1], None)
        if child is None:
            pending.pop()
        else:
            pending.append(child)
    return finder.hints[:MAX_HINTS]


class _Finder:
    """One search for hints, along the value and the nodes that judge it."""

    def __init__(self, schema: Schema) -> None:
        self.hints: list[str] = []
        self.validator = Validator(schema.node, schema.definitions)
        self.fits = self.validator.judging()

    def look(self, node: Node, value: Any, path: ValuePath) -> _Steps:
        """Look at one value and what is below it."""
        node = self.validator.resolve(node)
        if isinstance(node, UnionNode):
            yield self._union(node, value, path)
        elif isinstance(node, AnyNode) or fits_type(node, value):
            if isinstance(node, ObjectNode):
                yield self._object(node, cast("dict[str, Any]", value), path)
            elif isinstance(node, MapNode):
                for key, item in cast("dict[str, Any]", value).items():
                    yield self.look(node.values, item, (path, key))
            elif isinstance(node, ArrayNode) and node.items is not None:
                for index, item in enumerate(cast("list[Any]", value)):
                    yield self.look(node.items, item, (path, index))
        else:
            hint = _other_form(node, value)
            if hint is not None:
                self.hints.append(f"{quoted_path(path)}: {hint}")

    def _object(self, node: ObjectNode, value: dict[str, Any], path: ValuePath) -> _Steps:
        absent = [name for name in node.properties if name not in value]
        for key, item in value.items():
            child = node.properties.get(key)
            if child is not None:
                yield self.look(child, item, (path, key))
            elif not node.additional or any(name in node.required for name in absent):
                close = difflib.get_close_matches(key, absent, n=1)
                if close:
                    self.hints.append(f'{quoted_path((path, key))}: did you mean "{close[0]}"?')

    def _union(self, node: UnionNode, value: Any, path: ValuePath) -> _Steps:
        """Advise by the branch that was meant: the only one of the value's type, or of its discriminator."""
        branches = [self.validator.resolve(branch) for branch in node.branches]
        if any(self.fits(branch, value) for branch in branches):
            return
        fitting = [branch for branch in branches if fits_type(branch, value) and not isinstance(branch, AnyNode)]
        meant = fitting if len(fitting) == 1 else [branch for branch in fitting if discriminates(branch, value)]
        if len(meant) == 1:
            if node.mode == "oneOf":
                self.hints.extend(f"closest branch: {fault}" for fault in self._faults(meant[0], value, path)[:2])
            yield self.look(meant[0], value, path)
        elif not fitting:
            forms = [hint for branch in branches if (hint := _other_form(branch, value)) is not None]
            if forms:
                self.hints.append(f"{quoted_path(path)}: {forms[0]}")

    def _faults(self, branch: Node, value: Any, path: ValuePath) -> list[str]:
        return Validator(branch, self.validator.definitions).violations(value, value_path(path), lossless=True)


def _other_form(node: Node, value: Any) -> str | None:
    """Say how a value of the wrong type should have been written; None when that is anyone's guess."""
    if isinstance(value, str):
        return _from_text(node, value)
    if isinstance(node, StringNode) and isinstance(value, (int, float)):
        return f'send "{literal_text(value)}", not {literal_text(value)}'
    if isinstance(node, BooleanNode) and type(value) is int and value in (0, 1):
        return f"send {literal_text(bool(value))}, not {value}"
    return None


def _from_text(node: Node, text: str) -> str | None:
    """Read text that a value of another type was packed into."""
    try:
        inner: Any = parse_json(text)
    except JsonTextError:
        return None
    if not text.strip() or not fits_type(node, inner) or isinstance(node, (AnyNode, UnionNode, RefNode)):
        return None
    if isinstance(node, (ObjectNode, MapNode, ArrayNode)):
        kind = TYPE_PHRASES["array" if isinstance(node, ArrayNode) else "object"].partition(" ")[2]
        return f"send the {kind} itself, not a string that holds its JSON text"
    if isinstance(node, (IntegerNode, NumberNode, BooleanNode, NullNode)) and len(text) <= _MAX_SHOWN:
        return f"send {literal_text(inner)}, not {literal_text(text)}"
    return None
