"""Running a call again that failed, where that can do no harm.

Mount it, and calls of tools whose definition says ``idempotent=True`` are tried up to ``max_attempts`` times::

    ctx.plugin(RetryPlugin(), {"max_attempts": 3, "base_delay_ms": 200})

No other tool is ever tried twice: nobody but its author knows whether a call that failed has done something.

**What is retried.** Failures without a code, which is what unexpected exceptions give, and those whose code is in
``codes``: by default timeouts. What a tool says on purpose (``ToolError``), arguments, denials and cancellations stay.

**The pause** before attempt n is a random part of ``base_delay_ms * 2**(n-1)``, at most ``max_delay_ms``: exponential
backoff with full jitter. It ends at once when the call's signal fires, and then nothing is tried again.

**Other wrappers.** The plugin's wrapper goes around those that were registered before it, and each attempt runs them
again (D12): a time limit is each attempt's own. What all attempts deferred as context arrives (PIPE-133). Observers of
``tools/retry`` hear of each new attempt.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import pydantic
from msgspec import UNSET

from ..content import TextBlock
from ..errors import ToolTimeoutError
from ..kernel.hooks import EmitHook
from ..tools.events import EXECUTE
from ..tools.execution import ToolExecution
from ..tools.result import ToolFailure, ToolResult

if TYPE_CHECKING:
    from ..kernel.abort import AbortSignal
    from ..kernel.context import Context
    from ..kernel.hooks import Next

__all__ = ["TOOL_RETRY", "RetryConfig", "RetryPlugin"]

TOOL_RETRY: EmitHook[ToolExecution, int, ToolFailure] = EmitHook("tools/retry")
"""Observe that attempt number n begins (from 2 on), and the failure that is the reason."""


class RetryConfig(pydantic.BaseModel):
    """Configuration of the retries.

    Parameters:
        max_attempts: how often a call is run at most; 1 switches retries off.
        base_delay_ms: the longest pause before the second attempt, in milliseconds; it doubles with each further one.
        max_delay_ms: the longest pause of all, in milliseconds.
        codes: the error codes that are retried.
        retry_uncoded: also retry failures that carry no code.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    max_attempts: int = pydantic.Field(default=3, ge=1, strict=True)
    base_delay_ms: float = pydantic.Field(default=200, ge=0, allow_inf_nan=False)
    max_delay_ms: float = pydantic.Field(default=10_000, ge=0, allow_inf_nan=False)
    codes: list[str] = [ToolTimeoutError.default_code]
    retry_uncoded: bool = True


class RetryPlugin:
    """Retries failed calls of idempotent tools.

    Parameters:
        rng: gives a random number from 0 to 1, for the jitter.
    """

    name = "retry"
    inject = ("tools",)
    Config = RetryConfig

    def __init__(self, rng: Callable[[], float] = random.random) -> None:
        self._rng = rng

    def apply(self, ctx: Context, config: RetryConfig) -> None:
        """Mount the wrapper around those that are there."""
        ctx.on(EXECUTE, _Retry(ctx, config, self._rng).execute, prepend=True)


class _Retry:
    def __init__(self, ctx: Context, config: RetryConfig, rng: Callable[[], float]) -> None:
        self._ctx = ctx
        self._tools = ctx.tools
        self._config = config
        self._codes = frozenset(config.codes)
        self._rng = rng

    async def execute(self, execution: ToolExecution, next: Next[ToolResult]) -> ToolResult:
        """Run the rest of the chain until it succeeds, or there is no use in running it again."""
        definition = self._tools.get(execution.name, execution.scope)
        if definition is None or not definition.idempotent:
            return await next()
        signal = execution.signal
        for attempt in range(1, self._config.max_attempts + 1):
            result = await next()
            if not isinstance(result, ToolFailure) or not self._is_passing(result):
                return result
            if attempt == self._config.max_attempts or not await self._pause(attempt, signal):
                return _with_note(result, attempt)
            self._ctx.bus.emit(TOOL_RETRY, execution, attempt + 1, result, scope=execution.scope)
        raise AssertionError("the last attempt returns")

    def _is_passing(self, result: ToolFailure) -> bool:
        """Whether the failure may be gone at the next attempt."""
        info = result.error.info
        return self._config.retry_uncoded if info is UNSET else info.code in self._codes

    async def _pause(self, attempt: int, signal: AbortSignal) -> bool:
        """Wait before the next attempt; False where the signal has fired."""
        longest = min(self._config.max_delay_ms, self._config.base_delay_ms * 2 ** min(attempt - 1, 64))
        if not signal.aborted:
            try:
                async with asyncio.timeout(longest * self._rng() / 1000):
                    await signal.wait()
            except TimeoutError:
                pass
        return not signal.aborted


def _with_note(result: ToolFailure, attempts: int) -> ToolFailure:
    if attempts == 1:
        return result
    note = TextBlock(f"[{attempts} attempts failed; this is the last one's error]")
    return msgspec.structs.replace(result, content=(*result.content, note))
