"""Registrations by scope: the global ones, and those of each scope on top of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from ...errors import PromptError

if TYPE_CHECKING:
    from ...kernel.scope import Scope

__all__ = ["LayeredList", "LayeredNames"]

_T = TypeVar("_T")


class LayeredNames(Generic[_T]):
    """Named entries. One name is taken once in each layer; the nearest layer's entry is the one that counts (HOST-62).

    Parameters:
        what: how errors call an entry.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._global: dict[str, _T] = {}
        self._scoped: weakref.WeakKeyDictionary[Scope, dict[str, _T]] = weakref.WeakKeyDictionary()

    def add(self, name: str, entry: _T, scope: Scope | None) -> Callable[[], None]:
        """Add an entry and return what removes exactly this one.

        Raises:
            PromptError: the layer has an entry of this name.
        """
        layer = self._global if scope is None else self._scoped.setdefault(scope, {})
        if name in layer:
            where = "" if scope is None else f" in scope {scope.name!r}"
            raise PromptError(f'{self._what} "{name}" is already registered{where}')
        layer[name] = entry

        def remove() -> None:
            if layer.get(name) is entry:
                del layer[name]

        return remove

    def visible(self, scope: Scope | None) -> dict[str, _T]:
        """Return what a scope sees. An entry that shadows another keeps that one's place (HOST-48)."""
        visible = dict(self._global)
        for key in reversed(scope.chain() if scope is not None else ()):
            visible.update(self._scoped.get(key, {}))
        return visible


class LayeredList(Generic[_T]):
    """Entries without names; all layers contribute."""

    def __init__(self) -> None:
        self._entries: list[tuple[Scope | None, _T]] = []

    def add(self, entry: _T, scope: Scope | None) -> Callable[[], None]:
        """Add an entry and return what removes exactly this one."""
        kept = (scope, entry)
        self._entries.append(kept)

        def remove() -> None:
            self._entries = [other for other in self._entries if other is not kept]

        return remove

    def visible(self, scope: Scope | None) -> Iterator[_T]:
        """Yield what a scope sees, in the order of registration."""
        chain = () if scope is None else scope.chain()
        for key, entry in self._entries:
            if key is None or key in chain:
                yield entry
