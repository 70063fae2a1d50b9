"""What to tell a model whose text is not in the file: what comes close, and in what it differs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

__all__ = ["why_not_found"]

_NUMBERED = re.compile(r"\s*\d+(?:: ?|\t|→|\| ?)")
_TYPOGRAPHY = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "\u00a0": " "})
_SHOWN_LINES = 12
_COMPARED_LINES = 2000
_COMPARED_CHARS = 200


def why_not_found(text: str, old: str) -> str:
    """Return what to do about an ``old`` that is not in a text; both have plain line ends."""
    lines = text.split("\n")
    wanted = old.split("\n")
    for attempt in (_without_numbers, _unescaped, _other_typography):
        advice = attempt(text, old)
        if advice is not None:
            return advice
    return _other_whitespace(lines, wanted) or _closest(lines, wanted)


def _without_numbers(text: str, old: str) -> str | None:
    lines = old.split("\n")
    if not all(_NUMBERED.match(line) for line in lines if line.strip()):
        return None
    bare = "\n".join(_NUMBERED.sub("", line, count=1) for line in lines)
    if bare.strip() and bare in text:
        return "It begins its lines with line numbers, which are not part of the file; leave them out."
    return None


def _unescaped(text: str, old: str) -> str | None:
    plain = old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    if plain != old and plain in text:
        return 'It has escapes (\\n, \\t or \\") where the file has the characters themselves; send those.'
    return None


def _other_typography(text: str, old: str) -> str | None:
    plain = text.translate(_TYPOGRAPHY)
    at = plain.find(old.translate(_TYPOGRAPHY))
    if at < 0:
        return None
    number = plain.count("\n", 0, at) + 1
    return f"Line {number} differs only in quotes, dashes or spaces of another kind. The file has:\n" + _excerpt(
        text[at : at + len(old)].split("\n")
    )


def _other_whitespace(lines: Sequence[str], wanted: Sequence[str]) -> str | None:
    """Look for the same lines with other spaces in or around them."""
    bare = [" ".join(line.split()) for line in wanted]
    while bare and not bare[-1]:
        bare.pop()
    if not any(bare):
        return "It is blank; name the text that you want to replace."
    squeezed = [" ".join(line.split()) for line in lines]
    found = [at for at in range(len(lines) - len(bare) + 1) if squeezed[at : at + len(bare)] == bare]
    if not found:
        return None
    at = found[0]
    same = lines[at : at + len(bare)]
    where = f"Line {at + 1}" if len(bare) == 1 else f"Lines {at + 1} to {at + len(bare)}"
    verb = "differs" if len(bare) == 1 else "differ"
    return f"{where} {verb} only in whitespace{_first_difference(same, wanted)}. The file has:\n{_excerpt(same)}"


def _first_difference(lines: Sequence[str], wanted: Sequence[str]) -> str:
    for line, given in zip(lines, wanted, strict=False):
        if line == given:
            continue
        indent, other = _indent(line), _indent(given)
        if indent != other:
            return f" (the file indents with {_spelled(indent)}, old_string with {_spelled(other)})"
        if line.rstrip() != line or given.rstrip() != given:
            return " (at the end of a line)"
        return " (inside a line)"
    return ""


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _spelled(indent: str) -> str:
    tabs, spaces = indent.count("\t"), indent.count(" ")
    parts = [
        f"{count} {name}{'' if count == 1 else 's'}" for count, name in ((tabs, "tab"), (spaces, "space")) if count
    ]
    return " and ".join(parts) or "nothing"


def _closest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    first = next((line.strip() for line in wanted if line.strip()), "")[:_COMPARED_CHARS]
    numbers: dict[str, int] = {}
    for number, line in enumerate(lines[:_COMPARED_LINES], 1):
        numbers.setdefault(line.strip()[:_COMPARED_CHARS], number)
    numbers.pop("", None)
    near = difflib.get_close_matches(first, numbers, n=1, cutoff=0.6)
    advice = "Read the file again and copy the text exactly."
    if not near:
        return advice
    number = numbers[near[0]]
    return f"{advice} The closest line is {number}:\n{_excerpt([lines[number - 1]])}"


def _excerpt(lines: Sequence[str]) -> str:
    shown = [line[: 2 * _COMPARED_CHARS] for line in lines[:_SHOWN_LINES]]
    return "\n".join([*shown, "…"] if len(lines) > _SHOWN_LINES else shown)
