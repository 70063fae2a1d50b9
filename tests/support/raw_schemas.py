"""Random JSON Schema documents of draft 2020-12, and values near them, for Hypothesis."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from hypothesis import strategies as st

KEYS = ["a", "b", "c", "kind", "a-b", "$filter", "日本", "1st", "from", "x.y", "k" * 70]
DEFINITIONS = ["Node", "Leaf", "Odd name~/"]
POINTERS = {"Node": "#/$defs/Node", "Leaf": "#/$defs/Leaf", "Odd name~/": "#/$defs/Odd%20name~0~1"}
PATTERNS = {"^a+$": "aa", "^[0-9]{2}$": "42"}

keys = st.sampled_from(KEYS)
scalars = st.one_of(
    st.sampled_from(["", "a", "aa", "42", "b", "long enough text"]),
    st.integers(-3, 12),
    st.sampled_from([0.5, 1.0, 2.5, -1.5]),
    st.booleans(),
    st.none(),
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


def _mixed(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the given keywords."""
    return st.fixed_dictionaries({}, optional=optional)


annotations = _mixed(
    description=st.sampled_from(["words", "a | b", ""]),
    title=st.just("T"),
    default=scalars,
    examples=st.lists(scalars, max_size=2),
    format=st.sampled_from(["date-time", "uri", "uuid"]),
    deprecated=st.booleans(),
    **{"x-note": scalars},
)
strings = _mixed(minLength=st.integers(0, 3), maxLength=st.integers(2, 6), pattern=st.sampled_from(sorted(PATTERNS)))
numerics = _mixed(
    minimum=st.integers(-2, 3),
    maximum=st.integers(3, 9),
    exclusiveMinimum=st.sampled_from([-1, 0, 1.5]),
    exclusiveMaximum=st.sampled_from([5, 6.5]),
    multipleOf=st.sampled_from([1, 2, 0.5]),
)


def _typed(kind: str, narrowing: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(narrowing, annotations).map(lambda parts: {"type": kind, **parts[0], **parts[1]})


_plain = st.just({})
# What every provider can say, one way or another.
tame_leaves: st.SearchStrategy[Any] = st.one_of(
    _typed("string", _plain),
    _typed("string", _mixed(pattern=st.sampled_from(sorted(PATTERNS)))),
    _typed("integer", _plain),
    _typed("integer", numerics),
    _typed("number", _mixed(minimum=st.integers(-2, 3))),
    _typed("boolean", _plain),
    _typed("null", _plain),
    st.lists(st.sampled_from(["a", "b", 1, 2.5, None]), min_size=1, max_size=4).map(lambda values: {"enum": values}),
    st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3).map(lambda v: {"type": "string", "enum": v}),
    st.lists(
        st.sampled_from(["string", "integer", "number", "null", "boolean"]), min_size=1, max_size=3, unique=True
    ).map(lambda kinds: {"type": kinds}),
    st.sampled_from(DEFINITIONS).map(lambda name: {"$ref": POINTERS[name]}),
)
leaves: st.SearchStrategy[Any] = st.one_of(
    tame_leaves,
    _typed("string", strings),
    _typed("number", numerics),
    st.lists(scalars, min_size=1, max_size=4).map(lambda values: {"enum": values}),
    json_values.map(lambda value: {"const": value}),
    st.sampled_from([["object", "null"], ["array", "string"]]).map(lambda kinds: {"type": kinds}),
    st.sampled_from([{}, True, {"type": "object"}, {"type": "array"}, {"type": "string", "description": "d"}]),
)


@st.composite
def _tame_objects(draw: st.DrawFn, children: st.SearchStrategy[Any]) -> dict[str, Any]:
    properties = draw(st.dictionaries(keys, children, min_size=1, max_size=4))
    required = draw(st.lists(st.sampled_from(sorted(properties)), max_size=3, unique=True))
    document = {"type": "object", "properties": properties, "required": required, **draw(annotations)}
    return document if draw(st.booleans()) else {**document, "additionalProperties": False}


@st.composite
def _objects(draw: st.DrawFn, children: st.SearchStrategy[Any]) -> dict[str, Any]:
    document = draw(_tame_objects(children))
    if draw(st.integers(0, 3)) == 0:
        del document["required"], document["properties"]
    if draw(st.booleans()):
        document["additionalProperties"] = draw(st.sampled_from([True, False, {"type": "string"}]))
    if draw(st.integers(0, 9)) == 0:
        document["minProperties"] = draw(st.integers(0, 2))
    return document


