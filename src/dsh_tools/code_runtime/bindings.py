"""What may be bound into a program: names that are safe in every language (CODE-133 to 135)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import CodeRuntimeError
from .seam import BindingNamespace, ErrorClassSpec

__all__ = ["check_bindings", "is_bindable"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DUNDER = re.compile(r"__.+__", re.DOTALL)

# One list for all runtimes: a program's SDK must not depend on where it happens to run.
_ECMASCRIPT = """
    arguments await break case catch class const continue debugger default delete do else enum eval export
    extends false finally for function if implements import in instanceof interface let new null package
    private protected public return static super switch this throw true try typeof var void while with yield
"""
_PYTHON = """
    False None True _ and as assert async await break case class continue def del elif else except finally for
    from global if import in is lambda match nonlocal not or pass raise return try type while with yield
"""
_TAKEN = "console __dsh_main__ __builtins__ __name__ __debug__"
_REFUSED = frozenset(f"{_ECMASCRIPT} {_PYTHON} {_TAKEN}".split())

_ERROR_MEMBERS = frozenset(("name", "message", "stack", "args", "with_traceback", "add_note"))


def is_bindable(name: object) -> bool:
    """Whether a program can have a global of this name, in whatever language (CODE-133)."""
    return type(name) is str and _IDENTIFIER.fullmatch(name) is not None and name not in _REFUSED


def check_bindings(bindings: Sequence[BindingNamespace]) -> None:
    """Refuse bindings that no program could use.

    Raises:
        CodeRuntimeError: a name is not bindable, is used twice, or a member property is reserved.
    """
    globals_seen: set[str] = set()
    for binding in bindings:
        name = binding.global_name
        if not is_bindable(name):
            raise CodeRuntimeError(f"binding global {name!r} is not a usable identifier")
        if name in globals_seen:
            raise CodeRuntimeError(f"binding global {name!r} is declared twice")
        globals_seen.add(name)
        for member, function in binding.functions.items():
            if type(member) is not str or not callable(function):
                raise CodeRuntimeError(f"binding {name}.{member!s} is not a function under a string name")
    classes_seen: set[str] = set()
    for binding in bindings:
        if binding.error_class is not None:
            _check_error_class(binding.error_class, globals_seen, classes_seen)


def _check_error_class(spec: ErrorClassSpec, globals_seen: set[str], classes_seen: set[str]) -> None:
    if not is_bindable(spec.name):
        raise CodeRuntimeError(f"error class name {spec.name!r} is not a usable identifier")
    if spec.name in globals_seen or spec.name in classes_seen:
        raise CodeRuntimeError(f"error class name {spec.name!r} is already bound")
    classes_seen.add(spec.name)
    member = spec.member_name_property
    if type(member) is not str or not member:
        raise CodeRuntimeError(f"error class {spec.name!r} needs a non-empty member name property")
    if member in _ERROR_MEMBERS or _DUNDER.fullmatch(member):
        raise CodeRuntimeError(f"error class {spec.name!r} cannot use the reserved property {member!r}")
