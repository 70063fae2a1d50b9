"""A definition as the registry keeps it: checked, and compiled once (design: the hot path)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from ..errors import DefinitionError, JsonSchemaError, LossyJsonError
from ..json_value import FrozenDict, snapshot
from ..schema import RawSchema, Schema, compile_json_schema, compile_raw
from .assembly import SafeIfValid
from .definition import OutputSpec, ToolDefinition, check_identity, check_shape, check_timeout
from .imported import ImportedBody, place_of

__all__ = ["RegisteredTool", "ToolSchema", "compile_definition"]


class ToolSchema(msgspec.Struct, frozen=True, rename="camel"):
    """What a model is told about one tool (PIPE-62). ``parameters`` is frozen: it cannot be edited in place."""

    name: str
    description: str
    parameters: Any


class RegisteredTool:
    """One registered tool: its definition and everything the pipeline needs, ready to use.

    ``arguments`` is None when the definition leaves argument checks to its body (D8). ``elsewhere`` says that the
    body runs in a thread, or where ``imported`` is there, in a process.
    """

    __slots__ = (
        "accepts_arguments",
        "accepts_value",
        "arguments",
        "check_arguments",
        "defaults",
        "definition",
        "elsewhere",
        "execute",
        "finalize_content",
        "imported",
        "name",
        "output",
        "owner",
        "presentation_meta",
        "render",
        "safe_if_valid",
        "schema",
    )

    def __init__(self, definition: ToolDefinition, output: OutputSpec, value: Schema, arguments: Schema) -> None:
        self.definition = definition
        self.name = definition.name
        self.owner: str | None = None
        self.output: Schema = value
        self.accepts_value: Callable[[Any], bool] = value.accepts
        self.render: Callable[[Any, Any], Any] = output.render
        self.presentation_meta = output.presentation_meta
        self.arguments: Schema | None = arguments if definition.validate_arguments else None
        self.accepts_arguments: Callable[[Any], bool] = arguments.accepts
        self.check_arguments: Callable[[Any], Sequence[str]] | None = definition.check_arguments
        self.defaults: Mapping[str, Any] = FrozenDict(
            {key: snapshot(value) for key, value in definition.defaults.items()}
        )
        self.execute = definition.execute
        self.finalize_content = definition.finalize_content
        self.safe_if_valid = definition.validate_arguments and isinstance(definition.is_concurrency_safe, SafeIfValid)
        self.elsewhere = definition.isolation != "task"
        self.imported = _imported(definition) if definition.isolation == "process" else None
        self.schema = ToolSchema(definition.name, definition.description, arguments.json)


def _imported(definition: ToolDefinition) -> ImportedBody:
    """Return a body for a process, found by its name now."""
    body = definition.execute
    if not isinstance(body, ImportedBody):
        body = ImportedBody(place_of(definition.name, body), body, body)
    body.check(definition.name)
    return body


def _output_schema(declared: Schema | RawSchema | Mapping[str, Any]) -> Schema:
    if isinstance(declared, Schema):
        return declared
    if isinstance(declared, RawSchema):
        return compile_raw(declared.document)
    return compile_json_schema(declared)


def _parameter_schema(name: str, declared: object) -> Schema:
    if isinstance(declared, Schema):
        schema = declared
    elif isinstance(declared, RawSchema):
        schema = compile_raw(declared.document)
    elif isinstance(declared, Mapping):
        try:
            document: Any = snapshot(cast("object", declared))
        except LossyJsonError as error:
            raise DefinitionError(f'tool "{name}" parameters must be lossless JSON: {error.message}') from error
        try:
            schema = compile_json_schema(document)
        except JsonSchemaError:
            schema = compile_raw(document)
    else:
        raise DefinitionError(f'tool "{name}" parameters must be a JSON Schema object, got {declared!r}')
    root: Any = schema.json
    if not isinstance(root, dict) or root.get("type") != "object":  # pyright: ignore[reportUnknownMemberType]
        shape = ", ".join(root) if isinstance(root, dict) else repr(root)  # pyright: ignore[reportUnknownArgumentType]
        raise DefinitionError(
            f'tool "{name}" parameters must have the root "type": "object" (found: {shape or "an empty schema"}); '
            "put a union inside a property"
        )
    return schema


def compile_definition(definition: ToolDefinition) -> RegisteredTool:
    """Check a definition in the contract's order and compile it (PIPE-17, D26).

    Raises:
        DefinitionError: name, body, parameters, output shape or time limit are unusable.
        JsonSchemaError: a schema is outside what can be enforced (PIPE-20).
    """
    if not isinstance(cast("object", definition), ToolDefinition):
        raise DefinitionError(f"register() takes a tool, got {definition!r}; make one with @tool or define_tool()")
    check_identity(definition)
    output = check_shape(definition)
    value = _output_schema(output.schema)
    check_timeout(definition)
    return RegisteredTool(definition, output, value, _parameter_schema(definition.name, definition.parameters))
