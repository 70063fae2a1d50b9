"""The fast verdict: ``jsonschema-rs`` on a document made from nodes.

Its verdict is ours for lossless values, provided that schema and value leave its recursion alone:
it follows the schema, so a plain schema bounds it, and only references and ``uniqueItems`` make it
follow the value. Lone surrogates make it raise; callers then judge by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs
import msgspec
from msgspec import UNSET

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
    children_of,
)

__all__ = [
    "CONSTRAINT_KEYWORDS",
    "MAX_NATIVE_DEPTH",
    "NATIVE_FAULTS",
    "REGEX",
    "follows_values",
    "is_shallow",
    "native_validator",
    "reads_as_it_is",
    "refuse_retrieval",
    "shallow_nodes",
]

MAX_NATIVE_DEPTH = 512
"""How deep a value may nest where native code would follow it; all JSON text from a model fits (D39)."""

MAX_SCHEMA_HEIGHT = 60
"""How high a tree of nodes may be for native code; the library itself gives up at about 255 levels of document."""

NATIVE_FAULTS = (UnicodeEncodeError, ValueError, RecursionError)
"""What native code raises for values outside its reach: lone surrogates, depth, foreign types."""

REGEX = jsonschema_rs.RegexOptions()
"""The linear-time regex engine: no look-around, no back-references, no catastrophes (D32)."""

CONSTRAINT_KEYWORDS = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
    }
)
"""The constraints that are enforced; others (``format``, say) are annotations."""

_encode = msgspec.json.Encoder().encode
_SCALAR_TYPES: dict[type[Any], str] = {
    StringNode: "string",
    NumberNode: "number",
    IntegerNode: "integer",
    BooleanNode: "boolean",
    NullNode: "null",
}


def reads_as_it_is(value: object) -> bool:
    """Whether native code sees a lossless value as it is, so that its refusal stands.

    It takes an integer of more than 4,300 digits, which Python cannot write, for no number, and knows no lone
    surrogates; the encoder stumbles over the same.
    """
    try:
        _encode(value)
    except NATIVE_FAULTS:
        return False
    return True


def refuse_retrieval(uri: str) -> Any:
    """Answer every remote reference with a refusal: schemas never reach the network (D32)."""
    raise LookupError(f"remote references are refused: {uri}")


def native_validator(node: Node, definitions: Mapping[str, Node]) -> Callable[[Any], bool] | None:
    """Return the native verdict function for a tree of nodes; None when the tree is not for native code."""
    if not is_shallow(node, definitions):
        return None
    document = _document(node)
    if definitions:
        document["$defs"] = {name: _document(target) for name, target in definitions.items()}
    try:
        validator = jsonschema_rs.Draft202012Validator(
            document, retriever=refuse_retrieval, pattern_options=REGEX, validate_formats=False
        )
    except (*NATIVE_FAULTS, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        # Lone surrogates in the schema itself, or patterns that the engine does not know.
        return None
    return validator.is_valid


def is_shallow(node: Node, definitions: Mapping[str, Node]) -> bool:
    """Whether a tree, and each of its definitions, is low enough to recurse over."""
    level: list[Node] = [node, *definitions.values()]
    for _ in range(MAX_SCHEMA_HEIGHT):
        level = [child for parent in level for child in children_of(parent)]
        if not level:
            return True
    return False


def shallow_nodes(node: Node) -> frozenset[Node]:
    """Return the nodes of a tree whose own subtrees are low enough to recurse over; one walk for all of them."""
    ordered: list[Node] = [node]
    for current in ordered:
        ordered.extend(children_of(current))
    heights: dict[Node, int] = {}
    for current in reversed(ordered):
        heights[current] = 1 + max((heights[child] for child in children_of(current)), default=0)
    return frozenset(current for current, height in heights.items() if height <= MAX_SCHEMA_HEIGHT)


def follows_values(node: Node, definitions: Mapping[str, Node]) -> bool:
    """Whether native code would recurse by the value's depth, not by the schema's alone."""
    pending: list[Node] = [node, *definitions.values()]
    while pending:
        current = pending.pop()
        if isinstance(current, RefNode) or "uniqueItems" in current.constraints:
            return True
        pending.extend(children_of(current))
    return False


def _document(node: Node) -> dict[str, Any]:
    """Write a shallow tree as a bare document: no annotations, every list free of repeats."""
    out: dict[str, Any] = {key: value for key, value in node.constraints.items() if key in CONSTRAINT_KEYWORDS}
    if isinstance(node, ObjectNode):
        out["type"] = "object"
        out["properties"] = {key: _document(child) for key, child in node.properties.items()}
        if node.required:
            out["required"] = list(dict.fromkeys(node.required))
        if not node.additional:
            out["additionalProperties"] = False
    elif isinstance(node, MapNode):
        out["type"] = "object"
        out["additionalProperties"] = _document(node.values)
    elif isinstance(node, ArrayNode):
        out["type"] = "array"
        if node.items is not None:
            out["items"] = _document(node.items)
    elif isinstance(node, UnionNode):
        out[node.mode] = [_document(branch) for branch in node.branches]
    elif isinstance(node, RefNode):
        out["$ref"] = "#/$defs/" + pointer_segment(node.name)
    elif not isinstance(node, AnyNode):
        out["type"] = _SCALAR_TYPES[type(node)]
        if node.enum is not None:
            out["enum"] = list(node.enum)
        if node.const is not UNSET:
            out["const"] = node.const
    return out


def pointer_segment(name: str) -> str:
    """Escape a name for a JSON pointer in a URI fragment."""
    escaped = name.replace("~", "~0").replace("/", "~1")
    return "".join(
        char if char.isalnum() or char in "-._~" else "".join(f"%{byte:02X}" for byte in char.encode())
        for char in escaped
    )
