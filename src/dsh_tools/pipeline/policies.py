"""Which rules are in force for whom, as one digest: what an approval was given under."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..json_value import JsonValue, digest
from ..kernel.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PolicyTable"]


class PolicyTable:
    """The declared policies of an application, by scope.

    A policy is declared as a JSON document that changes when its rules do; nobody reads it but by its digest.
    """

    def __init__(self) -> None:
        self._global: list[_Entry] = []
        self._scoped: weakref.WeakKeyDictionary[Scope, list[_Entry]] = weakref.WeakKeyDictionary()
        self._digests: weakref.WeakKeyDictionary[Scope, tuple[int, str | None]] = weakref.WeakKeyDictionary()
        self._global_digest: str | None = None

    def add(self, name: str, document: JsonValue, scope: Scope | None, rules: Iterable[str] = ()) -> Callable[[], None]:
        """Put a policy in force for a scope, None for everybody; returns what takes exactly this one back.

        Raises:
            LossyJsonError: the document is not JSON.
        """
        entry = _Entry(digest([name, document]), tuple(rules))
        table = self._global if scope is None else self._scoped.setdefault(scope, [])
        table.append(entry)
        self._changed()

        def remove() -> None:
            table.remove(entry)
            self._changed()

        return remove

    def digest(self, scope: Scope | None) -> str | None:
        """Return the digest of all policies in force for ``scope``; None where none is declared.

        Their order does not matter, so that the digest is the same in another process with the same rules.
        """
        if scope is None:
            return self._global_digest
        links = Scope.links
        kept = self._digests.get(scope)
        if kept is None or kept[0] != links:
            kept = self._digests[scope] = (links, _digest_of(self._entries(scope)))
        return kept[1]

    def rules(self, scope: Scope | None) -> tuple[str, ...]:
        """Return the names of the rules in force for ``scope``, as traces call them."""
        return tuple(dict.fromkeys(name for entry in self._entries(scope) for name in entry.rules))

    def _entries(self, scope: Scope | None) -> Iterator[_Entry]:
        yield from self._global
        for key in () if scope is None else scope.chain():
            yield from self._scoped.get(key, ())

    def _changed(self) -> None:
        self._digests.clear()
        self._global_digest = _digest_of(self._global)


class _Entry:
    """One declared policy; two of the same content are still two."""

    __slots__ = ("digest", "rules")

    def __init__(self, digest: str, rules: tuple[str, ...]) -> None:
        self.digest = digest
        self.rules = rules


def _digest_of(entries: Iterable[_Entry]) -> str | None:
    found = sorted(entry.digest for entry in entries)
    return digest(found) if found else None
