"""Regular expressions for lines: one dialect, the one of ripgrep, in both engines.

pydantic's core brings the same linear-time engine that ripgrep is built on, so a pattern means the same to
both, and none can freeze a search.
"""

from __future__ import annotations

from pydantic_core import SchemaError, SchemaValidator, core_schema

from .errors import InvalidPatternError

__all__ = ["LinePattern"]

_MAX_LENGTH = 65_536


class LinePattern:
    """A pattern that is looked for in each line; ``$`` also matches in front of ``\\r\\n``.

    Parameters:
        pattern: as the model wrote it.

    Raises:
        InvalidPatternError: it is not a regular expression of this dialect.
    """

    def __init__(self, pattern: str) -> None:
        if not pattern or len(pattern) > _MAX_LENGTH:
            raise InvalidPatternError(f"the pattern must have 1 to {_MAX_LENGTH} characters")
        if "\n" in pattern or "\0" in pattern:
            raise InvalidPatternError("the pattern must be one line: a search looks at each line by itself")
        self.text = _with_line_ends(pattern)
        try:
            schema = core_schema.str_schema(pattern="(?m)" + self.text, regex_engine="rust-regex")
            self._validator = SchemaValidator(schema)
        except SchemaError as error:
            raise InvalidPatternError(_explain(pattern, str(error))) from None
        # Anchors of the whole text would not see the lines inside it.
        self._looks_ahead = "\\A" not in pattern and "\\z" not in pattern

    def may_be_in(self, text: str) -> bool:
        """Whether any line of a text may match; no false negatives."""
        return not self._looks_ahead or self._validator.isinstance_python(text)

    def matches(self, line: str) -> bool:
        """Whether the pattern is in a line, given without its ``\\n``."""
        return self._validator.isinstance_python(line)


def _with_line_ends(pattern: str) -> str:
    """Make every ``$`` that is an anchor accept a carriage return in front of the line's end."""
    out: list[str] = []
    depth = 0
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            out.append(pattern[at : at + 2])
            at += 2
            continue
        if char == "[":
            depth += 1
            # A bracket that comes first in a class is an ordinary one.
            first = at + 2 if pattern[at + 1 : at + 2] == "^" else at + 1
            if pattern[first : first + 1] == "]":
                out.append(pattern[at : first + 1])
                at = first + 1
                continue
        elif char == "]" and depth:
            depth -= 1
        out.append(r"(?:\r??$)" if char == "$" and not depth else char)
        at += 1
    return "".join(out)


def _explain(pattern: str, error: str) -> str:
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    reason = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[-1])
    hint = "escape characters such as ( [ { . * + ? | \\ with a backslash to search for themselves"
    if "look-around" in reason or "backreference" in reason:
        hint = "search for a simpler pattern, and look at the lines it finds"
    return f"the pattern {pattern[:200]!r} is not a regular expression: {reason.rstrip('.')}; {hint}"
