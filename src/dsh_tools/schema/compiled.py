"""Compiled schemas: what a tool holds on to, and what a call is judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from ..errors import JsonSchemaError
from ..json_value import FrozenDict, exceeds_depth, snapshot
from .dsl import lower_parameters, lower_value
from .json_schema import check_document
from .native import MAX_NATIVE_DEPTH, NATIVE_FAULTS, follows_values, native_validator, reads_as_it_is
from .nodes import Node, find_circle
from .validate import Validator

__all__ = [
    "Schema",
    "SchemaSource",
    "compile_json_schema",
    "compile_parameters",
    "compile_value",
    "validate_args",
    "validate_json_schema_value",
]

SchemaSource: TypeAlias = Literal["dsl", "subset", "types", "raw"]
"""Where a schema came from: the DSL, a document of the subset, Python types, or a raw document."""

NO_DEFINITIONS: Mapping[str, Node] = FrozenDict()


class Schema:
    """One schema, compiled once and immutable (SCHEMA-E2, D26).

    Attributes:
        json: the frozen JSON Schema document, as a model is shown it.
        node: the same as nodes: what validators and generators read.
        source: how it was written.
        definitions: the nodes that references in ``node`` point to, by name (D31).

    Raises:
        JsonSchemaError: a definition leads back to itself without a step into the value; what that
            means is undefined, and judging it would not end.
    """

    __slots__ = ("_gated", "_native", "_own", "definitions", "json", "node", "source")

    def __init__(
        self,
        json: Any,
        node: Node,
        source: SchemaSource,
        *,
        definitions: Mapping[str, Node] = NO_DEFINITIONS,
    ) -> None:
        self.json: Any = json
        self.node: Node = node
        self.source: SchemaSource = source
        self.definitions: Mapping[str, Node] = definitions
        if definitions and (circle := find_circle(definitions)) is not None:
            raise JsonSchemaError([f"schema leads back to itself without a step into the value: {', '.join(circle)}"])
        self._own = Validator(node, definitions)
        self._native: Callable[[Any], bool] | None = native_validator(node, definitions)
        self._gated: bool = follows_values(node, definitions)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} from {self.source}>"

    def accepts(self, value: Any, depth: int | None = None) -> bool:
        """Whether a lossless value satisfies the schema.

        Args:
            value: a lossless JSON value; a snapshot is the natural thing to hand in.
            depth: how deep its containers nest, if the caller knows.
        """
        native = self._native
        if native is not None and not (self._gated and _too_deep(value, depth)):
            try:
                if native(value):
                    return True
                if reads_as_it_is(value):
                    return False
            except NATIVE_FAULTS:
                pass
        return not self._own.faults(value, "value", lossless=True)

    def check(self, value: Any, path: str = "value", depth: int | None = None) -> list[str]:
        """Do what :meth:`violations` does, by way of the fast verdict: the way to judge a value that is probably valid.

        Args:
            value: a lossless JSON value.
            path: what the value is called in the messages.
            depth: how deep its containers nest, if the caller knows.
        """
        native = self._native
        if native is not None and not (self._gated and _too_deep(value, depth)):
            try:
                if native(value):
                    return []
            except NATIVE_FAULTS:
                pass
        return self._own.violations(value, path, lossless=True)

    def violations(
        self, value: Any, path: str = "value", depth: int | None = None, *, most: int | None = None
    ) -> list[str]:
        """List what is wrong with a lossless value, in the contract's wording; empty when it is valid (SCHEMA-D).

        Args:
            value: a lossless JSON value.
            path: what the value is called in the messages; ``""`` reads as ``arguments`` (SCHEMA-D3).
            depth: how deep its containers nest, if the caller knows.
            most: look for so many violations and no further; a value can have very many.
        """
        return self._own.violations(value, path, lossless=True, most=most)

    def host_violations(self, value: object, path: str) -> list[str]:
        """List what is wrong with any host value, lossless or not (SCHEMA-D1)."""
        return self._own.violations(value, path, lossless=False)


def _too_deep(value: Any, depth: int | None) -> bool:
    return exceeds_depth(value, MAX_NATIVE_DEPTH) if depth is None else depth > MAX_NATIVE_DEPTH


def compile_value(spec: object) -> Schema:
    """Compile a value spec of the DSL: any JSON root (SCHEMA-B1).

    Raises:
        JsonSchemaError: the spec is wrong; each violation ends the path inside the spec at the fault.
    """
    return _compile(lower_value(spec), "dsl")


def compile_parameters(spec: object) -> Schema:
    """Compile a parameter map of the DSL: an implicit open object root (SCHEMA-B1, D14).

    Raises:
        JsonSchemaError: the spec is wrong; each violation ends the path inside the spec at the fault.
    """
    return _compile(lower_parameters(spec), "dsl")


def compile_json_schema(document: object) -> Schema:
    """Compile a JSON Schema document of the contract's subset (SCHEMA section C).

    Raises:
        JsonSchemaError: the document is outside the subset; every violation is listed.
    """
    return _compile(document, "subset")


def _compile(document: object, source: SchemaSource) -> Schema:
    node = check_document(document)
    return Schema(snapshot(document), node, source)


def validate_json_schema_value(schema: object, value: object, path: str = "value") -> list[str]:
    """Validate any host value against a schema of the subset (SCHEMA-D1).

    Args:
        schema: a compiled schema, or a document of the subset.
        value: anything; ``msgspec.UNSET`` stands for a present but undefined member.
        path: what the value is called in the messages.

    Returns:
        The violations, in the contract's wording and order; empty when the value is valid.

    Raises:
        JsonSchemaError: the document is not of the subset.
    """
    if isinstance(schema, Schema):
        return schema.host_violations(value, path)
    return Validator(check_document(schema), NO_DEFINITIONS).violations(value, path, lossless=False)


def validate_args(spec: object, args: object) -> list[str]:
    """Validate call arguments against a parameter map of the DSL, which is compiled for it (SCHEMA-D2).

    Raises:
        JsonSchemaError: the map is wrong; the arguments are not looked at.
    """
    return validate_json_schema_value(compile_parameters(spec), args, "")
