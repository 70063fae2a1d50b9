"""From a translated type to a compiled schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import DefinitionError, HarnessError
from ...json_value import snapshot
from ..compiled import Schema
from ..native import CONSTRAINT_KEYWORDS
from ..raw import compile_raw
from ..raw_nodes import lower_document
from .codec import Shape
from .documents import endless, map_children, settle
from .guards import is_dict
from .metadata import NOTHING
from .records import Record, record_shape
from .refusals import refuse
from .translator import Translator
from .typed_schema import DocumentTypedSchema, TypedSchema

__all__ = ["from_types", "typed_record", "typed_schema"]

_NODE_KEYWORDS = CONSTRAINT_KEYWORDS | {
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "default", "deprecated", "description", "enum",
    "examples", "format", "items", "oneOf", "properties", "required", "title", "type",
}  # fmt: skip
_UNION_COMPANIONS = frozenset({"anyOf", "oneOf", "description", "title", "default", "examples", "deprecated", "$defs"})


def from_types(
    tp: Any, *, name: str = "value", output: bool = False, names: Mapping[str, Any] | None = None
) -> TypedSchema:
    """Compile the schema of a Python type (D31).

    Parameters:
        tp: builtins, Literal, Enum, list, dict[str, T], tuple[T, ...], unions, Annotated, NewType, type
            aliases, TypedDict, dataclass, ``msgspec.Struct``, pydantic models, Any.
        name: what error messages call the type's owner.
        output: whether it describes what a body returns: fields with defaults are then always there.
        names: local names that string annotations may use.

    Raises:
        DefinitionError: the type, or a part of it, has no JSON form; the message says which part and
            what to write instead.
    """
    translator = Translator(output=output, names=names)
    return typed_schema(translator.shape(tp, name), translator, name)


def typed_record(record: Record, translator: Translator, where: str) -> TypedSchema:
    """Compile the schema of fields read from somewhere else, such as a function's parameters."""
    return typed_schema(record_shape(record), translator, where)


def typed_schema(shape: Shape, translator: Translator, where: str) -> TypedSchema:
    """Compile what a translator made: definitions settled, unions told apart, defaults checked."""
    definitions = translator.definitions
    name = endless(definitions)
    if name is not None:
        raise refuse(where, f"{name} refers to itself and to nothing else", "put a list or a dict in between")

    def compiled(document: Any) -> Schema:
        return _compile(settle(document, definitions), where)

    _check_defaults(translator, compiled)
    for plan in translator.unions:
        plan.finish(definitions, lambda document: compiled(document).accepts)
    document = settle(shape.document, definitions)
    judge = _compile(document, where)
    facts: dict[str, Any] = {
        "defaults": {} if translator.output else _fillable(document, compiled),
        "may_refuse": translator.may_refuse,
    }
    if type(judge) is not Schema:
        return DocumentTypedSchema(judge, shape.codec, **facts)
    return TypedSchema(judge.json, judge.node, shape.codec, definitions=judge.definitions, **facts)


def _compile(document: dict[str, Any], where: str) -> Schema:
    """Compile a document by nodes, where nodes can say all of it, or as it stands."""
    try:
        frozen: Any = snapshot(document)
        if not _says_node_things(document):
            return compile_raw(frozen)
        node, definitions = lower_document(frozen)
        return Schema(frozen, node, "types", definitions=definitions)
    except DefinitionError:
        raise
    except HarnessError as error:
        raise refuse(where, error.message, "see the schema of the type") from error


def _says_node_things(document: Any) -> bool:
    """Whether nodes can say everything that a document does."""
    if document is True:
        return True
    if not is_dict(document) or not document.keys() <= _NODE_KEYWORDS:
        return False
    if "$ref" in document or "anyOf" in document or "oneOf" in document:
        if "type" in document or ("$ref" not in document and not document.keys() <= _UNION_COMPANIONS):
            return False
    elif "const" in document or "enum" in document:
        if not isinstance(document.get("type"), str):
            return False
    elif not isinstance(document.get("type", "object"), str):
        return False
    if is_dict(document.get("additionalProperties")) and "properties" in document:
        return False
    found: list[bool] = []

    def visit(child: Any) -> Any:
        found.append(_says_node_things(child))
        return child

    map_children(document, visit)
    return all(found)


def _check_defaults(translator: Translator, compiled: Any) -> None:
    for item, owner in translator.defaults:
        if item.default is NOTHING:
            continue
        problems = compiled(item.shape.document).violations(item.default, item.key)
        if problems:
            advice = "write T | None" if item.default is None else "change the one or the other"
            raise refuse(owner, f"the default {item.default!r} does not fit its type ({problems[0]})", advice)


def _fillable(document: Any, compiled: Any) -> dict[str, Any]:
    """Return the defaults of a record's own properties, as they may be filled in before policy looks (D43)."""
    properties = document.get("properties")
    if document.get("type") != "object" or not is_dict(properties):
        return {}
    return {
        key: child["default"]
        for key, child in properties.items()
        if is_dict(child) and "default" in child and _default_fits(child, compiled)
    }


def _default_fits(child: Any, compiled: Any) -> bool:
    """Whether a default fits; pydantic does not hold its defaults against their own constraints."""
    return compiled(child).accepts(snapshot(child["default"]))
