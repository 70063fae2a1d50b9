"""Effects: things done that know how to be undone, in strict reverse order (HOST-8 to 15, D14)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from typing import Any, TypeAlias, cast

from .activity import activity, is_inside
from .completion import Completion
from .tasks import as_failure, is_awaitable, outlast

__all__ = ["Cleanup", "Disposer", "EffectBody", "Lifetime", "Owner"]

_log = logging.getLogger("dsh_tools")


class Lifetime(ABC):
    """Something with an end that its owner waits for: an effect, or a fiber.

    ``label`` is how logs and errors call it. An effect may take it over from its owner by
    yielding or returning it (HOST-14).
    """

    __slots__ = ("__weakref__", "_completion", "_holder", "label")

    def __init__(self, label: str, holder: dict[Lifetime, None]) -> None:
        self.label = label
        self._completion: Completion | None = None
        self._holder: dict[Lifetime, None] = holder
        holder[self] = None

    def end(self, *, joining: bool = False) -> Completion:
        """Begin the disposal, unless it has begun, and return its completion; never raises.

        ``joining`` says that the caller looks at the completion's failures, so that they need no log.
        """
        completion = self._completion
        if completion is None:
            completion = self._completion = self._new_completion()
            completion.watched = joining
            self._begin_end(completion)
        return completion

    def leave_owner(self) -> None:
        """Take this lifetime off its owner's list, because it is over or has a new owner."""
        self._holder.pop(self, None)

    @abstractmethod
    def _new_completion(self) -> Completion: ...

    @abstractmethod
    def _begin_end(self, completion: Completion) -> None: ...


Cleanup: TypeAlias = Callable[[], object] | Lifetime
"""What undoes one step: a function, sync or async, or another effect or fiber."""

EffectBody: TypeAlias = Callable[
    [],
    Cleanup | Awaitable[Cleanup | None] | Iterator[Cleanup | None] | AsyncIterator[Cleanup | None] | None,
]
"""A body that does something and returns what undoes it, or yields one cleanup for each step (HOST-8)."""


class Owner(ABC):
    """What an effect needs of the fiber it belongs to."""

    __slots__ = ()

    @property
    @abstractmethod
    def lineage(self) -> tuple[object, ...]:
        """The fiber and its ancestors, itself first."""

    @abstractmethod
    def setup_started(self, effect: Disposer) -> None:
        """An effect's body goes on asynchronously."""

    @abstractmethod
    def setup_ended(self, effect: Disposer, error: Exception | None) -> None:
        """Such a body has ended; ``error`` is a failure that nobody awaited."""


