"""Guards: synchronous checks that can only deny, after every other policy (PIPE section H)."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from ..errors import DefinitionError
from ..tools.execution import ToolExecution

if TYPE_CHECKING:
    from ..kernel.scope import Scope

__all__ = ["Guard", "GuardTable"]

Guard: TypeAlias = Callable[[ToolExecution], str | None]
"""``(execution) -> None`` for no opinion, or the reason of a denial."""


class _Entry:
    __slots__ = ("active", "guard")

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.active = True


class GuardTable:
    """All guards, by scope, in registration order.

    Iteration is live, so a guard may add another to the same pass (PIPE-79); a table that
    drains starts a new generation, whose guards wait for the next call (PIPE-80, HOST-55).
    """

    __slots__ = ("_global", "_scoped", "count")

    def __init__(self) -> None:
        self.count = 0
        self._global: list[_Entry] = []
        self._scoped: weakref.WeakKeyDictionary[Scope, list[_Entry]] = weakref.WeakKeyDictionary()

    def add(self, guard: Guard, scope: Scope | None) -> Callable[[], None]:
        """Add a guard and return what removes exactly this one (PIPE-78).

        Raises:
            DefinitionError: the guard is not callable, or is ``async`` (D29).
        """
        if not callable(guard) or inspect.iscoroutinefunction(guard):
            raise DefinitionError("a guard must be a synchronous callable; to wait, listen on tools/pre-execute")
        entry = _Entry(guard)
        if scope is None:
            self._global.append(entry)
        else:
            self._scoped.setdefault(scope, []).append(entry)
        self.count += 1

        def remove() -> None:
            if entry.active:
                entry.active = False
                self.count -= 1
                self._drop_drained(scope)

        return remove

    def consult(self, scope: Scope | None) -> Iterator[Guard]:
        """Yield the guards for a call: global ones, then ancestors outermost first, then own (PIPE-76, 77)."""
        yield from _live(self._global)
        if scope is not None and self._scoped:
            for key in reversed(scope.chain()):
                table = self._scoped.get(key)
                if table is not None:
                    yield from _live(table)

    def _drop_drained(self, scope: Scope | None) -> None:
        table = self._global if scope is None else self._scoped.get(scope, [])
        if any(entry.active for entry in table):
            return
        if scope is None:
            self._global = []
        else:
            self._scoped.pop(scope, None)


def _live(table: list[_Entry]) -> Iterator[Guard]:
    index = 0
    while index < len(table):
        entry = table[index]
        if entry.active:
            yield entry.guard
        index += 1
