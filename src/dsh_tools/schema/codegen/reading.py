"""What the generators are given, and the nodes in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ...errors import JsonSchemaError
from ..compiled import Schema
from ..json_schema import check_document

if TYPE_CHECKING:
    from ..nodes import Node

__all__ = ["SchemaInput", "SdkTool", "node_of"]

SchemaInput: TypeAlias = "Schema | dict[str, Any] | object"
"""A compiled schema, or a JSON Schema document; anything else counts as a document outside the subset."""


@dataclass(frozen=True, slots=True)
class SdkTool:
    """A tool as a program sees it: what an SDK block needs to know.

    Attributes:
        name: the tool's name, any string.
        description: shown above its arguments; anything but a text counts as none.
        parameters: the schema of its arguments.
        output: the schema of what a call returns.
    """

    name: str
    description: object
    parameters: SchemaInput
    output: SchemaInput


def node_of(schema: SchemaInput) -> Node | None:
    """Return the node of a schema, or None where a document leaves the contract's subset (SCHEMA-F1, G1)."""
    if isinstance(schema, Schema):
        return schema.node
    try:
        return check_document(schema)
    except JsonSchemaError:
        return None
