"""Hook points: typed descriptors, and the bus that keeps their listeners.

The kinds differ in what a dispatch does with the listeners:

* **emit** tells every listener and looks at no answer; a failing listener is logged (D16, HOST-34);
* **parallel** starts all listeners, waits for all, and raises every failure together (HOST-26);
* **serial** asks one after another until one answers; **bail** is the same without awaiting (HOST-27);
* **waterfall** nests the listeners around a default; each may call the rest, also again (D12, HOST-28).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeAlias, TypeVar, TypeVarTuple

from .dispatch import (
    Listener,
    Next,
    run_bail,
    run_emit,
    run_parallel,
    run_serial,
    run_waterfall,
)
from .scope import EVERY_SCOPE, Scope
from .tasks import is_awaitable

__all__ = [
    "BailHook",
    "EmitHook",
    "Hook",
    "HookBus",
    "Listener",
    "Next",
    "ParallelHook",
    "SerialHook",
    "WaterfallHook",
    "WaterfallListener",
    "run_waterfall",
]

_Ts = TypeVarTuple("_Ts")
_S = TypeVar("_S")
_R = TypeVar("_R")

WaterfallListener: TypeAlias = Callable[[_S, Next[_R]], _R | Awaitable[_R]]
"""A waterfall's listener: ``(subject, next) -> result``, sync or async."""


class Hook:
    """A place where listeners can hook in, known by its name.

    The class says how it is dispatched, the type parameters what its listeners look like. Two
    descriptors of one name are the same hook, and so is the bare name.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class EmitHook(Hook, Generic[*_Ts]):
    """A notification: listeners take ``*_Ts``, their answers and failures change nothing."""

    __slots__ = ()


class ParallelHook(Hook, Generic[*_Ts]):
    """A notification whose sender waits for all listeners and hears of their failures."""

    __slots__ = ()


class SerialHook(Hook, Generic[_R, *_Ts]):
    """A question: listeners take ``*_Ts``; the first ``_R`` wins, None and False are no answer."""

    __slots__ = ()


class BailHook(Hook, Generic[_R, *_Ts]):
    """A question that is answered at once: like :class:`SerialHook`, with synchronous listeners."""

    __slots__ = ()


class WaterfallHook(Hook, Generic[_S, _R]):
    """A chain of wrappers: listeners take ``(subject, next)`` and return an ``_R``."""

    __slots__ = ()


class HookBus:
    """The listeners of every hook, in order, with the views that scopes have of them.

    A dispatch by a scope reaches the untagged listeners and those tagged with that scope or one
    of its ancestors; a dispatch without a scope reaches the untagged ones only (HOST-49, PIPE-37).
    ``EVERY_SCOPE`` reaches all.
    """

    __slots__ = ("_followers", "_running", "_tables")

    def __init__(self) -> None:
        self._followers: dict[str, list[Callable[[bool], object]]] = {}
        self._tables: dict[str, _Table] = {}
        self._running: dict[asyncio.Task[None], Listener] = {}

    def listeners(self, hook: Hook | str, scope: Scope | None = None) -> tuple[Listener, ...]:
        """Return the listeners that a dispatch by ``scope`` reaches, in order.

        The tuple is a snapshot (HOST-21), and is shared between calls until something changes.
        """
        table = self._tables.get(hook if isinstance(hook, str) else hook.name)
        return () if table is None else table.view(scope)

    def add(self, hook: Hook | str, listener: Listener, *, prepend: bool = False) -> None:
        """Put a listener at the end, or at the front with ``prepend`` (HOST-20)."""
        name = _name_of(hook)
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = _Table()
            self._tell_followers(name, True)
        table.add(listener, prepend)

    def remove(self, hook: Hook | str, listener: Listener) -> None:
        """Take exactly this listener away; one that is gone already is ignored."""
        name = _name_of(hook)
        table = self._tables.get(name)
        if table is not None and table.remove(listener):
            del self._tables[name]
            self._tell_followers(name, False)

    def follow(self, hook: Hook | str, changed: Callable[[bool], object]) -> Callable[[], None]:
        """Call ``changed`` with whether the hook has any listeners: now, and whenever that changes.

        So whoever dispatches often need not look each time.

        Returns:
            What ends it; calling it again does nothing.
        """
        followers = self._followers.setdefault(_name_of(hook), [])
        followers.append(changed)
        changed(_name_of(hook) in self._tables)

        def end() -> None:
            if changed in followers:
                followers.remove(changed)

        return end

    def _tell_followers(self, name: str, any_there: bool) -> None:
        for changed in self._followers.get(name, ()):
            changed(any_there)

    @property
    def listener_count(self) -> int:
        """How many listeners are registered on all hooks together; for leak checks."""
        return sum(len(table.entries) for table in self._tables.values())

    @property
    def running_count(self) -> int:
        """How many async listeners of emits are still running; for leak checks."""
        return len(self._running)

    async def settle(self, listener: Listener | None = None) -> None:
        """Wait until the async deliveries of one listener's emits, or of all of them, are done."""
        this = asyncio.current_task()
        while pending := [
            task
            for task, owner in self._running.items()
            if task is not this and (listener is None or owner is listener)
        ]:
            await asyncio.wait(pending)

    def is_running(self, listener: Listener) -> bool:
        """Whether an async delivery of an emit to this listener is still running."""
        return any(owner is listener for owner in self._running.values())

    def emit(self, hook: EmitHook[*_Ts] | str, *args: *_Ts, scope: Scope | None = None) -> None:
        """Tell every listener; failures are logged with the listener's name and go no further (D16)."""
        listeners = self.listeners(hook, scope)
        if listeners:
            run_emit(_name_of(hook), listeners, args, self._running)

    async def parallel(self, hook: ParallelHook[*_Ts] | str, *args: *_Ts, scope: Scope | None = None) -> None:
        """Run all listeners at once and wait for them.

        Raises:
            ExceptionGroup: every failure, each with a note that names the listener (HOST-26).
        """
        listeners = self.listeners(hook, scope)
        if listeners:
            await run_parallel(_name_of(hook), listeners, args)

    async def serial(self, hook: SerialHook[_R, *_Ts], *args: *_Ts, scope: Scope | None = None) -> _R | None:
        """Return the first answer that is neither None nor False; 0 and "" are answers (HOST-27)."""
        return await run_serial(self.listeners(hook, scope), args)

    def bail(self, hook: BailHook[_R, *_Ts], *args: *_Ts, scope: Scope | None = None) -> _R | None:
        """Return the first answer that is neither None nor False, without awaiting (HOST-27).

        Raises:
            ListenerError: a listener returned an awaitable.
        """
        return run_bail(_name_of(hook), self.listeners(hook, scope), args)

    async def waterfall(
        self,
        hook: WaterfallHook[_S, _R],
        subject: _S,
        default: Callable[[], Awaitable[_R] | _R],
        scope: Scope | None = None,
    ) -> _R:
        """Run the chain around ``default`` and return what the outermost listener returns (HOST-28)."""
        listeners = self.listeners(hook, scope)
        if listeners:
            return await run_waterfall(listeners, subject, default)
        outcome: Any = default()
        return await outcome if is_awaitable(outcome) else outcome