def _tagged(branches: list[dict[str, Any]]) -> dict[str, Any]:
    """Alternatives told apart by a constant, the way most unions of records are written."""
    made: list[dict[str, Any]] = []
    for number, branch in enumerate(branches):
        properties = {**branch["properties"], "kind": {"const": f"k{number}"}}
        made.append({**branch, "properties": properties, "required": sorted({"kind", *branch["required"]})})
    return {"oneOf": made}


def _tame_composites(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branches = st.lists(children, min_size=1, max_size=3)
    bounds = _mixed(minItems=st.integers(0, 1), maxItems=st.integers(1, 4))
    return st.one_of(
        _tame_objects(children),
        st.tuples(children, bounds).map(lambda parts: {"type": "array", "items": parts[0], **parts[1]}),
        branches.map(lambda parts: {"anyOf": parts}),
        st.lists(_tame_objects(children), min_size=2, max_size=3).map(_tagged),
        children.map(lambda part: {"allOf": [part], "description": "outer"}),
    )


def _composites(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        _tame_composites(children),
        _objects(children),
        children.map(lambda values: {"type": "object", "additionalProperties": values}),
        st.lists(children, min_size=1, max_size=3).map(lambda parts: {"oneOf": parts}),
        children.map(lambda part: {"type": "array", "items": part, "uniqueItems": True}),
        children.map(lambda part: {"type": "string", "not": part}),
    )


tame_schemas: st.SearchStrategy[Any] = st.recursive(tame_leaves, _tame_composites, max_leaves=8)
schemas: st.SearchStrategy[Any] = st.recursive(leaves, _composites, max_leaves=8)


@st.composite
def parameters(draw: st.DrawFn) -> dict[str, Any]:
    """A document for a tool's parameters: an object at its root, with definitions that may recurse."""
    if draw(st.integers(0, 2)):
        root = draw(_tame_objects(tame_schemas))
        definitions = {name: draw(_tame_objects(tame_leaves)) for name in DEFINITIONS}
    else:
        root = draw(_objects(schemas))
        definitions = {name: draw(_objects(schemas)) for name in DEFINITIONS}
        if draw(st.integers(0, 2)) == 0:
            root["anyOf"] = [{"required": [key]} for key in ("a", "b")]
    if draw(st.integers(0, 6)) == 0:
        root = {"$ref": POINTERS["Node"]}
    return {**root, "$defs": definitions}


# ── values ─────────────────────────────────────────────────────────────────────


def near(draw: st.DrawFn, schema: Any, definitions: dict[str, Any], depth: int = 0) -> Any:
    """Draw a value that a schema probably accepts; now and then, one that it probably does not."""
    if not isinstance(schema, dict) or depth > 8 or draw(st.integers(0, 19)) == 0:
        return draw(json_values)
    if "$ref" in schema:
        name = unquote(schema["$ref"].rpartition("$defs/")[2]).replace("~1", "/").replace("~0", "~")
        return near(draw, definitions[name], definitions, depth + 1)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema and "properties" not in schema:
            return near(draw, draw(st.sampled_from(schema[keyword])), definitions, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema.get("type", "object")
    kind = draw(st.sampled_from(kind)) if isinstance(kind, list) else kind
    if kind == "object":
        return _near_object(draw, schema, definitions, depth)
    if kind == "array":
        size = draw(st.integers(schema.get("minItems", 0), min(schema.get("maxItems", 2), 3)))
        return [near(draw, schema.get("items", True), definitions, depth + 1) for _ in range(size)]
    if kind == "string":
        return PATTERNS.get(schema.get("pattern", ""), draw(st.sampled_from(["", "a", "aaa", "words"])))
    if kind in ("integer", "number"):
        low = schema.get("minimum", -2)
        return low if isinstance(low, float) else draw(st.integers(low, max(int(schema.get("maximum", 9)), low)))
    return None if kind == "null" else draw(st.booleans())


def _near_object(draw: st.DrawFn, schema: dict[str, Any], definitions: dict[str, Any], depth: int) -> dict[str, Any]:
    required = set(schema.get("required", ()))
    value: dict[str, Any] = {}
    for key, child in schema.get("properties", {}).items():
        if key in required or (depth < 4 and draw(st.booleans())):
            value[key] = near(draw, child, definitions, depth + 1)
    if schema.get("additionalProperties", True) is not False and draw(st.integers(0, 5)) == 0:
        value[draw(keys)] = near(draw, schema.get("additionalProperties", True), definitions, depth + 1)
    return value
