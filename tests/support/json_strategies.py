"""Hypothesis strategies for JSON values, schema specs, and values that are close to fitting a schema."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dsh_tools.schema.nodes import (
    AnyNode,
    ArrayNode,
    BooleanNode,
    IntegerNode,
    MapNode,
    Node,
    NullNode,
    NumberNode,
    ObjectNode,
    StringNode,
    UnionNode,
    is_set,
)

# Texts with everything that trips readers and writers: surrogates, NUL, escapes, astral characters.
texts = st.one_of(
    st.sampled_from(["", "a", "b", "__proto__", "é", "🙂", "\ud800", "\udfff", "\u2028", "\x00", '"', "\\", "10", "2"]),
    st.text(st.characters(codec=None, exclude_categories=()), max_size=6),
)
safe_keys = st.sampled_from(["a", "b", "c", "type", "required", "", "é", "constructor"])
integers = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**53, 2**53 + 1, 10**21, -(10**30), 10**400]),
)
floats = st.one_of(
    st.sampled_from([1.0, 0.5, -1.0, 1e21, 1e-7, 2.0**53, 1e300, 3.0]),
    st.floats(allow_nan=False, allow_infinity=False),
).map(lambda number: number if number else 0.0)
scalars = st.one_of(st.none(), st.booleans(), integers, floats, texts)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(safe_keys, texts), inner, max_size=4)
    ),
    max_leaves=12,
)

_NUMBERS = st.one_of(integers, floats)
_OF_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "string": texts,
    "number": _NUMBERS,
    "integer": st.one_of(integers, st.sampled_from([1.0, 2.0, 1e21])),
    "boolean": st.booleans(),
    "null": st.none(),
}


@st.composite
def scalar_specs(draw: st.DrawFn) -> dict[str, Any]:
    """A scalar node of the DSL, with or without ``enum`` and ``const``."""
    kind = draw(st.sampled_from(sorted(_OF_TYPE)))
    spec: dict[str, Any] = {"type": kind}
    if draw(st.booleans()):
        spec["enum"] = draw(st.lists(_OF_TYPE[kind], min_size=1, max_size=3))
        if draw(st.booleans()):
            spec["const"] = draw(st.sampled_from(spec["enum"]))
    elif draw(st.booleans()):
        spec["const"] = draw(_OF_TYPE[kind])
    if draw(st.booleans()):
        spec["description"] = draw(texts)
    return spec


@st.composite
def object_specs(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    """An object node of the DSL."""
    spec: dict[str, Any] = {"type": "object", "additionalProperties": draw(st.booleans())}
    if draw(st.integers(0, 5)):
        spec["properties"] = draw(property_maps(inner))
    return spec


def property_maps(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A property map of the DSL."""
    entry = st.tuples(inner, st.booleans()).map(lambda pair: {**pair[0], "required": True} if pair[1] else pair[0])
    return st.dictionaries(st.one_of(safe_keys, texts), entry, max_size=4)


specs = st.recursive(
    st.one_of(st.just({"type": "json"}), st.just({"type": "array"}), scalar_specs()),
    lambda inner: st.one_of(
        object_specs(inner),
        inner.map(lambda item: {"type": "array", "items": item}),
        st.lists(inner, min_size=2, max_size=3).map(lambda branches: {"oneOf": branches}),
    ),
    max_leaves=8,
)
parameter_specs = property_maps(specs)


@st.composite
def near(draw: st.DrawFn, node: Node) -> Any:
    """A value that mostly fits a node, with a stranger here and there."""
    if draw(st.integers(0, 11)) == 0:
        return draw(json_values)
    if isinstance(node, (StringNode, NumberNode, IntegerNode, BooleanNode, NullNode)):
        listed = [node.const] if is_set(node.const) else list(node.enum or ())
        kind = type(node).__name__.removesuffix("Node").lower()
        return draw(st.sampled_from(listed)) if listed and draw(st.integers(0, 3)) else draw(_OF_TYPE[kind])
    if isinstance(node, ArrayNode):
        return draw(st.lists(json_values if node.items is None else near(node.items), max_size=3))
    if isinstance(node, MapNode):
        return draw(st.dictionaries(texts, near(node.values), max_size=3))
    if isinstance(node, ObjectNode):
        record = {key: draw(near(child)) for key, child in node.properties.items() if draw(st.integers(0, 9))}
        if draw(st.integers(0, 4)) == 0:
            record[draw(texts)] = draw(scalars)
        return record
    if isinstance(node, UnionNode):
        return draw(near(draw(st.sampled_from(node.branches))))
    assert isinstance(node, AnyNode)
    return draw(json_values)