_MAX_VIEWS = 1024
"""Views kept for each hook; a bound, so that scopes that are gone are not kept for ever."""


class _Table:
    """One hook's listeners, with a cached view for each scope that asked."""

    __slots__ = ("entries", "everything", "links", "tagged", "views")

    def __init__(self) -> None:
        self.entries: list[Listener] = []
        self.everything: tuple[Listener, ...] = ()
        self.tagged = False
        self.links = 0
        self.views: dict[Scope | None, tuple[Listener, ...]] = {}

    def add(self, listener: Listener, prepend: bool) -> None:
        self.entries.insert(0 if prepend else len(self.entries), listener)
        self._changed()

    def remove(self, listener: Listener) -> bool:
        """Remove the listener; say whether the table is empty now."""
        if listener in self.entries:
            self.entries.remove(listener)
            self._changed()
        return not self.entries

    def view(self, scope: Scope | None) -> tuple[Listener, ...]:
        if not self.tagged or scope is EVERY_SCOPE:
            return self.everything
        if self.links != Scope.links or len(self.views) > _MAX_VIEWS:
            self.views.clear()
            self.links = Scope.links
        view = self.views.get(scope)
        if view is None:
            chain = () if scope is None else scope.chain()
            view = tuple(entry for entry in self.entries if entry.scope is None or entry.scope in chain)
            self.views[scope] = view
        return view

    def _changed(self) -> None:
        self.everything = tuple(self.entries)
        self.tagged = any(entry.scope is not None for entry in self.entries)
        self.views.clear()


def _name_of(hook: Hook | str) -> str:
    return hook if isinstance(hook, str) else hook.name
