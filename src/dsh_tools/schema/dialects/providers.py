"""Each provider's tool record: its names, its parameters, its envelope."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from .documents import ROOT_UNIONS, Document, map_schemas, named_references, object_root, subschemas, wrap_root
from .gemini import spell
from .report import Inexpressible, Report
from .restore import Plan
from .restrict import restrict
from .target import ANTHROPIC, GEMINI, OPENAI_STRICT, Target
from .wire_names import ANTHROPIC_KEYS, COMMON_NAMES, GEMINI_NAMES, MCP_NAMES, NameRule

__all__ = ["DIALECTS", "Dialect", "Parameters", "Provider"]

Dialect: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "mcp"]

_MAX_LISTED: Final = 1_000
_MAX_TEXT: Final = 120_000


class Parameters(NamedTuple):
    """A tool's parameters for one provider, and the way back.

    Attributes:
        schema: the wire form; None where the provider wants none for a tool without arguments.
        standard: the same as standard JSON Schema, which says exactly what the provider will send.
        strict: whether the provider is asked to keep to the schema.
        wrapped: whether the arguments come as the one property ``input``.
        plan, definitions: see :mod:`.restore`.
    """

    schema: dict[str, Any] | None
    standard: Document
    strict: bool = False
    wrapped: bool = False
    plan: Plan | None = None
    definitions: Mapping[str, Plan | None] = {}


class Provider(NamedTuple):
    """How one dialect names, shapes and wraps a tool.

    Attributes:
        names: what tool names must look like.
        parameters: makes the wire parameters: ``(document, report, strict)``.
        envelope: makes the wire record: ``(wire name, description, parameters, output document or None)``.
        has_strict: whether the dialect knows a strict mode.
        has_outputs: whether it lists what a tool returns.
    """

    names: NameRule
    parameters: Callable[[Document, Report, bool], Parameters]
    envelope: Callable[[str, str, Parameters, Document | None], dict[str, Any]]
    has_strict: bool = False
    has_outputs: bool = False


# ── parameters ─────────────────────────────────────────────────────────────────


def _placed(document: Document, report: Report) -> tuple[dict[str, Any], bool]:
    """Give a document a root that providers take; the flag says that it was wrapped for that."""
    root = object_root(document)
    if not any(keyword in root for keyword in ROOT_UNIONS):
        return {k: v for k, v in root.items() if k != "$schema"}, False
    keyword = next(keyword for keyword in ROOT_UNIONS if keyword in root)
    report.note("", f'{keyword} may not stand at the root; the arguments are sent as the one property "input"')
    return wrap_root(named_references(root)), True


def _restricted(document: Document, report: Report, target: Target) -> Parameters:
    root, wrapped = _placed(document, report)
    made = restrict(named_references(root), target, report)
    return Parameters(made.schema, made.schema, False, wrapped, made.plan, made.definitions)


def _openai_parameters(document: Document, report: Report, strict: bool) -> Parameters:
    if strict:
        attempt = Report(report.tool, lossy=False)
        try:
            made = _restricted(document, attempt, OPENAI_STRICT)
            _check_limits(made.standard)
        except Inexpressible as fault:
            report.note(fault.path, f"sent without strict: {fault.reason}")
        else:
            report.notes += attempt.notes
            return made._replace(strict=True)
    root, wrapped = _placed(document, report)
    schema = map_schemas(root, _with_items)
    return Parameters({**schema, "properties": schema.get("properties", {})}, schema, wrapped=wrapped)


def _with_items(schema: dict[str, Any]) -> dict[str, Any]:
    """Say ``items: {}`` for a list of anything; OpenAI refuses a list without it."""
    kinds = schema.get("type")
    is_list = kinds == "array" or (isinstance(kinds, list) and "array" in kinds)
    return {**schema, "items": {}} if is_list and "items" not in schema and "prefixItems" not in schema else schema


def _check_limits(schema: Document) -> None:
    """Check strict mode's limits on listed values and on the text of names and values."""
    listed = text = 0
    for part in subschemas(schema):
        values: list[Any] = part.get("enum", [])
        listed += len(values)
        text += sum(len(value) for value in values if isinstance(value, str))
        text += sum(map(len, part.get("properties", {}))) + sum(map(len, part.get("$defs", {})))
    if listed > _MAX_LISTED or text > _MAX_TEXT:
        raise Inexpressible("", f"more than {_MAX_LISTED} listed values or {_MAX_TEXT} characters of names")


def _anthropic_parameters(document: Document, report: Report, _strict: bool) -> Parameters:
    keys = (key for part in subschemas(document) for key in part.get("properties", {}))
    if not all(map(ANTHROPIC_KEYS.allows, keys)):
        return _restricted(document, report, ANTHROPIC)
    schema, wrapped = _placed(document, report)
    return Parameters(schema, schema, wrapped=wrapped)


def _gemini_parameters(document: Document, report: Report, _strict: bool) -> Parameters:
    made = _restricted(document, report, GEMINI)
    return made._replace(schema=spell(made.standard) if made.standard.get("properties") else None)


def _mcp_parameters(document: Document, report: Report, _strict: bool) -> Parameters:
    schema = object_root(document)
    return Parameters(schema, schema)


# ── envelopes ──────────────────────────────────────────────────────────────────


def _openai_function(name: str, description: str, parameters: Parameters) -> dict[str, Any]:
    return {"name": name, "description": description, "parameters": parameters.schema}


def _openai_chat(name: str, description: str, parameters: Parameters, _output: Document | None) -> dict[str, Any]:
    function = _openai_function(name, description, parameters)
    if parameters.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _openai_responses(name: str, description: str, parameters: Parameters, _output: Document | None) -> dict[str, Any]:
    # This API takes a missing flag for true.
    function = _openai_function(name, description, parameters)
    return {"type": "function", **function, "strict": parameters.strict}


def _anthropic(name: str, description: str, parameters: Parameters, _output: Document | None) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": parameters.schema}


def _gemini(name: str, description: str, parameters: Parameters, _output: Document | None) -> dict[str, Any]:
    record: dict[str, Any] = {"name": name, "description": description}
    if parameters.schema is not None:
        record["parameters"] = parameters.schema
    return record


def _mcp(name: str, description: str, parameters: Parameters, output: Document | None) -> dict[str, Any]:
    record: dict[str, Any] = {"name": name, "description": description, "inputSchema": parameters.schema}
    if output is not None and output.get("type") == "object":
        record["outputSchema"] = output
    return record


DIALECTS: Final[Mapping[str, Provider]] = {
    "openai-chat": Provider(COMMON_NAMES, _openai_parameters, _openai_chat, has_strict=True),
    "openai-responses": Provider(COMMON_NAMES, _openai_parameters, _openai_responses, has_strict=True),
    "anthropic": Provider(COMMON_NAMES, _anthropic_parameters, _anthropic),
    "gemini": Provider(GEMINI_NAMES, _gemini_parameters, _gemini),
    "mcp": Provider(MCP_NAMES, _mcp_parameters, _mcp, has_outputs=True),
}
