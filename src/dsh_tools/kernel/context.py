"""Contexts: what a plugin does everything through, so that everything it did can be undone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, TypeVar, TypeVarTuple, cast, overload

from ..errors import MissingServiceError
from .completion import Completion
from .dispatch import Listener, Next
from .effect import Disposer, EffectBody
from .first_party import FirstPartyServices
from .hooks import BailHook, EmitHook, Hook, HookBus, ParallelHook, SerialHook, WaterfallHook
from .plugin import Fiber
from .recipe import Plugin, read_plugin
from .scope import Scope
from .service import ServiceKey, ServiceRegistry, Slot

__all__ = ["Context", "ContextBound", "create_context"]

_Ts = TypeVarTuple("_Ts")
_S = TypeVar("_S")
_R = TypeVar("_R")
_T = TypeVar("_T")


class ContextBound(Protocol):
    """A service that shows each context a face of its own, for instance to register on its behalf."""

    def for_context(self, context: Any, /) -> object:
        """Return the face that ``context`` gets to see."""
        ...


class Context(FirstPartyServices):
    """A place to register, provide and dispatch from.

    ``scope`` tags what is registered through the context, ``fiber`` owns it (HOST-45); ``root``
    and ``bus`` are shared by all contexts of one application.
    """

    __slots__ = ("__weakref__", "_realms", "_services", "bus", "fiber", "root", "scope")

    root: Context

    def __init__(
        self,
        fiber: Fiber,
        bus: HookBus,
        services: ServiceRegistry,
        *,
        root: Context | None = None,
        scope: Scope | None = None,
        realms: Mapping[str, object] | None = None,
    ) -> None:
        self.fiber = fiber
        self.bus = bus
        self.scope = scope
        self.root = self if root is None else root
        self._services = services
        self._realms: Mapping[str, object] = {} if realms is None else realms

    def __repr__(self) -> str:
        tag = "" if self.scope is None else f" in scope {self.scope.name!r}"
        return f"<Context of {self.fiber.label}{tag}>"

    async def __aenter__(self) -> Context:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.dispose()

    def dispose(self) -> Completion:
        """End this context's fiber and undo everything registered through it; see :meth:`Fiber.dispose`.

        The root context is empty and usable again afterwards (HOST-19).
        """
        return self.fiber.dispose()

    # ── effects and plugins ───────────────────────────────────────────────────

    def effect(self, body: EffectBody, label: str = "") -> Disposer:
        """Run ``body`` now, and undo it when the returned disposer is called or the context ends.

        The body returns what undoes it: a function, sync or async; or another effect's disposer;
        or None; or an awaitable of one of these. Or it is a generator, sync or async, that yields
        one of these for each step; steps are undone in reverse order (HOST-8 to 14). An async body
        does its setting up and ends; loading waits for it.

        Raises:
            InactiveEffectError: the context is disposed, unloading or failed (HOST-16).
            TypeError: the body returned or yielded something else.
        """
        return self.fiber.effect(body, label or getattr(body, "__name__", "effect"))

    def plugin(self, plugin: Plugin, config: object = None) -> Fiber:
        """Mount a plugin; its body runs soon, once the services it injects are there (HOST-1 to 7).

        The fiber can be awaited until it has loaded, which raises what config validation or the
        body raised. A class is called with ``(ctx, config)``, then its ``init()``, if it has one;
        a class that has ``apply`` is called without arguments, then ``apply(ctx, config)``.

        Raises:
            TypeError: ``plugin`` is not a plugin.
            InactiveEffectError: the context is disposed, unloading or failed.
            RuntimeError: no event loop is running.
        """
        recipe = read_plugin(plugin)
        asyncio.get_running_loop()
        self.fiber.check_open(f'plugin "{recipe.name}"')
        fiber = Fiber(recipe.name, f'plugin "{recipe.name}"', self.fiber, self._services, recipe, config)
        fiber.mount(self._derive(fiber), tuple(self._slot(name) for name in recipe.required))
        return fiber

    def create_scope(self, name: str, parent: Scope | None = None) -> Context:
        """Return a context with a new scope of its own, which ends with this context or by ``dispose()``.

        What is registered through it is seen by that scope and its descendants only (HOST-45).
        ``parent`` links the scopes; contexts don't (HOST-46).
        """
        self.fiber.check_open(f'scope "{name}"')
        fiber = Fiber(name, f'scope "{name}"', self.fiber, self._services)
        context = self._derive(fiber, scope=Scope(name, parent))
        fiber.mount(context, ())
        return context

    def _derive(
        self, fiber: Fiber, *, scope: Scope | None = None, realms: Mapping[str, object] | None = None
    ) -> Context:
        return Context(
            fiber,
            self.bus,
            self._services,
            root=self.root,
            scope=self.scope if scope is None else scope,
            realms=self._realms if realms is None else realms,
        )

    # ── services ──────────────────────────────────────────────────────────────

    def provide(self, key: str | ServiceKey[_T], value: _T) -> Disposer:
        """Provide a service; others see it once this context's plugin is active (HOST-36, 37).

        Providing it again from the same plugin replaces the value, and dependents are not told
        (HOST-42). Undoing it first unloads the plugins that inject it (HOST-39).

        Raises:
            ServiceConflictError: another plugin provides it.
            InactiveEffectError: the context is disposed, unloading or failed.
        """
        slot = self._slot(key)
        services, fiber = self._services, self.fiber
        fiber.check_open(f'service "{slot[0]}"')
        record = services.owned(slot, fiber)
        if record is not None:
            record.value = value
            return record.disposer
        record = services.provide(slot, value, fiber)
        record.disposer = fiber.effect(lambda: lambda: services.retire(record), f'service "{slot[0]}"')
        return record.disposer

    @overload
    def get(self, key: ServiceKey[_T]) -> _T | None: ...
    @overload
    def get(self, key: str) -> object | None: ...
    def get(self, key: str | ServiceKey[Any]) -> object | None:
        """Return a service, or None while no active plugin provides it (HOST-41).

        Services come and go: look up where you use it, and don't keep it.
        """
        record = self._services.find(self._slot(key), self.fiber)
        if record is None:
            return None
        value = record.value
        # Cheaper than isinstance with a protocol, and this is on the way of every ``ctx.tools``.
        bound = hasattr(type(value), "for_context")
        return cast("ContextBound", value).for_context(self) if bound else value

    @overload
    def require(self, key: ServiceKey[_T]) -> _T: ...
    @overload
    def require(self, key: str) -> object: ...
    def require(self, key: str | ServiceKey[Any]) -> object:
        """Return a service that has to be there.

        Raises:
            MissingServiceError: no active plugin provides it (HOST-40, D17).
        """
        value = self.get(key)
        if value is None:
            name = self._slot(key)[0]
            raise MissingServiceError(
                f'cannot get required service "{name}" from {self.fiber.label}: no active plugin provides it; '
                f'a plugin that lists "{name}" in its inject starts only when it is there'
            )
        return value

    def isolate(self, key: str | ServiceKey[Any], label: object = None) -> Context:
        """Return a context of the same fiber for which ``key`` names a service apart from the outer one (HOST-43).

        All contexts isolated with an equal ``label`` share that service; without a label it is shared
        with nobody but the contexts derived from this one.
        """
        name = self._slot(key)[0]
        realm = object() if label is None else ("label", label)
        return self._derive(self.fiber, realms={**self._realms, name: realm})

    def _slot(self, key: str | ServiceKey[Any]) -> Slot:
        name = key if isinstance(key, str) else key.name
        return (name, self._realms.get(name))

    # ── events ────────────────────────────────────────────────────────────────

    @overload
    def on(
        self,
        hook: WaterfallHook[_S, _R],
        listener: Callable[[_S, Next[_R]], _R | Awaitable[_R]],
        *,
        prepend: bool = False,
        once: bool = False,
        everywhere: bool = False,
    ) -> Disposer: ...
    @overload
    def on(
        self,
        hook: EmitHook[*_Ts] | ParallelHook[*_Ts],
        listener: Callable[[*_Ts], object],
        *,
        prepend: bool = False,
        once: bool = False,
        everywhere: bool = False,
    ) -> Disposer: ...
    @overload
    def on(
        self,
        hook: SerialHook[_R, *_Ts],
        listener: Callable[[*_Ts], _R | bool | Awaitable[_R | bool | None] | None],
        *,
        prepend: bool = False,
        once: bool = False,
        everywhere: bool = False,
    ) -> Disposer: ...
    @overload
    def on(
        self,
        hook: BailHook[_R, *_Ts],
        listener: Callable[[*_Ts], _R | bool | None],
        *,
        prepend: bool = False,
        once: bool = False,
        everywhere: bool = False,
    ) -> Disposer: ...
    @overload
    def on(
        self,
        hook: str,
        listener: Callable[..., Any],
        *,
        prepend: bool = False,
        once: bool = False,
        everywhere: bool = False,
    ) -> Disposer: ...
    def on(
        self,
        hook: Hook | str,
        listener: Callable[..., Any],
        *,
        prepend: bool = False,
        once: bool = False,
        everywhere: bool = False,
    ) -> Disposer:
        """Register a listener, which hears events from now on and until the context ends (HOST-20 to 24).

        It hears the dispatches of this context's scope and its descendants; through a context
        without a scope, all dispatches. ``prepend`` puts it before the others, ``once`` removes it
        just before its first call, ``everywhere`` ignores the context's scope (HOST-33).

        Raises:
            InactiveEffectError: the context is disposed, unloading or failed.
        """
        bus = self.bus
        name = hook if isinstance(hook, str) else hook.name
        entry = Listener(listener, None if everywhere else self.scope, lineage=self.fiber.lineage)

        def register() -> Callable[[], object]:
            bus.add(name, entry, prepend=prepend)
            return remove

        def remove() -> object:
            bus.remove(name, entry)
            # A plugin is not over while something of it still runs.
            return bus.settle(entry) if bus.is_running(entry) else None

        disposer = self.fiber.effect(register, f'listener "{entry.name}" of "{name}"')
        if once:
            entry.fn = _Once(listener, disposer)
        return disposer

    def emit(self, hook: EmitHook[*_Ts] | str, *args: *_Ts, scope: Scope | None = None) -> None:
        """Tell all listeners; their failures are logged and go no further. ``scope`` defaults to the context's."""
        self.bus.emit(hook, *args, scope=scope or self.scope)

    async def parallel(self, hook: ParallelHook[*_Ts] | str, *args: *_Ts, scope: Scope | None = None) -> None:
        """Run all listeners at once and wait for them; see :meth:`HookBus.parallel`."""
        await self.bus.parallel(hook, *args, scope=scope or self.scope)

    async def serial(self, hook: SerialHook[_R, *_Ts], *args: *_Ts, scope: Scope | None = None) -> _R | None:
        """Return the first answer of a listener; see :meth:`HookBus.serial`."""
        return await self.bus.serial(hook, *args, scope=scope or self.scope)

    def bail(self, hook: BailHook[_R, *_Ts], *args: *_Ts, scope: Scope | None = None) -> _R | None:
        """Return the first answer of a listener without awaiting; see :meth:`HookBus.bail`."""
        return self.bus.bail(hook, *args, scope=scope or self.scope)

    async def waterfall(
        self,
        hook: WaterfallHook[_S, _R],
        subject: _S,
        default: Callable[[], Awaitable[_R] | _R],
        scope: Scope | None = None,
    ) -> _R:
        """Run the listeners around ``default``; see :meth:`HookBus.waterfall`."""
        return await self.bus.waterfall(hook, subject, default, scope=scope or self.scope)


class _Once:
    """Calls a listener for the first dispatch only, which has removed it by then (HOST-23)."""

    __slots__ = ("_disposer", "_listener", "_spent")

    def __init__(self, listener: Callable[..., Any], disposer: Disposer) -> None:
        self._listener = listener
        self._disposer = disposer
        self._spent = False

    def __call__(self, *args: Any) -> Any:
        if self._spent:
            # A dispatch that began earlier still has it in its list; in a waterfall the chain goes on.
            rest = args[-1] if args else None
            return cast("Next[Any]", rest)() if isinstance(rest, Next) else None
        self._spent = True
        self._disposer()
        return self._listener(*args)


def create_context() -> Context:
    """Return a new root context: an application of its own, with no plugins, services or listeners."""
    services = ServiceRegistry()
    fiber = Fiber("root", "the root context", None, services)
    context = Context(fiber, HookBus(), services)
    fiber.mount(context, ())
    return context
