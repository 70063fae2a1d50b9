"""Tool lists for providers: each visible tool in a provider's form, or the reason why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ...errors import ConfigError, JsonSchemaError, JsonTextError, LossyJsonError
from ...json_value import parse_json, snapshot_depth, thaw
from ..compiled import Schema
from ..raw import RawSchema, compile_raw
from .documents import MAX_DEPTH, WRAPPER, Document
from .providers import DIALECTS, Dialect, Parameters, Provider
from .report import ExportNote, Inexpressible, Report
from .restore import restore
from .wire_names import wire_names

__all__ = ["ExportResult", "ExportableTool", "export_tools"]


class ExportableTool(Protocol):
    """What an export reads of a tool; a definition, an SDK tool and a registry's listing all have it.

    An ``output`` schema may be there, too; only MCP lists it.
    """

    @property
    def name(self) -> str:
        """The tool's own name."""
        ...

    @property
    def description(self) -> Any:
        """What the tool does; anything but a text counts as none."""
        ...

    @property
    def parameters(self) -> Any:
        """The schema of the arguments: a document, a compiled ``Schema`` or a ``RawSchema``."""
        ...


@dataclass(frozen=True, slots=True)
class ExportResult:
    """A tool list in a provider's form.

    Attributes:
        dialect: which form.
        tools: the wire records, in the order of the tools given.
        names: the tool's own name by wire name.
        notes: what was converted, where a reader may want to know.
        refused: which tools are not in the list, and why.
    """

    dialect: Dialect
    tools: list[dict[str, Any]]
    names: dict[str, str]
    notes: list[ExportNote]
    refused: list[ExportNote]
    _ways_back: Mapping[str, Parameters] = field(repr=False)

    def restore(self, wire_name: str, arguments: Any) -> tuple[str, Any]:
        """Turn a model's call back into the tool's own name and arguments.

        Undoes renamed keys, wrapped arguments and nulls that stand for absent keys. Null in place of the
        arguments is an empty object. JSON text is parsed only where something has to be undone; text that does
        not parse, and names that are not in the list, pass unchanged, so that the pipeline reports them.
        """
        parameters = self._ways_back.get(wire_name)
        if parameters is None:
            return wire_name, arguments
        name = self.names[wire_name]
        if arguments is None:
            return name, {}
        if parameters.plan is None and not parameters.wrapped:
            return name, arguments
        value = arguments
        if isinstance(value, str):
            try:
                value = parse_json(value)
            except JsonTextError:
                return name, arguments
        value = restore(parameters.plan, value, parameters.definitions)
        if parameters.wrapped and isinstance(value, dict) and value.keys() == {WRAPPER}:  # pyright: ignore[reportUnknownMemberType]
            value = value[WRAPPER]  # pyright: ignore[reportUnknownVariableType]
        return name, value  # pyright: ignore[reportUnknownVariableType]


def export_tools(
    tools: Iterable[ExportableTool | Mapping[str, Any]],
    dialect: Dialect,
    *,
    strict: bool = False,
    lossy: bool = False,
) -> ExportResult:
    """Put tools into a provider's form.

    What a dialect forbids is converted where that loses nothing; else the tool is refused, with the reason, and
    the others are exported. A strict export falls back, tool by tool, to one without strict. What an exported
    schema accepts, the tool's own schema accepts once :meth:`ExportResult.restore` has turned it back; the
    exceptions are the losses that ``lossy`` allows, each with a note.

    Args:
        tools: definitions, SDK tools, or mappings with ``name``, ``description``, ``parameters``.
        dialect: ``openai-chat``, ``openai-responses``, ``anthropic``, ``gemini`` or ``mcp``.
        strict: ask OpenAI to keep to the schema. The other dialects have no such mode here.
        lossy: drop what a dialect cannot say instead of refusing the tool; the validator still enforces it.

    Raises:
        ConfigError: the dialect is unknown.
    """
    provider = DIALECTS.get(dialect)
    if provider is None:
        known = ", ".join(DIALECTS)
        raise ConfigError(f'unknown provider dialect "{dialect}" (known: {known})')
    read = [_read(tool) for tool in tools]
    wire = wire_names((tool.name for tool in read), provider.names)
    result = ExportResult(dialect, [], {}, [], [], ways := {})
    if strict and not provider.has_strict:
        result.notes.append(ExportNote("", "", f"{dialect} has no strict mode here; exported without"))
    for tool in read:
        report = Report(tool.name, lossy=lossy)
        try:
            if wire[tool.name] in result.names:
                raise Inexpressible("", "another tool of the list has the same name")
            record, ways[wire[tool.name]] = _export(tool, wire[tool.name], provider, report, strict)
        except Inexpressible as fault:
            result.refused.append(ExportNote(tool.name, fault.path, fault.reason))
            continue
        result.names[wire[tool.name]] = tool.name
        result.tools.append(record)
        if wire[tool.name] != tool.name:
            report.note("", f'sent as "{wire[tool.name]}": a name has {provider.names.words}')
        result.notes.extend(report.notes)
    return result


class _Tool(NamedTuple):
    name: str
    description: str
    parameters: Any
    output: Any


def _read(tool: Any) -> _Tool:
    fields: dict[str, Any] = {}
    for key in _Tool._fields:
        fields[key] = tool.get(key) if isinstance(tool, Mapping) else getattr(tool, key, None)  # pyright: ignore[reportUnknownMemberType]
    if not isinstance(fields["description"], str):
        fields["description"] = ""
    # A definition keeps the schema of its output beside how it is rendered.
    fields["output"] = getattr(fields["output"], "schema", fields["output"])
    return _Tool(**fields)


def _export(
    tool: _Tool, wire_name: str, provider: Provider, report: Report, strict: bool
) -> tuple[dict[str, Any], Parameters]:
    parameters = provider.parameters(_document(tool.parameters), report, strict)
    output = None
    if tool.output is not None and provider.has_outputs:
        try:
            output = _document(tool.output)
        except Inexpressible:
            report.note("", "the output schema is not listed: it is no JSON Schema object")
    record = provider.envelope(wire_name, tool.description, parameters, output)
    return thaw(record), parameters  # pyright: ignore[reportReturnType]


def _document(schema: Any) -> Document:
    """Return a schema's document, checked: lossless, not too deep, valid, and free of remote references."""
    document: Any = schema
    if isinstance(schema, Schema):
        document = schema.json
    elif isinstance(schema, RawSchema):
        document = schema.document
    try:
        frozen, depth = snapshot_depth(document)
    except LossyJsonError as fault:
        raise Inexpressible(fault.path, f"the schema is not lossless JSON: {fault.reason}") from None
    if not isinstance(frozen, dict):
        raise Inexpressible("", "the schema is not an object")
    if depth > MAX_DEPTH:
        raise Inexpressible("", f"the schema nests {depth} levels deep; the limit is {MAX_DEPTH}")
    if isinstance(schema, Schema):
        return frozen
    try:
        compile_raw(frozen)
    except JsonSchemaError as fault:
        raise Inexpressible("", str(fault)) from None
    return frozen
