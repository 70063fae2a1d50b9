"""Schemas: the DSL, the JSON Schema subset, validation and its wording. Knows nothing of tools."""

from typing import TYPE_CHECKING

from ..lazy_exports import lazy_exports
from .compiled import (
    Schema,
    SchemaSource,
    compile_json_schema,
    compile_parameters,
    compile_value,
    validate_args,
    validate_json_schema_value,
)
from .hints import argument_hints
from .json_schema import assert_object_json_schema, assert_supported_json_schema
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
    ScalarNode,
    StringNode,
    UnionNode,
)
from .raw import RawSchema, compile_raw
from .signature import FunctionSignature, read_signature
from .types import TypedSchema, from_types

if TYPE_CHECKING:
    from .codegen import SchemaInput, SdkTool, render_sdk_python, render_sdk_typescript, to_python, to_typescript
    from .dialects import Dialect, ExportableTool, ExportNote, ExportResult, export_tools
else:
    # Who defines a tool, or runs one, writes no code and no provider's lists.
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "codegen": (
                "SchemaInput",
                "SdkTool",
                "render_sdk_python",
                "render_sdk_typescript",
                "to_python",
                "to_typescript",
            ),
            "dialects": ("Dialect", "ExportNote", "ExportResult", "ExportableTool", "export_tools"),
        },
    )

__all__ = [
    "AnyNode",
    "ArrayNode",
    "BooleanNode",
    "Dialect",
    "ExportNote",
    "ExportResult",
    "ExportableTool",
    "FunctionSignature",
    "IntegerNode",
    "MapNode",
    "Node",
    "NullNode",
    "NumberNode",
    "ObjectNode",
    "RawSchema",
    "RefNode",
    "ScalarNode",
    "Schema",
    "SchemaInput",
    "SchemaSource",
    "SdkTool",
    "StringNode",
    "TypedSchema",
    "UnionNode",
    "argument_hints",
    "assert_object_json_schema",
    "assert_supported_json_schema",
    "compile_json_schema",
    "compile_parameters",
    "compile_raw",
    "compile_value",
    "export_tools",
    "from_types",
    "read_signature",
    "render_sdk_python",
    "render_sdk_typescript",
    "to_python",
    "to_typescript",
    "validate_args",
    "validate_json_schema_value",
]
