"""How each kind of event calls its listeners: pure functions over a fixed tuple of listeners.

The bus only feeds them. Since the tuple never changes, a listener that is added or removed
during a dispatch affects later dispatches only (HOST-21).
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from ..errors import ListenerError
from .activity import activity
from .scope import Scope
from .tasks import as_coroutine, as_failure, finish, is_awaitable

__all__ = [
    "Listener",
    "Next",
    "run_bail",
    "run_emit",
    "run_parallel",
    "run_serial",
    "run_waterfall",
]

_log = logging.getLogger("dsh_tools")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)


class Listener:
    """One registration of a function on a hook; one function registered twice is two listeners (HOST-22).

    ``fn`` is what a dispatch calls, ``name`` is how logs and errors call it, ``scope`` is the tag
    that decides which dispatches reach it (None: all of them), ``lineage`` lists the lifetimes
    whose disposal waits for it.
    """

    __slots__ = ("fn", "lineage", "name", "scope")

    def __init__(
        self,
        fn: Callable[..., Any],
        scope: Scope | None = None,
        *,
        name: str | None = None,
        lineage: tuple[object, ...] = (),
    ) -> None:
        self.fn = fn
        self.name = name if name is not None else _qualified_name(fn)
        self.scope = scope
        self.lineage = lineage

    def __repr__(self) -> str:
        return f"<Listener {self.name}>"


class Next(Generic[_R_co]):
    """The rest of a waterfall, from one place in the chain on.

    Calling it runs that rest and gives its result; calling it again runs the same rest again
    (D12). Arguments are ignored: all links see the same subject (HOST-29).
    """

    __slots__ = ("_check", "_default", "_index", "_listeners", "_subject")

    def __init__(
        self,
        listeners: Sequence[Listener],
        index: int,
        subject: object,
        default: Callable[[], Awaitable[_R_co] | _R_co],
        check: Callable[[Listener, Any], object] | None,
    ) -> None:
        self._listeners = listeners
        self._index = index
        self._subject = subject
        self._default = default
        self._check = check

    async def __call__(self, *_ignored: object) -> _R_co:
        """Run the rest of the chain and return its result."""
        listeners, index = self._listeners, self._index
        if index == len(listeners):
            last: Any = self._default()
            return await last if is_awaitable(last) else last
        listener = listeners[index]
        rest = Next(listeners, index + 1, self._subject, self._default, self._check)
        outcome: Any = listener.fn(self._subject, rest)
        if is_awaitable(outcome):
            outcome = await outcome
        if self._check is not None:
            self._check(listener, outcome)
        return outcome


def run_waterfall(
    listeners: Sequence[Listener],
    subject: object,
    default: Callable[[], Awaitable[_R] | _R],
    check: Callable[[Listener, Any], object] | None = None,
) -> Coroutine[Any, Any, _R]:
    """Nest the listeners around ``default``, the first one outermost, and return what that one returns.

    A listener that doesn't call ``next`` cuts the rest off; one that raises raises through the
    outer ones, which may catch it (HOST-28, 30). Listeners and ``default`` may be sync or async.

    ``check(listener, outcome)``, if given, is called with each listener's outcome as soon as it
    is known, and may raise: the way to refuse an answer and name who gave it.
    """
    return Next(listeners, 0, subject, default, check)()


def run_emit(
    hook: str,
    listeners: Sequence[Listener],
    args: tuple[object, ...],
    running: dict[asyncio.Task[None], Listener],
) -> None:
    """Call every listener, each in a guard of its own; log failures and return nothing (D16, HOST-34).

    What an async listener returns is run as a task, and stays in ``running`` until it is done.
    """
    for listener in listeners:
        try:
            outcome = listener.fn(*args)
        # A CancelledError out of a synchronous call is a failure of the listener: nobody cancelled it.
        # Nor does a listener that calls sys.exit() keep the others from hearing of the event.
        except (Exception, asyncio.CancelledError, SystemExit, GeneratorExit) as error:
            _log_failure(hook, listener, args, error)
            continue
        if outcome is not None and is_awaitable(outcome):
            _schedule(hook, listener, args, outcome, running)


async def run_parallel(hook: str, listeners: Sequence[Listener], args: tuple[object, ...]) -> None:
    """Start every listener, wait for all, then raise all failures as one ``ExceptionGroup`` (HOST-26).

    A cancellation is handed on to the async listeners, and goes out after they have stopped.
    """
    outcomes: list[tuple[Listener, BaseException | asyncio.Task[object] | None]] = []
    for listener in listeners:
        try:
            outcome = listener.fn(*args)
        except (Exception, asyncio.CancelledError) as error:
            outcomes.append((listener, error))
            continue
        task = asyncio.create_task(as_coroutine(outcome)) if is_awaitable(outcome) else None
        outcomes.append((listener, task))
    await finish([outcome for _, outcome in outcomes if isinstance(outcome, asyncio.Task)])
    failures = [failure for entry in outcomes if (failure := _failure_of(*entry)) is not None]
    if failures:
        raise ExceptionGroup(f'{len(failures)} listeners of "{hook}" failed', failures)


async def run_serial(listeners: Sequence[Listener], args: tuple[object, ...]) -> Any:
    """Ask the listeners in order; return the first answer that is neither None nor False (HOST-27)."""
    for listener in listeners:
        outcome = listener.fn(*args)
        if is_awaitable(outcome):
            outcome = await outcome
        if outcome is not None and outcome is not False:
            return outcome
    return None


def run_bail(hook: str, listeners: Sequence[Listener], args: tuple[object, ...]) -> Any:
    """Do what :func:`run_serial` does, without awaiting (HOST-27).

    Raises:
        ListenerError: a listener is async, so that its answer can't be known in time.
    """
    for listener in listeners:
        outcome = listener.fn(*args)
        if is_awaitable(outcome):
            if isinstance(outcome, Coroutine):
                outcome.close()
            raise ListenerError(listener.name, hook, "an awaitable, but this event is synchronous")
        if outcome is not None and outcome is not False:
            return outcome
    return None


def _schedule(
    hook: str,
    listener: Listener,
    args: tuple[object, ...],
    outcome: Awaitable[object],
    running: dict[asyncio.Task[None], Listener],
) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError as error:
        if isinstance(outcome, Coroutine):
            outcome.close()
        _log_failure(hook, listener, args, error)
        return
    task = loop.create_task(_deliver(hook, listener, args, outcome))
    running[task] = listener
    task.add_done_callback(running.pop)


async def _deliver(hook: str, listener: Listener, args: tuple[object, ...], outcome: Awaitable[object]) -> None:
    with activity(listener.lineage):
        try:
            await outcome
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            _log_failure(hook, listener, args, error)
        except (Exception, SystemExit) as error:
            _log_failure(hook, listener, args, error)


def _failure_of(listener: Listener, outcome: BaseException | asyncio.Task[object] | None) -> Exception | None:
    if isinstance(outcome, asyncio.Task):
        outcome = asyncio.CancelledError() if outcome.cancelled() else outcome.exception()
    return None if outcome is None else as_failure(outcome, f"listener {listener.name}")


def _log_failure(hook: str, listener: Listener, args: tuple[object, ...], error: BaseException) -> None:
    # What the event is about, where its subject can say so in a few words (PIPE-181).
    label: object = getattr(args[0], "log_label", "") if args else ""
    about = f" ({label})" if label else ""
    _log.warning('listener "%s" of "%s"%s failed', listener.name, hook, about, exc_info=error)


def _qualified_name(fn: Callable[..., Any]) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func
    named: Any = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{named.__module__}.{named.__qualname__}"
