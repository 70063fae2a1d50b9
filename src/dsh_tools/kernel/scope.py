"""Scopes: identity keys that decide who sees a registration and who hears an event.

A scope is a routing key, not a security wall: whoever holds a context uses the services of
the context it came from (HOST-56).
"""

from __future__ import annotations

from typing import ClassVar

from ..errors import ScopeError

__all__ = ["EVERY_SCOPE", "ParentLink", "Scope"]


class Scope:
    """An identity key with at most one parent, normally one agent's (HOST-45, 46).

    Two scopes are the same only if they are the same object; ``name`` is for people.

    Parameters:
        name: how logs and errors call the scope.
        parent: the parent, if it is known at once; see :meth:`bind_parent`.
    """

    __slots__ = ("__weakref__", "_chain", "_chain_links", "_parent", "name")

    links: ClassVar[int] = 0
    """How many parent links were bound or rebound so far; whoever caches a chain compares this number."""

    def __init__(self, name: str = "scope", parent: Scope | None = None) -> None:
        self.name = name
        self._parent: Scope | None = parent
        self._chain: tuple[Scope, ...] = ()
        self._chain_links = -1

    def __repr__(self) -> str:
        return f"<Scope {self.name!r}>"

    @property
    def parent(self) -> Scope | None:
        """The parent scope, or None."""
        return self._parent

    def bind_parent(self, parent: Scope) -> ParentLink:
        """Give this scope its parent, once (PIPE-34, HOST-47).

        Returns:
            The handle through which alone the parent can be changed later.

        Raises:
            ScopeError: there is a parent already, or the link would form a cycle.
        """
        if self._parent is not None:
            raise ScopeError(f'scope "{self.name}" already has the parent "{self._parent.name}"')
        link = ParentLink(self)
        link.rebind(parent)
        return link

    def chain(self) -> tuple[Scope, ...]:
        """Return this scope and its ancestors, the nearest first."""
        if self._chain_links != Scope.links:
            found: list[Scope] = []
            scope: Scope | None = self
            while scope is not None:
                found.append(scope)
                scope = scope._parent
            self._chain = tuple(found)
            self._chain_links = Scope.links
        return self._chain


class ParentLink:
    """The right to change one scope's parent, held by whoever bound it (HOST-47)."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def rebind(self, parent: Scope) -> None:
        """Replace the parent; a refused link leaves the old one in place.

        Raises:
            ScopeError: the link would form a cycle.
        """
        scope = self._scope
        if scope in parent.chain():
            raise ScopeError(f'scope "{scope.name}" cannot have "{parent.name}" as its parent: a cycle')
        scope._parent = parent  # pyright: ignore[reportPrivateUsage]
        Scope.links += 1


EVERY_SCOPE = Scope("every scope")
"""Dispatch with this scope to reach every listener, tagged or not (unfiltered events, PIPE-38, HOST-79)."""
