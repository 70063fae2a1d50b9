"""TypeScript types for schemas, and the SDK block that shows tools to a program's author (SCHEMA-F, H2).

The walk keeps its own stack, so a schema may nest to any depth. Rendering never raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ...json_value import js_number, js_string
from ..nodes import (
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
    is_set,
)
from .names import ts_doc, ts_key_is_bare, utf16_key
from .reading import SchemaInput, SdkTool, node_of

__all__ = ["render_sdk_typescript", "to_typescript"]

_OPEN = "Record<string, JsonValue>"

_PREAMBLE = "type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue }"
_POSTAMBLE = """\
type ToolName = keyof ToolOutputMap

declare class ToolCallError extends Error {
  readonly name: "ToolCallError";
  readonly toolName: ToolName;
}

declare const tools: {
  [K in ToolName]: (args: ToolArgsMap[K]) => Promise<ToolOutputMap[K]>;
}"""


def to_typescript(schema: SchemaInput, indent: int = 0) -> str:
    """Return the TypeScript type of a schema.

    Total: a document outside the contract's subset is ``unknown`` as a whole (SCHEMA-F1). A
    :class:`~dsh_tools.schema.Schema` made from Python types or a raw document is ``unknown`` only
    where TypeScript cannot say it.

    Args:
        schema: a JSON Schema document, or a compiled schema.
        indent: the nesting level the type starts at; two spaces a level.
    """
    node = node_of(schema)
    return "unknown" if node is None else _render(node, indent)


def render_sdk_typescript(tools: Sequence[SdkTool]) -> str:
    """Return the fenced ``ts`` block that declares every tool, sorted by name (SCHEMA-H1, H2)."""
    ordered = sorted(tools, key=lambda tool: utf16_key(tool.name))
    args = [_entry(tool.name, tool.parameters, tool.description) for tool in ordered]
    outputs = [_entry(tool.name, tool.output, None) for tool in ordered]
    sections = (_PREAMBLE, _interface("ToolArgsMap", args), _interface("ToolOutputMap", outputs), _POSTAMBLE)
    return "```ts\n" + "\n\n".join(sections) + "\n```"


def _entry(name: str, schema: SchemaInput, description: object) -> str:
    doc = ts_doc(description)
    head = "" if doc is None else f"  {doc}\n"
    return f"{head}  {_key(name)}: {to_typescript(schema, 1)};\n"


def _interface(name: str, entries: Sequence[str]) -> str:
    body = "\n" + "".join(entries) if entries else ""
    return f"interface {name} {{{body}}}"


def _key(key: str) -> str:
    return key if ts_key_is_bare(key) else js_string(key)


class _ArrayEnd(NamedTuple):
    """What is left to do after an array's items: where they begin, and how many bars came before."""

    start: int
    bars: int


_Step: TypeAlias = "str | tuple[Node, int] | _ArrayEnd"


def _render(root: Node, indent: int) -> str:
    """Write a node's type with an explicit stack.

    Whether array items need parentheses is a question about their text, whatever it is made of:
    does it hold a ``|`` or ``&`` (SCHEMA-F3)? Counting the fragments that do keeps this linear.
    """
    out: list[str] = []
    bars = 0
    todo: list[_Step] = [(root, indent)]
    while todo:
        step = todo.pop()
        if isinstance(step, str):
            out.append(step)
            bars += "|" in step or "&" in step
        elif isinstance(step, _ArrayEnd):
            barred = bars != step.bars
            out[step.start] = "(" if barred else ""
            out.append(")[]" if barred else "[]")
        else:
            node, level = step
            if isinstance(node, ArrayNode) and node.items is not None:
                todo.append(_ArrayEnd(len(out), bars))
                todo.append((node.items, level))
                out.append("")
            else:
                todo.extend(reversed(_steps(node, level)))
    return "".join(out)


def _steps(node: Node, level: int) -> list[_Step]:
    """Return the pieces of one node's type, in writing order."""
    if isinstance(node, ObjectNode):
        return _object_steps(node, level)
    if isinstance(node, UnionNode):
        steps: list[_Step] = []
        for branch in node.branches:
            steps += (" | ", (branch, level)) if steps else ((branch, level),)
        return steps or ["unknown"]
    if isinstance(node, MapNode):
        return ["Record<string, ", (node.values, level), ">"]
    if isinstance(node, ArrayNode):
        return ["JsonValue[]"]
    if isinstance(node, AnyNode):
        return ["JsonValue"]
    if isinstance(node, RefNode):
        return ["unknown"]
    return [_scalar(node)]


def _object_steps(node: ObjectNode, level: int) -> list[_Step]:
    if not node.properties:
        return [_OPEN if node.additional else "Record<string, never>"]
    pad = "  " * (level + 1)
    required = frozenset(node.required)
    steps: list[_Step] = ["{\n"]
    for key, child in node.properties.items():
        doc = ts_doc(child.description)
        head = "" if doc is None else f"{pad}{doc}\n"
        mark = "" if key in required else "?"
        steps += (f"{head}{pad}{_key(key)}{mark}: ", (child, level + 1), ";\n")
    steps.append("  " * level + "}" + (f" & {_OPEN}" if node.additional else ""))
    return steps


def _scalar(node: ScalarNode) -> str:
    base = _base(node)
    if is_set(node.const):
        return _literal(node.const, base)
    if node.enum:
        return " | ".join(_literal(value, base) for value in node.enum)
    return base


def _base(node: ScalarNode) -> str:
    if isinstance(node, StringNode):
        return "string"
    if isinstance(node, (NumberNode, IntegerNode)):
        return "number"
    if isinstance(node, BooleanNode):
        return "boolean"
    assert isinstance(node, NullNode)
    return "null"


def _literal(value: object, base: str) -> str:
    """Write a literal type; an integer that no double can hold is only known by its base type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        text = js_number(value)
        return base if text.endswith("y") else text
    return js_string(value) if isinstance(value, str) else "null"
