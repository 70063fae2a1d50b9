"""Packages that import their modules when a name of them is first asked for (PEP 562)."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False  # importing typing for it would take longer than the rest of this module
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["lazy_exports"]


def lazy_exports(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``.

    Type checkers are told by ordinary imports, which nothing runs::

        if TYPE_CHECKING:
            from .service import Service
        else:
            __getattr__, __dir__ = lazy_exports(__name__, {"service": ("Service",)})

    The modules themselves are attributes, too, except where an export has a module's name: then that is the export,
    whoever has imported the module before.

    Parameters:
        package: its ``__name__``.
        homes: the exported names of each module; none for a module that is only an attribute itself.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    class LazyPackage(ModuleType):
        def __setattr__(self, name: str, value: object) -> None:
            # The import system binds each module that it has loaded; that must not hide an export of the same name.
            if not (name in home_of and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

    known = sys.modules[package]
    known.__class__ = LazyPackage

    def get(name: str) -> Any:
        home = home_of.get(name)
        if home is not None:
            found = getattr(import_module(f"{package}.{home}"), name)
            setattr(known, name, found)
            return found
        if name in homes:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(known), *home_of, *homes})

    return get, names
