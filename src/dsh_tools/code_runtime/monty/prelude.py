"""What is fed to an interpreter before any program: its ``print``, namespaces, and value checks.

The interpreter knows a part of Python only. It has no exception classes of a program's own, so each
error class is one of the exceptions that it has and nobody else uses, and what the class's instances
should carry is looked up by identity, and what the class is called by its text.
"""

from __future__ import annotations

__all__ = ["ERROR_TYPES", "HOST_CALL", "MAIN", "MEMBER", "NAME", "PRELUDE", "SHOWN"]

MAIN = "__dsh_main__"
"""The name of the function that a program becomes."""

HOST_CALL = "__dsh_call"
"""The host's function: namespace, name, arguments, and what is wrong with them."""

MEMBER = "__dsh_member_{}"
"""The functions that stand for reading an error's member, one for each property."""

NAME = "__dsh_name"
"""The function that stands for reading ``__name__``."""

SHOWN = "__dsh_shown"
"""The function that stands for ``repr``."""

ERROR_TYPES: tuple[str, ...] = (
    "binascii.Incomplete",
    "_csv.Error",
    "decimal.Clamped",
    "decimal.Rounded",
    "decimal.Subnormal",
    "decimal.FloatOperation",
)
"""The interpreter's exceptions that stand for error classes, in the order of their use."""

PRELUDE = """
from binascii import Incomplete as __dsh_t0
from csv import Error as __dsh_t1
from decimal import Clamped as __dsh_t2, Rounded as __dsh_t3, Subnormal as __dsh_t4, FloatOperation as __dsh_t5
from json import dumps as __dsh_dumps

__dsh_error_types = [__dsh_t0, __dsh_t1, __dsh_t2, __dsh_t3, __dsh_t4, __dsh_t5]
__dsh_error_tuple = (__dsh_t0, __dsh_t1, __dsh_t2, __dsh_t3, __dsh_t4, __dsh_t5)
__dsh_error_names = {}
__dsh_short_names = ["Incomplete", "Error", "Clamped", "Rounded", "Subnormal", "FloatOperation"]
__dsh_failures = []
__dsh_print = print
__dsh_str = str
__dsh_len = len
__dsh_repr = repr
__dsh_type = type
__dsh_isinstance = isinstance
__dsh_getattr = getattr
__dsh_setattr = setattr


def print(*values, sep=" ", end="\\n", file=None, flush=False):
    if sep is None:
        sep = " "
    if end is None:
        end = "\\n"
    text = sep.join([__dsh_str(value) for value in values]) + end
    if text.endswith("\\n"):
        text = text[:-1]
    if __dsh_len(text) > __dsh_capacity:
        text = text[: __dsh_capacity + 1]
    __dsh_print(text.replace("\\\\", "\\\\\\\\").replace("\\n", "\\\\n"))


def __dsh_check(value, limit):
    try:
        text = __dsh_dumps(value, separators=(",", ":"), ensure_ascii=False)
    except Exception:
        return "lossy"
    return "large" if __dsh_len(text) > limit else ""


async def __dsh_guard(future, name):
    try:
        return await future
    except Exception as error:
        __dsh_failures.append([error, name])
        raise


def __dsh_function(space, name):
    def __dsh_enter(*values, **named):
        if named or __dsh_len(values) != 1:
            raise TypeError(__dsh_usage(space, name, values, named))
        args = values[0]
        fault = __dsh_check(args, __dsh_frame)
        if fault:
            args = None
        return __dsh_guard(__dsh_call(space, name, args, fault), name)

    return __dsh_enter


def __dsh_usage(space, name, values, named):
    spoken = name.isidentifier() and not name.startswith("_")
    function = space + ("." + name if spoken else "[" + __dsh_dumps(name) + "]")
    example = "{...}" if values else __dsh_repr(named)
    if __dsh_len(example) > 200:
        example = "{...}"
    return function + " takes its arguments as one dict: " + function + "(" + example + ")"


def __dsh_bind(space, names):
    table = {}
    for name in names:
        table[name] = __dsh_function(space, name)

    class Namespace:
        def __init__(self):
            for name in names:
                if name.isidentifier() and not name.startswith("_"):
                    __dsh_setattr(self, name, table[name])

        def __getitem__(self, name):
            return table[name]

    return Namespace()


def __dsh_member(error, name):
    for entry in __dsh_failures:
        if entry[0] is error:
            return entry[1]
    return __dsh_getattr(error, name)


def __dsh_name(value):
    name = __dsh_getattr(value, "__name__", None)
    if name is None or name in __dsh_short_names:
        name = __dsh_error_names.get(__dsh_str(value))
    return name or __dsh_getattr(value, "__name__")


def __dsh_shown(value):
    text = __dsh_repr(value)
    if text in __dsh_error_names:
        return "<class '" + __dsh_error_names[text] + "'>"
    if __dsh_isinstance(value, __dsh_error_tuple):
        name = __dsh_error_names.get(__dsh_str(__dsh_type(value)))
        if name is not None:
            return name + text[text.index("(") :]
    return text


repr = __dsh_shown


def __dsh_finish(value):
    fault = __dsh_check(value, __dsh_capacity)
    return [fault, None if fault else value]
"""
"""Python, as far as the interpreter knows it."""
