"""The wording of violations, and the paths in them (SCHEMA sections C and D).

Every text here is contract: models and tests match on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..json_value import literal_text
from .paths import ValuePath, value_path

__all__ = [
    "TYPE_PHRASES",
    "anyof_mismatch",
    "lossy_array",
    "lossy_object",
    "lossy_value",
    "missing",
    "must",
    "must_be",
    "not_const",
    "not_enum",
    "not_finite",
    "oneof_mismatch",
    "quoted_path",
    "undeclared",
]

TYPE_PHRASES = {
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "a boolean",
    "null": "null",
    "array": "an array",
    "object": "an object",
}
"""How a JSON type is named in a sentence (SCHEMA-D5, D9, D11)."""


def quoted_path(path: ValuePath) -> str:
    """Quote a path; the empty one is called ``arguments``, wherever it arises (SCHEMA-D3)."""
    return f'"{value_path(path) or "arguments"}"'


def must_be(path: ValuePath, what: str) -> str:
    """Say what the value at a path has to be."""
    return f'"{value_path(path) or "arguments"}" must be {what}'


def must(path: ValuePath, problem: str) -> str:
    """Say what the value at a path has to be or have (``be at least 3``)."""
    return f"{quoted_path(path)} must {problem}"


def not_finite(path: ValuePath) -> str:
    """A number that JSON cannot carry (SCHEMA-D5)."""
    return must_be(path, "a finite JSON number")


def lossy_value(path: ValuePath) -> str:
    """Something that is not lossless JSON (SCHEMA-D8)."""
    return must_be(path, "a lossless JSON value")


def lossy_object(path: ValuePath) -> str:
    """A record with something lossy in it (SCHEMA-D9)."""
    return must_be(path, "a lossless JSON object")


def lossy_array(path: ValuePath) -> str:
    """A list with something lossy in it (SCHEMA-D11)."""
    return must_be(path, "a dense lossless JSON array")


def missing(path: ValuePath) -> str:
    """A required property that is absent. The path of a key stays as it is, even when empty (SCHEMA-D9)."""
    return f'missing required property "{value_path(path)}"'


def undeclared(path: ValuePath, keyword: str = "additionalProperties") -> str:
    """A property that a closed record does not declare (SCHEMA-D9)."""
    return f'"{value_path(path)}" is not a declared property ({keyword}: false)'


def not_enum(path: ValuePath, options: Sequence[Any]) -> str:
    """A scalar outside its list (SCHEMA-D6, D7)."""
    return must_be(path, f"one of [{','.join(literal_text(option) for option in options)}]")


def not_const(path: ValuePath, const: Any) -> str:
    """A scalar that is not the only one allowed (SCHEMA-D6, D7)."""
    return must_be(path, literal_text(const))


def oneof_mismatch(path: ValuePath, matched: int) -> str:
    """A value that matches no branch, or several, where exactly one must match (SCHEMA-D12)."""
    return f"{quoted_path(path)} must match exactly one oneOf branch (matched {matched})"


def anyof_mismatch(path: ValuePath) -> str:
    """A value that matches no branch of an ``anyOf`` (D31)."""
    return f"{quoted_path(path)} must match at least one anyOf branch (matched 0)"
