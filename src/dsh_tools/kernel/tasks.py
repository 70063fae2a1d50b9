"""Waiting that loses nothing: small helpers around asyncio tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from types import CoroutineType
from typing import Any, TypeGuard, TypeVar

__all__ = ["as_coroutine", "as_failure", "finish", "is_awaitable", "outlast", "see_out"]

T = TypeVar("T")


def is_awaitable(value: object) -> TypeGuard[Awaitable[Any]]:
    """Whether ``value`` can be awaited; cheaper than ``inspect.isawaitable`` where it can't."""
    kind = type(value)
    return kind is CoroutineType or hasattr(kind, "__await__")


async def as_coroutine(awaitable: Awaitable[object]) -> object:
    """Await anything awaitable; for APIs that take coroutines only."""
    return await awaitable


async def finish(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Wait until every task is done, whatever it ends in.

    A cancellation meanwhile is handed on to the tasks, and goes out only after they have stopped;
    a second one is handed on too, and shortens nothing.
    """
    cancelled: asyncio.CancelledError | None = None
    while pending := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            cancelled = error
            for task in pending:
                task.cancel()
    if cancelled is not None:
        raise cancelled


async def outlast(task: asyncio.Future[Any]) -> None:
    """Wait until the task is done, whatever it ends in, and even if cancelled meanwhile; for cleanup only."""
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            continue


async def see_out(task: asyncio.Future[T]) -> T:
    """Wait until the task is done, even if cancelled meanwhile, and return its result.

    A cancellation goes out once the task is done, in place of its result or failure.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # so that nobody complains of one that was never looked at
    try:
        raise cancelled
    finally:
        cancelled = None  # its traceback holds this frame


def as_failure(error: BaseException, where: str) -> Exception:
    """Return ``error`` with a note that says where it was raised.

    A cancellation that nobody asked for becomes a ``RuntimeError``: an ``ExceptionGroup`` can't
    hold it, and raised further up it would look like a real one.
    """
    if not isinstance(error, Exception):
        failure = RuntimeError(f"ended in {type(error).__name__}")
        failure.__cause__ = error
        error = failure
    error.add_note(f"raised by {where}")
    return error
