"""Abort signals: cancellation as a value that travels with a call (design section 6).

Signals belong to the event loop's thread: ``abort()``, ``add_callback()`` and the bridges are
called there. A synchronous body in a worker thread only reads :attr:`AbortSignal.aborted` or
calls :meth:`AbortSignal.throw_if_aborted`, which are safe from any thread.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType

from ..errors import AbortError

__all__ = ["MAX_TIMEOUT_MS", "MAX_TIMEOUT_SECONDS", "NEVER", "AbortController", "AbortSignal", "CancelScope"]

_log = logging.getLogger("dsh_tools")

MAX_TIMEOUT_MS = 2_147_483_647
"""The longest timer accepted, in milliseconds: a signed 32-bit number (HOST-137)."""

MAX_TIMEOUT_SECONDS = MAX_TIMEOUT_MS / 1000
"""The same in seconds."""


class AbortSignal:
    """Tells whoever holds it that the work should stop; fires at most once.

    A signal is made by an :class:`AbortController`, by :meth:`any` or by :meth:`timeout`. The
    last two hold listeners or a timer and are closed when they are no longer needed; used as a
    context manager, a signal closes itself at the end of the block.
    """

    __slots__ = ("__weakref__", "_aborted", "_callbacks", "_fired_at", "_reason", "_release")

    def __init__(self) -> None:
        self._aborted = False
        self._reason: object = None
        self._fired_at: float | None = None
        self._callbacks: dict[object, Callable[[], object]] | None = None
        self._release: list[Callable[[], object]] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'aborted' if self._aborted else 'open'}>"

    def __enter__(self) -> AbortSignal:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def aborted(self) -> bool:
        """Whether the signal has fired. Safe to poll from any thread."""
        return self._aborted

    @property
    def reason(self) -> object:
        """What the first ``abort(reason)`` gave; None while the signal is open."""
        return self._reason

    @property
    def fired_at(self) -> float | None:
        """When the signal fired, in seconds of ``time.monotonic()``; None while it is open."""
        return self._fired_at

    @property
    def callback_count(self) -> int:
        """How many callbacks wait for the signal; 0 once it has fired. For leak checks."""
        return 0 if self._callbacks is None else len(self._callbacks)

    def throw_if_aborted(self) -> None:
        """Raise if the signal has fired. Safe to call from any thread.

        Raises:
            AbortError: the signal has fired; its cause is the reason, where that is an exception.
        """
        if self._aborted:
            raise self._error()

    def add_callback(self, callback: Callable[[], object]) -> Callable[[], object]:
        """Call ``callback()`` once when the signal fires, or at once if it has fired already.

        A callback that raises is logged and contained: it stops neither the other callbacks nor
        the caller of ``abort``.

        Returns:
            A function that removes the callback; calling it again does nothing.
        """
        if self._aborted:
            _call_contained(callback)
            return _nothing
        if self._callbacks is None:
            self._callbacks = {}
        # A key of its own for each entry, so that one function added twice is two entries.
        key = object()
        self._callbacks[key] = callback
        return partial(self._callbacks.pop, key, None)

    async def wait(self) -> None:
        """Wait until the signal fires."""
        if self._aborted:
            return
        fired = asyncio.get_running_loop().create_future()
        remove = self.add_callback(partial(_resolve, fired))
        try:
            await fired
        finally:
            remove()

    def cancel_scope(self) -> CancelScope:
        """Return an async context manager that cancels its block when the signal fires.

        The block gets ``CancelledError`` at its next await; leaving the block then raises
        ``AbortError``. A cancellation that came from elsewhere passes through as itself, also if
        the signal fires at the same time. A block that swallows the cancellation and ends in
        order ends in order here too. If the signal has fired before, the block is not entered.
        """
        return CancelScope(self)

    def close(self) -> None:
        """Let go of the sources or the timer behind this signal; it stays as it is from now on."""
        release, self._release = self._release, None
        if release is not None:
            for let_go in release:
                let_go()

    @staticmethod
    def any(signals: Iterable[AbortSignal]) -> AbortSignal:
        """Return a new signal that fires with the first of ``signals``, and with its reason.

        Close it when it is no longer needed, so that long-lived sources don't keep it.
        """
        fused = AbortSignal()
        sources = list(signals)
        for source in sources:
            if source.aborted:
                fused._fire(source.reason)
                return fused
        fused._release = [source.add_callback(partial(_forward, source, fused)) for source in sources]
        return fused

    @staticmethod
    def timeout(seconds: float) -> AbortSignal:
        """Return a signal that fires after ``seconds`` with a ``TimeoutError`` as its reason.

        Zero and negative numbers set no timer (HOST-137). Close the signal to clear the timer.

        Raises:
            ValueError: ``seconds`` is not a number, or longer than ``MAX_TIMEOUT_SECONDS``.
            RuntimeError: a timer is needed and no event loop is running.
        """
        if math.isnan(seconds) or seconds > MAX_TIMEOUT_SECONDS:
            raise ValueError(f"timeout must be at most {MAX_TIMEOUT_SECONDS} seconds, got {seconds}")
        signal = AbortSignal()
        if seconds > 0:
            reason = TimeoutError(f"timed out after {seconds} s")
            timer = asyncio.get_running_loop().call_later(seconds, signal._fire, reason)
            signal._release = [timer.cancel]
        return signal

    def _fire(self, reason: object) -> None:
        if self._aborted:
            return
        self._aborted = True
        self._reason = reason
        self._fired_at = time.monotonic()
        self.close()
        callbacks = self._callbacks
        # One by one, because a callback may remove one that has not run yet.
        while callbacks:
            _call_contained(callbacks.pop(next(iter(callbacks))))

    def _error(self) -> AbortError:
        reason = self._reason
        error = AbortError("aborted" if reason is None else f"aborted: {reason}")
        if isinstance(reason, BaseException):
            error.__cause__ = reason
        return error


class AbortController:
    """The sending end of a signal: whoever holds it can abort, whoever holds ``signal`` can only listen."""

    __slots__ = ("signal",)

    def __init__(self) -> None:
        self.signal: AbortSignal = AbortSignal()

    def abort(self, reason: object = None) -> None:
        """Fire the signal with ``reason``; only the first call counts (HOST-135).

        Call it in the event loop's thread; from elsewhere use ``loop.call_soon_threadsafe``.
        """
        self.signal._fire(reason)  # pyright: ignore[reportPrivateUsage]


class CancelScope:
    """What :meth:`AbortSignal.cancel_scope` returns; used once, with ``async with``."""

    __slots__ = ("_base", "_fired", "_remove", "_signal", "_task")

    def __init__(self, signal: AbortSignal) -> None:
        self._signal = signal
        self._task: asyncio.Task[object] | None = None
        self._base = 0
        self._fired = False
        self._remove: Callable[[], object] = _nothing

    async def __aenter__(self) -> None:
        self._signal.throw_if_aborted()
        task = asyncio.current_task()
        if task is None or self._task is not None:
            raise RuntimeError("a cancel scope is entered once, inside a task")
        self._task = task
        self._base = task.cancelling()
        self._remove = self._signal.add_callback(self._cancel)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._remove()
        task = self._task
        if not self._fired or task is None:
            return
        cancelled_elsewhere = task.uncancel() > self._base
        if not isinstance(error, asyncio.CancelledError):
            await self._take_pending(task)
        elif not cancelled_elsewhere:
            failure = self._signal._error()  # pyright: ignore[reportPrivateUsage]
            raise failure from (failure.__cause__ or error)

    def _cancel(self) -> None:
        self._fired = True
        if self._task is not None:
            self._task.cancel()

    async def _take_pending(self, task: asyncio.Task[object]) -> None:
        # If the signal fired after the block's last await, our cancellation is still on its way
        # and would hit an innocent await outside the block.
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if task.cancelling() > self._base:
                raise


class _NeverSignal(AbortSignal):
    """The signal of a caller that never aborts; it keeps no callbacks, so that sharing it leaks nothing."""

    __slots__ = ()

    def add_callback(self, callback: Callable[[], object]) -> Callable[[], object]:
        return _nothing


def _nothing() -> None:
    """Remove nothing: the callback has run already, or never will."""


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _forward(source: AbortSignal, target: AbortSignal) -> None:
    target._fire(source.reason)  # pyright: ignore[reportPrivateUsage]


def _call_contained(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:
        _log.exception("an abort callback failed")


NEVER: AbortSignal = _NeverSignal()
"""A shared signal that never fires."""
