"""Turning a program into what the interpreter is fed (CODE-157, 188).

The program becomes the body of an async function, so that ``return`` and ``await`` work at its top
level and falling off its end returns nothing. Line numbers stay one apart.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Sequence

from ..seam import BindingNamespace
from .prelude import ERROR_TYPES, MAIN, MEMBER, NAME, SHOWN
from .scanner import Token, scan

__all__ = ["LINE_OFFSET", "error_types", "member_names", "prepare", "program_lines"]

LINE_OFFSET = 1
"""How many lines the wrapper puts before the program."""

_LINE_END = re.compile(r"\r\n?|\n")
_ASSIGNING = frozenset("+-*/%&|^@")


def member_names(bindings: Sequence[BindingNamespace]) -> list[str]:
    """The member properties of the error classes that a program can spell after a dot."""
    names = [binding.error_class.member_name_property for binding in bindings if binding.error_class is not None]
    return sorted({name for name in names if name.isidentifier()})


def program_lines(program: str) -> list[str]:
    """The lines of a program, by the line ends that Python knows."""
    return _LINE_END.split(program)


def prepare(program: str, bindings: Sequence[BindingNamespace]) -> str:
    """Wrap a program and append what binds its globals and runs it."""
    text = "\n".join(program_lines(program))
    found = scan(text)
    edits: list[tuple[int, int, str]] = []
    members = {name: MEMBER.format(number) for number, name in enumerate(member_names(bindings))}
    functions = members
    if any(binding.error_class is not None for binding in bindings):
        # Of itself an error class has the name of what stands for it.
        functions = {"__name__": NAME, **members}
        if "!r" in text:
            for sequence in found.sequences:
                edits.extend(_repr_edits(sequence))
    for name, function in functions.items():
        if name in text:
            for sequence in found.sequences:
                edits.extend(_member_edits(sequence, name, function))
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    edits.extend((start, start, " ") for start in starts if start not in found.string_lines)
    return f"async def {MAIN}():\n{_apply(text, edits)}\n pass\n{_bindings(bindings)}"


def _bindings(bindings: Sequence[BindingNamespace]) -> str:
    """The lines after the program: one for each global, then the call."""
    lines = [
        f"{binding.global_name} = __dsh_bind({json.dumps(binding.global_name)}, __dsh_names[{number}])"
        for number, binding in enumerate(bindings)
    ]
    classes = [binding.error_class for binding in bindings if binding.error_class is not None]
    lines += [f"{spec.name} = __dsh_error_types[{number % len(ERROR_TYPES)}]" for number, spec in enumerate(classes)]
    lines += [
        f"__dsh_error_names[__dsh_str(__dsh_error_types[{number}])] = {json.dumps(spec.name)}"
        for number, spec in enumerate(classes[: len(ERROR_TYPES)])
    ]
    for number, name in enumerate(member_names(bindings)):
        lines += [f"def {MEMBER.format(number)}(error):", f" return __dsh_member(error, {json.dumps(name)})"]
    lines.append(f"__dsh_finish(await {MAIN}())")
    return "\n".join(lines)


def error_types(bindings: Sequence[BindingNamespace]) -> dict[str, str]:
    """The interpreter's exception for the failures of each namespace that has an error class."""
    names = [binding.global_name for binding in bindings if binding.error_class is not None]
    return {name: ERROR_TYPES[number % len(ERROR_TYPES)] for number, name in enumerate(names)}


def _apply(text: str, edits: list[tuple[int, int, str]]) -> str:
    """Apply replacements that don't overlap; insertions at one place keep their order."""
    parts: list[str] = []
    at = 0
    # Indentation goes before what is inserted at a line's first character.
    for start, end, new in sorted(edits, key=lambda edit: (edit[0], edit[2] != " ")):
        parts += [text[at:start], new]
        at = end
    parts.append(text[at:])
    return "".join(parts)


def _member_edits(tokens: list[Token], name: str, function: str) -> list[tuple[int, int, str]]:
    """Turn each ``primary.name`` that is read into ``function(primary)``."""
    edits: list[tuple[int, int, str]] = []
    for index in range(1, len(tokens) - 1):
        dot, member = tokens[index], tokens[index + 1]
        if dot.text != "." or member.kind != "name" or member.text != name or _is_assigned(tokens, index + 2):
            continue
        start = _primary_start(tokens, index - 1)
        if start is not None:
            edits += [(start, start, f"{function}("), (dot.start, member.end, ")")]
    return edits


def _repr_edits(tokens: list[Token]) -> list[tuple[int, int, str]]:
    """Turn the field ``{expression!r}`` of an f-string into ``{function((expression))!s}``."""
    if len(tokens) < 3 or [token.text for token in tokens[-2:]] != ["!", "r"] or tokens[-3].text == "=":
        return []
    start, end = tokens[0].start, tokens[-2].start
    return [(start, start, f"{SHOWN}(("), (end, tokens[-1].end, "))!s")]


def _is_assigned(tokens: list[Token], index: int) -> bool:
    following = "".join(token.text for token in tokens[index : index + 2] if token.kind == "op")
    return (following[:1] == "=" and following != "==") or (following[:1] in _ASSIGNING and following[1:] == "=")


_KEYWORDS = frozenset(keyword.kwlist) - {"False", "None", "True"}
_OPENERS = {")": "(", "]": "[", "}": "{"}


def _primary_start(tokens: list[Token], index: int) -> int | None:
    """Find where the expression before a dot begins: names, calls, subscripts, literals and brackets."""
    while index >= 0:
        token = tokens[index]
        if token.text in _OPENERS and token.kind == "op":
            opener = _matching(tokens, index)
            if opener is None:
                return None
            before = tokens[opener - 1] if opener > 0 else None
            # Brackets right behind an expression are its call or subscript; otherwise they stand alone.
            if token.text != "}" and before is not None and _ends_expression(before):
                index = opener - 1
                continue
            start = opener
        elif token.kind == "op" or (token.kind == "name" and token.text in _KEYWORDS):
            return None
        else:
            start = index
        if start > 0 and tokens[start - 1].text == ".":
            index = start - 2
            continue
        return tokens[start].start
    return None


def _ends_expression(token: Token) -> bool:
    if token.kind == "op":
        return token.text in _OPENERS
    return token.kind != "name" or token.text not in _KEYWORDS


def _matching(tokens: list[Token], index: int) -> int | None:
    """Find the bracket that opens what closes at ``index``."""
    depth = 0
    while index >= 0:
        token = tokens[index]
        if token.kind == "op":
            if token.text in _OPENERS:
                depth += 1
            elif token.text in "([{":
                depth -= 1
                if depth == 0:
                    return index
        index -= 1
    return None