class Disposer(Lifetime):
    """Undoes one effect, once.

    Calling it begins the cleanup, if that has not begun, and returns its :class:`Completion`,
    which an async cleanup is awaited by; a synchronous cleanup is over when the call returns,
    and raises its failure there. Further calls change nothing (HOST-9).

    Awaiting the disposer itself waits until an async body has done its work, and raises what
    failed in it.
    """

    __slots__ = ("_cleanups", "_error", "_owner", "_setup", "_task", "_watched")

    def __init__(self, owner: Owner, holder: dict[Lifetime, None], label: str) -> None:
        super().__init__(label, holder)
        self._owner = owner
        self._cleanups: list[Cleanup] = []
        self._setup: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        self._watched = False

    def __repr__(self) -> str:
        return f"<Disposer {self.label}>"

    def __call__(self) -> Completion:
        """Undo the effect.

        Raises:
            Exception: what a synchronous cleanup raised; several failures come as one ``ExceptionGroup``.
        """
        if self._completion is not None:
            return self._completion
        completion = self.end(joining=True)
        if completion.done:
            completion.throw()
        else:
            completion.watched = False
        return completion

    def __await__(self) -> Generator[Any, None, Disposer]:
        return self._ready().__await__()

    @property
    def disposed(self) -> bool:
        """Whether the cleanup has begun."""
        return self._completion is not None

    @property
    def setting_up(self) -> bool:
        """Whether an async body is still at work."""
        return self._setup is not None

    async def _ready(self) -> Disposer:
        if self._setup is not None and not is_inside(self):
            self._watched = True
            await asyncio.wait([self._setup])
        if self._error is not None:
            raise self._error
        return self

    # ── doing ─────────────────────────────────────────────────────────────────

    def run(self, body: EffectBody) -> None:
        """Run the body and collect its cleanups; a failure undoes the steps done and goes out (HOST-13)."""
        try:
            with activity(self._lineage()):
                outcome = body()
                if is_awaitable(outcome) and not isinstance(outcome, Lifetime):
                    self._set_up(self._collect_one(outcome), outcome)
                elif inspect.isasyncgen(outcome):
                    self._set_up(self._collect_later(outcome), None)
                elif inspect.isgenerator(outcome):
                    self._collect_all(outcome)
                else:
                    self.collect(outcome)
        except BaseException:
            self.end()
            raise

    def collect(self, cleanup: object) -> None:
        """Add one cleanup; those added later run earlier.

        Raises:
            TypeError: it is not something that can be called (HOST-8).
        """
        if cleanup is None:
            return
        if isinstance(cleanup, Lifetime):
            # By identity, so that the owner doesn't dispose of it a second time (HOST-14).
            cleanup.leave_owner()
        elif not callable(cleanup):
            raise TypeError(
                f'effect "{self.label}" gave {type(cleanup).__name__}; expected a cleanup function, an awaitable '
                "of one, a generator of them, or None"
            )
        self._cleanups.append(cast("Cleanup", cleanup))

    def _collect_all(self, steps: Generator[object]) -> None:
        try:
            for cleanup in steps:
                self.collect(cleanup)
        finally:
            steps.close()

    async def _collect_later(self, steps: AsyncGenerator[object]) -> None:
        try:
            async for cleanup in steps:
                self.collect(cleanup)
        finally:
            await steps.aclose()

    async def _collect_one(self, outcome: Awaitable[object]) -> None:
        self.collect(await outcome)

    def _set_up(self, setup: Coroutine[Any, Any, None], outcome: object) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            setup.close()
            if isinstance(outcome, Coroutine):
                outcome.close()
            raise
        self._owner.setup_started(self)
        self._setup = loop.create_task(self._finish_setup(setup))

    async def _finish_setup(self, setup: Coroutine[Any, Any, None]) -> None:
        try:
            with activity(self._lineage()):
                await setup
        except (Exception, asyncio.CancelledError) as error:
            self._error = as_failure(error, f'effect "{self.label}"')
        self._setup = None
        if self._error is not None and self._completion is None:
            await self.end().outlast()
        self._owner.setup_ended(self, None if self._watched else self._error)

    # ── undoing ───────────────────────────────────────────────────────────────

    def _new_completion(self) -> Completion:
        return Completion(self, f'effect "{self.label}"', as_group=False)

    def _begin_end(self, completion: Completion) -> None:
        failures: list[Exception] = []
        pending = self._undo(failures) if self._setup is None else outlast(self._setup)
        while pending is not None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError as error:
                if isinstance(pending, Coroutine):
                    pending.close()
                failures.append(as_failure(error, f'effect "{self.label}"'))
                pending = self._undo(failures)
                continue
            self._task = loop.create_task(self._undo_later(completion, pending, failures))
            return
        self._finish(completion, failures)

    def _undo(self, failures: list[Exception]) -> Awaitable[object] | None:
        """Run cleanups, the newest first, up to one that has to be awaited; return that one."""
        while self._cleanups:
            cleanup = self._cleanups.pop()
            if isinstance(cleanup, Lifetime):
                completion = cleanup.end(joining=True)
                if not completion.done:
                    return _join(completion, failures)
                failures.extend(completion.failures)
                continue
            try:
                with activity(self._lineage()):
                    outcome = cleanup()
            except (Exception, asyncio.CancelledError) as error:
                failures.append(as_failure(error, f'effect "{self.label}"'))
                continue
            over = isinstance(outcome, Completion) and outcome.done
            if is_awaitable(outcome) and not over:
                return outcome
        return None

    async def _undo_later(
        self, completion: Completion, pending: Awaitable[object] | None, failures: list[Exception]
    ) -> None:
        try:
            while pending is not None:
                try:
                    with activity(self._lineage()):
                        await pending
                except (Exception, asyncio.CancelledError) as error:
                    failures.append(as_failure(error, f'effect "{self.label}"'))
                pending = self._undo(failures)
        finally:
            self._finish(completion, failures)

    def _finish(self, completion: Completion, failures: list[Exception]) -> None:
        self.leave_owner()
        self._task = None
        completion.finish(failures)

    def _lineage(self) -> tuple[object, ...]:
        return (self, *self._owner.lineage)


async def _join(completion: Completion, failures: list[Exception]) -> None:
    failures.extend(await completion.joined())
