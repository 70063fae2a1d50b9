"""Raw JSON Schema: the whole of draft 2020-12, judged by ``jsonschema-rs`` (D8, D31, D32)."""

from __future__ import annotations

from itertools import islice
from typing import Any, cast

import jsonschema_rs

from ..errors import JsonSchemaError, LossyJsonError
from ..json_value import depth_of, exceeds_depth, is_lossless, join_path, members, snapshot, thaw
from . import issues
from .compiled import Schema
from .native import NATIVE_FAULTS, REGEX, refuse_retrieval
from .raw_depth import reach_of
from .raw_issues import reworded
from .raw_nodes import lower_document
from .validate import Validator

__all__ = ["RawSchema", "compile_raw"]

_MAX_DOCUMENT_DEPTH = 200
_MAX_EXPLANATIONS = 20_000
_MAX_POWER = 64


class RawSchema:
    """Marks a JSON Schema document that is meant as such: any keyword of draft 2020-12 may be used (D31).

    Args:
        document: the document; ``$schema`` may name an older draft, ``definitions`` works like ``$defs``.
            References must stay inside it.
    """

    __slots__ = ("document",)

    def __init__(self, document: Any) -> None:
        self.document: Any = document

    def __repr__(self) -> str:
        return "<RawSchema>"


def compile_raw(document: object) -> Schema:
    """Compile a raw JSON Schema document from a snapshot of it (D32).

    Nothing is ever fetched, and patterns run on a linear-time engine.

    Raises:
        JsonSchemaError: the document is not lossless JSON, not valid as a schema, refers to something
            outside itself, nests too deep, or uses a pattern with look-around or back-references.
    """
    if isinstance(document, RawSchema):
        document = document.document
    try:
        frozen = snapshot(document)
    except LossyJsonError as error:
        raise JsonSchemaError([f"{join_path('schema', error.path)}: {error.reason}"]) from error
    if exceeds_depth(frozen, _MAX_DOCUMENT_DEPTH):
        depth = depth_of(frozen)
        raise JsonSchemaError([f"schema is nested {depth} levels deep; at most {_MAX_DOCUMENT_DEPTH} are supported"])
    return _RawCompiled(frozen, _validator(frozen))


def _validator(frozen: Any) -> Any:
    # The library takes plain containers only where it reads schemas.
    plain = thaw(frozen)
    try:
        return jsonschema_rs.validator_for(
            plain, retriever=refuse_retrieval, pattern_options=REGEX, validate_formats=False
        )
    except jsonschema_rs.ValidationError as error:
        path = "schema"
        for segment in error.instance_path:
            path = join_path(path, segment)
        raise JsonSchemaError([f"{path} {_meaning(error)}"]) from error
    except (*NATIVE_FAULTS, jsonschema_rs.ReferencingError) as error:
        raise JsonSchemaError([f"schema cannot be compiled: {error}"]) from error


def _meaning(error: jsonschema_rs.ValidationError) -> str:
    """Say in one line what makes a document invalid as a schema."""
    message = error.message
    if error.kind.name == "format":
        return f"is not a supported regular expression (no look-around, no back-references): {message}"
    if error.kind.name == "$ref" and "remote references are refused" in message:
        return f"refers outside the document; remote references are refused: {message.partition(' ')[2][:200]}"
    return f"is invalid: {message[:300]}"


class _RawCompiled(Schema):
    """A schema whose verdicts come from the document itself; its nodes are for readers only."""

    __slots__ = ("_fan", "_limit", "_validator")

    def __init__(self, frozen: Any, validator: Any) -> None:
        self._limit, self._fan = reach_of(frozen)
        node, definitions = lower_document(frozen)
        self.json = frozen
        self.node = node
        self.source = "raw"
        self.definitions = definitions
        self._own = Validator(node, definitions)
        self._validator = validator

    def host_violations(self, value: object, path: str) -> list[str]:
        return self.violations(value, path) if is_lossless(value) else [issues.lossy_value(path)]

    def accepts(self, value: Any, depth: int | None = None) -> bool:
        if self._limit is not None and self._beyond(value, depth):
            return False
        try:
            return self._validator.is_valid(value)
        except UnicodeEncodeError:
            return self._validator.is_valid(_encodable(value))

    def violations(
        self, value: Any, path: str = "value", depth: int | None = None, *, most: int | None = None
    ) -> list[str]:
        if self._limit is not None:
            if self._beyond(value, depth):
                return [
                    f"{issues.quoted_path(path)} is nested {depth_of(value)} levels deep; "
                    f"at most {self._limit} can be checked against this recursive schema"
                ]
            if self.accepts(value, depth):
                return []
            # The library explains unions branch by branch, which is exponential where they nest by recursion.
            # Nodes say most of what the document says, and are walked once.
            found = self._own.violations(value, path, lossless=True, most=most)
            if found or self._fan ** min(depth_of(value), _MAX_POWER) > _MAX_EXPLANATIONS:
                return found or [f"{issues.quoted_path(path)} does not match its schema"]
        try:
            return reworded(islice(self._validator.iter_errors(value), most), path)[:most]
        except UnicodeEncodeError:
            return reworded(islice(self._validator.iter_errors(_encodable(value)), most), path)[:most]
        except ValueError:
            # Errors quote the value they are about, and the library cannot quote very deep ones.
            if self.accepts(value, depth):
                return []
            found = reworded(islice(self._validator.iter_errors(_pruned(value)), most), path)[:most]
            return found or [f"{issues.quoted_path(path)} does not match its schema"]

    def check(self, value: Any, path: str = "value", depth: int | None = None) -> list[str]:
        return [] if self.accepts(value, depth) else self.violations(value, path, depth)

    def _beyond(self, value: Any, depth: int | None) -> bool:
        if self._limit is None:
            return False
        return exceeds_depth(value, self._limit) if depth is None else depth > self._limit


def _pruned(value: Any) -> Any:
    """Copy a value with empty containers where it nests deeper than errors can quote."""
    root = thaw([value])
    level: list[Any] = [root]
    for _ in range(_MAX_DOCUMENT_DEPTH):
        level = [item for held in level for item in members(held) if isinstance(item, (dict, list))]
    for container in level:
        container.clear()
    return root[0]


def _encodable(value: Any) -> Any:
    """Copy a value with a replacement character for each lone surrogate, which native text cannot hold."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    root: Any = thaw([value])
    pending: list[Any] = [root]
    while pending:
        current = pending.pop()
        for key, child in _drain(current):
            current[_encodable(key) if isinstance(key, str) else key] = (
                _encodable(child) if isinstance(child, str) else child
            )
            if isinstance(child, (dict, list)):
                pending.append(child)
    return root[0]


def _drain(container: Any) -> list[tuple[Any, Any]]:
    """Return the entries of a container; a record is emptied, since its keys may change."""
    if not isinstance(container, dict):
        return list(enumerate(cast("list[Any]", container)))
    record = cast("dict[str, Any]", container)
    entries = list(record.items())
    record.clear()
    return entries
