"""Bodies that another process finds by their name, for ``isolation="process"``."""

from __future__ import annotations

import inspect
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from ..errors import DefinitionError

__all__ = ["BodyForm", "BodyPlace", "ImportedBody", "find_attribute", "place_of", "send_classes"]

BodyForm: TypeAlias = Literal["plain", "function", "typed"]
"""What stands at a place: ``(args, run) -> JSON``; a plain function, as ``@tool`` takes it; or ``(args, run)`` with the
classes of ``define_tool`` around it."""

_MAIN = "__main__"
_ADVICE = (
    "a process finds its body by name, so write it as a function at the top level of a module, "
    "and pass what it needs as arguments"
)


class BodyPlace(msgspec.Struct, frozen=True):
    """Where another process finds a body.

    Parameters:
        module: the module, ``__main__`` for the program itself.
        qualname: the name in it, dotted.
        form: what stands there.
        script: the file of the program, where the body stands in it.
        main: the module that was started as the program, as by ``python -m``.
        classes: the classes of arguments and value, pickled by name.
    """

    module: str
    qualname: str
    form: BodyForm = "plain"
    script: str | None = None
    main: str | None = None
    classes: bytes = b""


class ImportedBody:
    """A body that runs in a process of its own; called here, it runs here.

    Parameters:
        place: where another process finds it.
        fn: the function that stands there.
        here: the pipeline's body, ``(args, run) -> JSON value``, sync or async.
    """

    __slots__ = ("fn", "here", "place")

    def __init__(self, place: BodyPlace, fn: Callable[..., Any], here: Callable[[Any, Any], Any]) -> None:
        self.place = place
        self.fn = fn
        self.here = here

    def __call__(self, args: Any, run: Any) -> Any:
        """Run the body in this process."""
        return self.here(args, run)

    def check(self, name: str) -> None:
        """Raise :class:`DefinitionError` unless the name leads to this body; ``name`` is the tool's.

        This is for the registration: a decorator runs before its function has a name in its module.
        """
        place = self.place
        found: Any = None
        try:
            found = find_attribute(sys.modules[place.module], place.qualname)
        except (AttributeError, KeyError) as error:
            raise _refusal(name, f'"{place.qualname}" is not in the module "{place.module}"') from error
        # ``@tool`` puts the tool in the place of its function.
        if found != self.fn and getattr(found, "fn", None) is not self.fn:
            raise _refusal(name, f'"{place.qualname}" is something else in the module "{place.module}"')


def place_of(name: str, fn: Callable[..., Any], form: BodyForm = "plain", classes: bytes = b"") -> BodyPlace:
    """Return where another process finds a function.

    Parameters:
        name: the tool's name, for errors.

    Raises:
        DefinitionError: no other process can find it; the message says what to write instead.
    """
    if not hasattr(os, "fork"):
        raise DefinitionError(f'tool "{name}" isolation="process" needs a POSIX system')
    module: object = getattr(fn, "__module__", None)
    qualname: object = getattr(fn, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str):
        raise _refusal(name, f"{type(fn).__name__} objects have no name of their own")
    if inspect.ismethod(fn) and not isinstance(fn.__self__, type):
        raise _refusal(name, f"{qualname} is the method of an object")
    if "<lambda>" in qualname:
        raise _refusal(name, "a lambda has no name")
    if "<locals>" in qualname:
        raise _refusal(name, f"{qualname.rpartition('.')[2]} is defined inside a function")
    if module != _MAIN:
        return BodyPlace(module, qualname, form, classes=classes)
    program = sys.modules[_MAIN]
    spec = getattr(program, "__spec__", None)
    script: object = getattr(program, "__file__", None)
    if spec is not None:
        return BodyPlace(module, qualname, form, main=spec.name, classes=classes)
    if not isinstance(script, str) or not os.path.isfile(script):
        raise _refusal(name, f"{qualname} was typed in, and is in no file")
    return BodyPlace(module, qualname, form, script=os.path.abspath(script), classes=classes)


def send_classes(name: str, parameters: object, output: object) -> bytes:
    """Return the classes of a body's arguments and value for another process, which finds them by name, too.

    Raises:
        DefinitionError: it could not find one.
    """
    try:
        return pickle.dumps((parameters, output))
    except Exception as error:
        raise DefinitionError(
            f'tool "{name}" cannot run in a process of its own: its parameters or output cannot be found by name '
            f"({error}); put their classes at the top level of a module"
        ) from error


def find_attribute(module: object, qualname: str) -> Any:
    """Return what a dotted name stands for in a module.

    Raises:
        AttributeError: nothing.
    """
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def _refusal(name: str, why: str) -> DefinitionError:
    return DefinitionError(f'tool "{name}" cannot run in a process of its own: {why}; {_ADVICE}')
