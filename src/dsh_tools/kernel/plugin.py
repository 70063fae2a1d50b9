"""Fibers: one mounted plugin each, from waiting for its services to its disposal (HOST-2 to 7, 16 to 19)."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ..errors import InactiveEffectError
from .activity import activity, is_inside
from .completion import Completion
from .effect import Disposer, EffectBody, Lifetime, Owner
from .state import Changes, FiberState
from .tasks import as_failure, outlast

if TYPE_CHECKING:
    from .context import Context
    from .recipe import Recipe
    from .service import ServiceRecord, ServiceRegistry, Slot

__all__ = ["Fiber"]

_log = logging.getLogger("dsh_tools")


_CLOSED = {
    FiberState.UNLOADING: "is unloading",
    FiberState.DISPOSED: "is disposed",
    FiberState.FAILED: "has failed",
}


class Fiber(Lifetime, Owner):
    """One instance of a plugin, or what backs the root context or a scope.

    All transitions are made by one driver task, which exists only while there is something to
    do, so that loading and unloading never overlap.
    """

    __slots__ = (
        "_awaiting",
        "_body",
        "_changes",
        "_driver",
        "_effects",
        "_ending",
        "_lineage",
        "_recipe",
        "_services",
        "_setup_errors",
        "_setups",
        "_slots",
        "_state",
        "_tried",
        "bindings",
        "config",
        "context",
        "error",
        "name",
        "parent",
    )

    context: Context
    """The context that the plugin's body gets."""

    def __init__(
        self,
        name: str,
        label: str,
        parent: Fiber | None,
        services: ServiceRegistry,
        recipe: Recipe | None = None,
        config: object = None,
    ) -> None:
        super().__init__(label, {} if parent is None else parent.effects)
        self.name = name
        self.parent = parent
        self.config = config
        self.error: BaseException | None = None
        self.bindings: dict[Slot, ServiceRecord] = {}
        self._recipe = recipe
        self._services = services
        self._slots: tuple[Slot, ...] = ()
        self._lineage: tuple[Fiber, ...] = (self, *(() if parent is None else parent.lineage))
        self._state = FiberState.ACTIVE if recipe is None else FiberState.PENDING
        self._effects: dict[Lifetime, None] = {}
        self._setups: set[Disposer] = set()
        self._setup_errors: list[Exception] = []
        self._driver: asyncio.Task[None] | None = None
        self._body: asyncio.Task[object] | None = None
        self._ending = False
        self._tried: dict[Slot, ServiceRecord] | None = None
        self._changes = Changes()
        self._awaiting = 0

    def __repr__(self) -> str:
        return f"<Fiber {self.label}, {self._state.value}>"

    def __await__(self) -> Generator[Any, None, Fiber]:
        return self._settled().__await__()

    def __del__(self) -> None:
        if self.parent is None and self._effects:
            labels = ", ".join(lifetime.label for lifetime in self._effects)
            warnings.warn(
                f"a context was collected with {len(self._effects)} effects pending ({labels}); await its dispose()",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def mount(self, context: Context, slots: tuple[Slot, ...]) -> None:
        """Take over the context made for this fiber, and start when these services are there (HOST-4)."""
        self.context = context
        self._slots = slots
        self._services.watch(self, slots)
        self.wake()

    # ── being looked at ───────────────────────────────────────────────────────

    @property
    def state(self) -> FiberState:
        """Where the fiber is in its life."""
        return self._state

    @property
    def is_active(self) -> bool:
        """Whether the body has run and nothing has ended since."""
        return self._state is FiberState.ACTIVE

    @property
    def lineage(self) -> tuple[Fiber, ...]:
        """This fiber and its ancestors, itself first."""
        return self._lineage

    @property
    def effects(self) -> dict[Lifetime, None]:
        """What the fiber owns, oldest first: effects and child fibers. Not to be changed from outside."""
        return self._effects

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of services that the fiber needs and that are not available now."""
        return tuple(slot[0] for slot in self._slots if self._services.bindings([slot]) is None)

    async def ready(self) -> Fiber:
        """Wait until the fiber is ACTIVE, also through a wait for missing services.

        Awaiting the fiber itself does less: it returns once there is nothing to wait for at the
        moment, which includes a fiber that is PENDING because a service is missing.

        Raises:
            InactiveEffectError: the fiber was disposed of.
            Exception: what config validation or the body raised.
        """
        self._awaiting += 1
        try:
            while not self.is_active and not is_inside(self):
                if self._state is FiberState.DISPOSED:
                    raise InactiveEffectError(f"{self.label} is disposed")
                if self._state is FiberState.FAILED and self.error is not None:
                    raise self.error
                await self._changes.next()
        finally:
            self._awaiting -= 1
        return self

    def dispose(self) -> Completion:
        """Undo every effect in reverse order, child fibers included, and end the fiber (HOST-17, D14).

        The disposal runs also if nobody awaits it; all callers get the same completion (D13). A
        body that is still loading is cancelled. The root is empty and usable again afterwards (HOST-19).

        Awaiting it raises an ``ExceptionGroup`` of all failed cleanups.
        """
        asyncio.get_running_loop()
        return self.end()

    # ── owning effects ────────────────────────────────────────────────────────

    def check_open(self, what: str) -> None:
        """Refuse registrations on a fiber that is ending or has failed (HOST-16).

        Raises:
            InactiveEffectError: code ``INACTIVE_EFFECT``.
        """
        closed = _CLOSED.get(self._state) or ("is being disposed" if self._ending else None)
        if closed is not None:
            raise InactiveEffectError(f"cannot register {what}: {self.label} {closed}")

    def effect(self, body: EffectBody, label: str) -> Disposer:
        """Run an effect's body and own what undoes it; see :meth:`Context.effect`."""
        self.check_open(label)
        disposer = Disposer(self, self._effects, label)
        disposer.run(body)
        return disposer

    def setup_started(self, effect: Disposer) -> None:
        """An effect's body goes on asynchronously; loading waits for it."""
        self._setups.add(effect)

    def setup_ended(self, effect: Disposer, error: Exception | None) -> None:
        """Such a body has ended; a failure that nobody awaited fails the loading, or is logged."""
        self._setups.discard(effect)
        if error is not None and self._state is FiberState.LOADING:
            self._setup_errors.append(error)
        elif error is not None:
            _log.error('effect "%s" of %s failed', effect.label, self.label, exc_info=error)
        self._changes.announce()

    # ── moving on ─────────────────────────────────────────────────────────────

    def wake(self) -> None:
        """Start what has become necessary: loading, unloading, or the end."""
        if self._driver is None:
            if self._ending or self._wants_change():
                self._driver = asyncio.get_running_loop().create_task(self._drive())
        elif self._state is FiberState.LOADING and self._is_stale():
            body, self._body = self._body, None
            if body is not None:
                body.cancel()
            self._changes.announce()

    def _wants_change(self) -> bool:
        if self._recipe is None:
            return False
        wanted = self._services.bindings(self._slots)
        if self._state is FiberState.ACTIVE:
            return wanted != self.bindings
        if self._state is FiberState.FAILED:
            return wanted is not None and wanted != self._tried
        return self._state is FiberState.PENDING and wanted is not None

    def _is_stale(self) -> bool:
        return self._ending or self._services.bindings(self._slots) != self.bindings

    async def _drive(self) -> None:
        failures: list[Exception] = []
        try:
            while not self._ending and self._wants_change():
                if self._state is FiberState.ACTIVE:
                    failures = await self._unload()
                    self._enter(FiberState.PENDING)
                else:
                    failures = await self._load()
                if not self._ending:
                    self._report(failures)
                    failures = []
            if self._ending:
                failures = failures + await self._unload()
        finally:
            self._driver = None
            if self._ending:
                self._conclude(failures)
            self._changes.announce()

    async def _load(self) -> list[Exception]:
        """Run the body with the services as they are now; return the failures of undoing it."""
        self._tried = self.bindings = self._services.bindings(self._slots) or {}
        for record in self.bindings.values():
            record.users[self] = None
        self.error = None
        self._setup_errors = []
        self._enter(FiberState.LOADING)
        error = await self._run_body()
        if self._ending:
            self._report_interrupted(error)
            return []
        if self._is_stale():
            self._report_interrupted(error)
            failures = await self._unload()
            self._enter(FiberState.PENDING)
            return failures
        if error is None:
            self._enter(FiberState.ACTIVE)
            self._services.provider_changed(self)
            return []
        self.error = error
        failures = await self._unload()
        if not self._awaiting:
            _log.error("%s failed to load", self.label, exc_info=error)
        self._enter(FiberState.FAILED)
        return failures

    async def _run_body(self) -> BaseException | None:
        """Validate the config, run the body and wait for its async effects; return what failed (HOST-5, 6)."""
        recipe = self._recipe
        assert recipe is not None
        try:
            config = recipe.validate(self.config)
        except Exception as error:
            return error
        body = self._body = asyncio.get_running_loop().create_task(self._call_body(recipe, config))
        await outlast(body)
        self._body = None
        if body.cancelled():
            return as_failure(asyncio.CancelledError(), self.label)
        if body.exception() is not None:
            return body.exception()
        while self._setups and not self._is_stale():
            await self._changes.next_surely()
        errors = self._setup_errors
        return (
            ExceptionGroup(f"effects of {self.label} failed", errors) if len(errors) > 1 else next(iter(errors), None)
        )

    async def _call_body(self, recipe: Recipe, config: object) -> None:
        with activity(self._lineage):
            outcome = await recipe.run(self.context, config)
            # A returned effect or fiber is owned already.
            if outcome is None or isinstance(outcome, Lifetime):
                return
            if not callable(outcome):
                raise TypeError(f"{self.label} returned {type(outcome).__name__}; expected a cleanup function or None")
            self.effect(lambda: outcome, "the returned cleanup")

    async def _unload(self) -> list[Exception]:
        """Undo everything, the newest first, after dependents have let go (D14, HOST-39); return the failures."""
        self._enter(FiberState.UNLOADING)
        failures: list[Exception] = []
        with activity(self._lineage):
            for record in self._services.provider_changed(self):
                await record.released()
            while self._effects:
                lifetime = next(reversed(self._effects))
                failures.extend(await lifetime.end(joining=True).joined())
                self._effects.pop(lifetime, None)
        bindings, self.bindings = self.bindings, {}
        for record in bindings.values():
            record.release(self)
        return failures

    def _new_completion(self) -> Completion:
        return Completion(self, self.label, as_group=True)

    def _begin_end(self, completion: Completion) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError as error:
            self._completion = None
            completion.finish([as_failure(error, self.label)])
            return
        self._ending = True
        if self._state is not FiberState.LOADING:
            self._enter(FiberState.UNLOADING)
        self.wake()

    def _conclude(self, failures: list[Exception]) -> None:
        completion, self._ending = self._completion, False
        if self.parent is None:
            self._completion = None
            self._enter(FiberState.ACTIVE)
        else:
            self._services.unwatch(self, self._slots)
            self.leave_owner()
            self._enter(FiberState.DISPOSED)
        if completion is not None:
            completion.finish(failures)

    # ── telling ───────────────────────────────────────────────────────────────

    async def _settled(self) -> Fiber:
        self._awaiting += 1
        try:
            while self._driver is not None and not is_inside(self):
                await self._changes.next()
        finally:
            self._awaiting -= 1
        if self._state is FiberState.FAILED and self.error is not None:
            raise self.error
        return self

    def _enter(self, state: FiberState) -> None:
        self._state = state
        self._changes.announce()

    def _report_interrupted(self, error: BaseException | None) -> None:
        # Our own cancellation of the body is not news; anything else it raised is.
        if error is not None and not isinstance(error.__cause__, asyncio.CancelledError):
            _log.error("%s failed while its loading was given up", self.label, exc_info=error)

    def _report(self, failures: list[Exception]) -> None:
        for failure in failures:
            _log.error("unloading %s: a cleanup failed", self.label, exc_info=failure)
