"""A model that is asked again when its provider fails for the moment."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from ..errors import AbortError, describe_exception
from ..kernel.abort import AbortSignal
from .base import Finish, ModelAdapter, ModelEvent, ModelFailed, ModelFailure, ModelRequest, Retrying
from .failures import stream_cut

__all__ = ["RetryPolicy", "RetryingModel"]


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When and how often a request is sent again.

    The n-th wait is between half and all of ``base_delay * 2**(n - 1)``, at most ``max_delay``.
    Where the provider says how long to wait, that is the least wait, if it is not too long.

    Parameters:
        attempts: how often a request is sent at most, the first time included.
        base_delay: the first wait, in seconds.
        max_delay: the longest wait of our own choosing, in seconds.
        max_retry_after: the longest wait a provider may ask for, in seconds; beyond it the request fails.
        after_output: also send again when part of an answer has come; what came is void then.
    """

    attempts: int = 5
    base_delay: float = 0.5
    max_delay: float = 30.0
    max_retry_after: float = 120.0
    after_output: bool = True

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.base_delay < 0 or self.max_delay < 0 or self.max_retry_after < 0:
            raise ValueError("attempts must be at least 1, and delays must not be negative")


class RetryingModel:
    """Wraps an adapter: a retryable failure becomes a ``Retrying`` event and another attempt.

    An adapter that breaks its contract by raising, or by ending without an end, is contained: that
    is a failure like others.

    Args:
        model: the adapter; closing this closes it.
        policy: see :class:`RetryPolicy`.
        chance: gives numbers from 0 to 1, for the jitter.
    """

    def __init__(
        self,
        model: ModelAdapter,
        policy: RetryPolicy | None = None,
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._policy = policy or RetryPolicy()
        self._chance = chance

    @property
    def name(self) -> str:
        """The wrapped model's name."""
        return self._model.name

    @property
    def accepts_images(self) -> bool:
        """Whether the wrapped model accepts images."""
        return self._model.accepts_images

    async def close(self) -> None:
        """Close the wrapped model."""
        await self._model.close()

    async def stream(self, request: ModelRequest, signal: AbortSignal) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model, again if need be; see :meth:`ModelAdapter.stream`."""
        attempt = 0
        while True:
            attempt += 1
            spoke = False
            failure: ModelFailure | None = None
            async with aclosing(_contained(self._model, request, signal)) as events:
                async for event in events:
                    if isinstance(event, ModelFailed):
                        failure = event.failure
                        break
                    spoke = True
                    yield event
                    if isinstance(event, Finish):
                        return
            if failure is None:
                failure = stream_cut("the model's stream ended without an end")
            if signal.aborted:
                yield Finish("aborted")
                return
            delay = self._delay(attempt, failure, spoke)
            if delay is None:
                yield ModelFailed(failure)
                return
            yield Retrying(attempt, delay, failure)
            if not await _slept(delay, signal):
                yield Finish("aborted")
                return

    def _delay(self, attempt: int, failure: ModelFailure, spoke: bool) -> float | None:
        """Return how long to wait before the next attempt, or None if there is none."""
        policy = self._policy
        if not failure.retryable or attempt >= policy.attempts or (spoke and not policy.after_output):
            return None
        longest = min(policy.max_delay, policy.base_delay * 2 ** min(attempt - 1, 60))
        delay = longest * (0.5 + self._chance() / 2)
        if failure.retry_after is None:
            return delay
        if failure.retry_after > policy.max_retry_after:
            return None
        # A little later than asked for, so that those who were told the same don't come at once.
        return max(delay, failure.retry_after * (1 + self._chance() / 10))


async def _contained(
    model: ModelAdapter, request: ModelRequest, signal: AbortSignal
) -> AsyncGenerator[ModelEvent, None]:
    try:
        async with aclosing(model.stream(request, signal)) as events:
            async for event in events:
                yield event
    except Exception as error:
        yield ModelFailed(ModelFailure("MODEL_ERROR", describe_exception(error)))


async def _slept(seconds: float, signal: AbortSignal) -> bool:
    """Sleep; False as soon as the signal fires."""
    try:
        async with signal.cancel_scope():
            await asyncio.sleep(seconds)
    except AbortError:
        return False
    return True
