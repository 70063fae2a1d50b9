"""Reading and rebuilding schema documents: references, roots, and what two schemas can share.

The exporter refuses documents nested deeper than ``MAX_DEPTH`` before anything here runs, so these
functions may recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from .report import Inexpressible
from .wire_names import ANTHROPIC_KEYS, wire_names

__all__ = [
    "ANNOTATIONS",
    "MAX_DEPTH",
    "ROOT_UNIONS",
    "WRAPPER",
    "Document",
    "map_schemas",
    "merge_target",
    "named_references",
    "object_root",
    "only_part",
    "subschemas",
    "wrap_root",
]

Document: TypeAlias = Mapping[str, Any]

MAX_DEPTH: Final = 200
"""How many containers deep an exported document may be; providers stop far earlier."""
WRAPPER: Final = "input"
"""The one property that carries arguments whose schema may not stand at the root."""

ANNOTATIONS: Final = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)
ROOT_UNIONS: Final = ("oneOf", "anyOf", "allOf", "enum", "const", "not")
"""What providers refuse at the top of a tool's parameters."""

_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)


def subschemas(schema: Document) -> Iterator[Document]:
    """Yield a schema and every schema inside it; data in ``enum``, ``const`` and annotations is not one."""
    yield schema
    for child in _children(schema):
        yield from subschemas(child)


def _children(schema: Document) -> Iterator[Document]:
    for keyword in _BY_NAME:
        table = schema.get(keyword)
        if isinstance(table, dict):
            yield from (child for child in table.values() if isinstance(child, dict))  # pyright: ignore[reportUnknownVariableType]
    for keyword in _LISTS:
        branches = schema.get(keyword)
        if isinstance(branches, list):
            yield from (child for child in branches if isinstance(child, dict))  # pyright: ignore[reportUnknownVariableType]
    for keyword in _SINGLE:
        child = schema.get(keyword)
        if isinstance(child, dict):
            yield child


def map_schemas(schema: Document, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Rebuild a document with ``change`` applied to every schema in it, inner ones first."""

    def apply(child: Any) -> Any:
        return map_schemas(child, change) if isinstance(child, dict) else child  # pyright: ignore[reportUnknownArgumentType]

    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _BY_NAME and isinstance(value, dict):
            result[keyword] = {name: apply(child) for name, child in value.items()}  # pyright: ignore[reportUnknownVariableType]
        elif keyword in _LISTS and isinstance(value, list):
            result[keyword] = [apply(child) for child in value]  # pyright: ignore[reportUnknownVariableType]
        elif keyword in _SINGLE:
            result[keyword] = apply(value)
        else:
            result[keyword] = value
    return change(result)


# ── references ─────────────────────────────────────────────────────────────────


def named_references(root: Document) -> dict[str, Any]:
    """Rewrite a document so that every reference is ``#/$defs/<name>`` with a plain name.

    Definitions that nothing refers to are dropped.

    Raises:
        Inexpressible: a reference leaves the document, leads nowhere, or is a dynamic one.
    """
    targets: dict[str, Document] = {}
    for schema in subschemas(root):
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            raise Inexpressible("", "dynamic references are not supported")
        if "$id" in schema and schema is not root:
            raise Inexpressible("", "a schema inside the document has an $id of its own")
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref not in targets:
            targets[ref] = _resolve(root, ref)
    last = {ref: "root" if ref == "#" else unquote(ref.rsplit("/", 1)[-1]) for ref in targets}
    names = wire_names(last.values(), ANTHROPIC_KEYS, fallback="def")
    by_ref: dict[str, str] = {}
    used: set[str] = set()
    for ref in targets:
        name = base = names[last[ref]]
        number = 2
        while name in used:
            name, number = f"{base}_{number}", number + 1
        used.add(name)
        by_ref[ref] = name

    def rename(schema: dict[str, Any]) -> dict[str, Any]:
        ref = schema.get("$ref")
        return {**schema, "$ref": f"#/$defs/{by_ref[ref]}"} if isinstance(ref, str) else schema

    result = map_schemas(_without_definitions(root), rename)
    if targets:
        result["$defs"] = {
            by_ref[ref]: map_schemas(_without_definitions(target), rename) for ref, target in targets.items()
        }
    return result


def _without_definitions(schema: Document) -> dict[str, Any]:
    return {k: v for k, v in schema.items() if k not in ("$defs", "definitions", "$schema", "$id")}


def _resolve(root: Document, ref: str) -> Document:
    if not ref.startswith("#"):
        raise Inexpressible("", f"the reference {ref!r} leaves the document")
    target: Any = root
    for part in ref[1:].split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict) and key in target:
            target = target[key]  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(target, list) and key.isdigit() and int(key) < len(target):  # pyright: ignore[reportUnknownArgumentType]
            target = target[int(key)]  # pyright: ignore[reportUnknownVariableType]
        else:
            target = None
    if not isinstance(target, dict) or (len(ref) > 1 and not ref.startswith("#/")):
        raise Inexpressible("", f"the reference {ref!r} leads nowhere")
    return target  # pyright: ignore[reportUnknownVariableType]


# ── roots ──────────────────────────────────────────────────────────────────────


def object_root(document: Document) -> dict[str, Any]:
    """Return a document whose root says ``type: object`` itself; every tool's arguments are an object.

    A root that only refers to a definition is replaced by that definition.

    Raises:
        Inexpressible: the root admits no object.
    """
    root = dict(document)
    for _ in range(MAX_DEPTH):
        ref = root.get("$ref")
        target = _resolve(document, ref) if isinstance(ref, str) else only_part(root)
        if target is None:
            break
        merged = merge_target(root, target)
        if merged is None:
            break
        root = merged
    kind = root.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise Inexpressible("", f"the root must be an object, not {kind}")
    return {**root, "type": "object"}


def only_part(schema: Document) -> Document | None:
    """Return what a single ``allOf`` stands for, None where there is no such part."""
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], dict):  # pyright: ignore[reportUnknownArgumentType]
        return parts[0]  # pyright: ignore[reportUnknownVariableType]
    return None


def merge_target(schema: Document, target: Document) -> dict[str, Any] | None:
    """Replace ``$ref`` or a single ``allOf`` by what it stands for; None where keywords would collide.

    Annotations beside the reference win over the target's own.
    """
    own = {k: v for k, v in schema.items() if k not in ("$ref", "allOf")}
    if any(k in own and k not in ANNOTATIONS and own[k] != v for k, v in target.items()):
        return None
    constraints = own.keys() - ANNOTATIONS - {"$defs", "definitions", "$schema", "$id", "type"}
    if constraints and target.keys() - ANNOTATIONS:
        return None
    return {**target, **own}


def wrap_root(document: Document) -> dict[str, Any]:
    """Move the whole schema under one property; ``restore`` takes it out again.

    Parameters:
        document: a schema whose references are named (see :func:`named_references`).
    """
    inner = {k: v for k, v in document.items() if k not in ("$defs", "$schema")}
    result: dict[str, Any] = {
        "type": "object",
        "properties": {WRAPPER: inner},
        "required": [WRAPPER],
        "additionalProperties": False,
    }
    if "$defs" in document:
        result["$defs"] = document["$defs"]
    return result
