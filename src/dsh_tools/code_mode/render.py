"""What a program left, as a model reads it (CODE-121 to 126)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..content import Content, text
from ..json_value import js_string, js_text

if TYPE_CHECKING:
    from ..code_runtime import CodeRunError

__all__ = ["NO_OUTPUT", "failure_message", "pretty_json", "render_run"]

NO_OUTPUT = "(run_code completed with no output)"

_INDENT = 2
# Containers from this depth on are written on one line, so that no line is indented by more than ten.
_COMPACT_DEPTH = 5


def render_run(_args: object, value: Any) -> Content:
    """Render the canonical value ``{logs, result?}``: what was printed, then what was returned (CODE-121 to 123)."""
    parts = ["\n".join(value["logs"])]
    if "result" in value:
        result = value["result"]
        parts.append(result if isinstance(result, str) else pretty_json(result))
    return text("\n".join(part for part in parts if part) or NO_OUTPUT)


def failure_message(error: CodeRunError, logs: Sequence[str]) -> str:
    """Return the message of a failed run, with what it had printed until then (CODE-126)."""
    message = f"code run failed ({error.kind}): {error.message}"
    return message + "\nCaptured output:\n" + "\n".join(logs) if logs else message


def pretty_json(root: Any) -> str:
    """Write a frozen JSON value over several lines, numbers in JavaScript's form (CODE-123 to 125).

    Five levels are spread out, two spaces each; what lies deeper is compact. So a value's depth
    costs neither stack nor space.
    """
    out: list[str] = []
    _write(root, 0, out)
    return "".join(out)


def _write(value: Any, depth: int, out: list[str]) -> None:
    """Write one value; calls itself for the levels that are spread out, and for no others."""
    is_record = isinstance(value, dict)
    if depth >= _COMPACT_DEPTH or not value or not (is_record or isinstance(value, list)):
        out.append(js_text(value))
        return
    entries: Iterable[tuple[str, Any]]
    if is_record:
        entries = ((js_string(key) + ": ", item) for key, item in cast("dict[str, Any]", value).items())
    else:
        entries = (("", item) for item in cast("list[Any]", value))
    between = "\n" + " " * (_INDENT * (depth + 1))
    out.append("{" if is_record else "[")
    for position, (lead, item) in enumerate(entries):
        out.append(("," if position else "") + between + lead)
        _write(item, depth + 1, out)
    out.append("\n" + " " * (_INDENT * depth) + ("}" if is_record else "]"))
