"""Lossless JSON: frozen snapshots, text in and out, and JavaScript's way of writing scalars."""

from .frozen import CONTAINER_TYPES, FrozenDict, FrozenList, JsonScalar, JsonValue, members
from .numbers import integer_text, js_number, js_string, literal_text
from .parser import MAX_TEXT_DEPTH
from .snapshot import depth_of, exceeds_depth, is_lossless, join_path, snapshot, snapshot_depth, thaw
from .text import canonical_text, digest, js_text, parse_json, to_json_text

__all__ = [
    "CONTAINER_TYPES",
    "MAX_TEXT_DEPTH",
    "FrozenDict",
    "FrozenList",
    "JsonScalar",
    "JsonValue",
    "canonical_text",
    "depth_of",
    "digest",
    "exceeds_depth",
    "integer_text",
    "is_lossless",
    "join_path",
    "js_number",
    "js_string",
    "js_text",
    "literal_text",
    "members",
    "parse_json",
    "snapshot",
    "snapshot_depth",
    "thaw",
    "to_json_text",
]
