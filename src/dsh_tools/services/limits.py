"""How often and how many at once: limits on calls, tool by tool.

Mount it with rules; in ``dsh.yaml`` they look like this::

    plugins:
      - use: dsh_tools.services:LimitsPlugin
        config:
          limits:
            - {tool: "web_*", max_calls: 30, per_ms: 60000}
            - {tool: bash, max_concurrent: 2, when_exceeded: deny}

All rules whose pattern matches a tool apply to its calls, each counted over all tools that the rule matches, or
for each agent apart with ``per_agent``. A call that would be too much **waits** in line, first come first served, or
is **denied**: a failed call with the code ``RATE_LIMITED`` that says when to try again. Waiting ends as soon as the
call's signal fires, and after ``max_wait_ms`` in a denial. A call that gives up leaves nothing behind.

Only the body and the wrappers inside count: whoever waits for approval holds no place. The plugin's wrapper goes around
those registered before it, so a time limit does not run while a call waits in line.

A call that is made on behalf of another one which holds a place of the same rule needs no second place, since the
two would wait for each other for ever; it counts for the rate.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Literal

import pydantic

from ..errors import HarnessError
from ..kernel.abort import MAX_TIMEOUT_MS
from ..tools.events import EXECUTE
from ..tools.result import ErrorInfo, ToolResult, failure
from .gate import Gate
from .policy.globs import Glob

if TYPE_CHECKING:
    from ..kernel.context import Context
    from ..kernel.hooks import Next
    from ..tools.execution import CallToken, ToolExecution

__all__ = ["LimitConfig", "LimitsConfig", "LimitsPlugin"]


class LimitConfig(pydantic.BaseModel):
    """One limit.

    Parameters:
        tool: a pattern over tool names, as in policy rules.
        max_concurrent: how many calls may run at once.
        max_calls: how many calls may begin within ``per_ms`` milliseconds.
        per_ms: the time that ``max_calls`` is about.
        per_agent: count for each agent apart; calls without an agent count together.
        when_exceeded: ``wait`` in line, or ``deny`` at once.
        max_wait_ms: how long to wait at most, in milliseconds; without it, for as long as it takes.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    tool: str = "*"
    max_concurrent: int | None = pydantic.Field(default=None, ge=1, strict=True)
    max_calls: int | None = pydantic.Field(default=None, ge=1, strict=True)
    per_ms: float = pydantic.Field(default=1_000, gt=0, allow_inf_nan=False)
    per_agent: bool = False
    when_exceeded: Literal["wait", "deny"] = "wait"
    max_wait_ms: float | None = pydantic.Field(default=None, gt=0, le=MAX_TIMEOUT_MS, allow_inf_nan=False)

    @pydantic.model_validator(mode="after")
    def _limits_something(self) -> LimitConfig:
        if self.max_concurrent is None and self.max_calls is None:
            raise ValueError("a limit needs max_concurrent or max_calls")
        Glob(self.tool)
        return self


class LimitsConfig(pydantic.BaseModel):
    """Configuration of the limits."""

    model_config = pydantic.ConfigDict(extra="forbid")

    limits: list[LimitConfig] = pydantic.Field(default_factory=list[LimitConfig])


class LimitsPlugin:
    """Keeps the configured limits."""

    name = "limits"
    Config = LimitsConfig

    def apply(self, ctx: Context, config: LimitsConfig) -> None:
        """Mount the wrapper; when the plugin goes, everybody who waits goes through."""
        if config.limits:
            limits = _Limits([_Limit(limit) for limit in config.limits])
            ctx.effect(lambda: limits.open, "limits")
            ctx.on(EXECUTE, limits.execute, prepend=True)


class _Exceeded(HarnessError):
    default_code = "RATE_LIMITED"

    def __init__(self, message: str) -> None:
        super().__init__(message, name="RateLimitError")


class _Limit:
    """One rule, and the gates that keep it."""

    def __init__(self, config: LimitConfig) -> None:
        self.config = config
        self._glob = Glob(config.tool)
        self._shared = self._new_gate()
        self._by_agent: weakref.WeakKeyDictionary[Any, Gate] = weakref.WeakKeyDictionary()

    def matches(self, name: str) -> bool:
        return self._glob.matches(name)

    def gate_for(self, agent: object) -> Gate:
        if agent is None or not self.config.per_agent:
            return self._shared
        gate = self._by_agent.get(agent)
        if gate is None:
            gate = self._by_agent[agent] = self._new_gate()
        return gate

    def open(self) -> None:
        for gate in (self._shared, *self._by_agent.values()):
            gate.open()

    def _new_gate(self) -> Gate:
        return Gate(self.config.max_concurrent, self.config.max_calls, self.config.per_ms / 1000)


class _Limits:
    def __init__(self, limits: list[_Limit]) -> None:
        self._limits = limits
        # What is running: who made each call, and the gates it went through.
        self._parents: dict[CallToken, CallToken | None] = {}
        self._held: dict[CallToken, list[Gate]] = {}

    async def execute(self, execution: ToolExecution, next: Next[ToolResult]) -> ToolResult:
        """Go through every gate that is in the way of this call, run the rest, and come back out."""
        token = execution.token
        outermost = token not in self._parents
        self._parents[token] = execution.parent
        try:
            async with contextlib.AsyncExitStack() as held:
                for limit in self._limits:
                    if limit.matches(execution.name):
                        await held.enter_async_context(self._through(limit, execution))
                return await next()
        except _Exceeded as exceeded:
            return failure(exceeded.message, ErrorInfo(exceeded.name, exceeded.code))
        finally:
            if outermost:
                del self._parents[token]

    @contextlib.asynccontextmanager
    async def _through(self, limit: _Limit, execution: ToolExecution) -> AsyncGenerator[None]:
        gate = limit.gate_for(execution.agent)
        again = self._holds(execution.parent, gate)
        config = limit.config
        if config.when_exceeded == "deny":
            entered = gate.try_enter(again=again)
        else:
            max_wait = None if config.max_wait_ms is None else config.max_wait_ms / 1000
            entered = await gate.enter(execution.signal, max_wait, again=again)
        # A call that gave up in line goes on: the pipeline sees the signal and runs no body.
        if not entered and not execution.signal.aborted:
            raise _Exceeded(_message(execution.name, config, gate.seconds_until_entry()))
        held = self._held.setdefault(execution.token, [])
        held.append(gate)
        try:
            yield
        finally:
            held.remove(gate)
            if not held:
                self._held.pop(execution.token, None)
            if entered:
                gate.leave()

    def _holds(self, token: CallToken | None, gate: Gate) -> bool:
        """Whether the call that made this one, or one further out, went through the gate."""
        while token is not None:
            if gate in self._held.get(token, ()):
                return True
            token = self._parents.get(token)
        return False

    def open(self) -> None:
        for limit in self._limits:
            limit.open()


def _message(name: str, config: LimitConfig, seconds: float | None) -> str:
    if seconds is not None:
        return (
            f'tool "{name}" may be called {config.max_calls} times in {config.per_ms:g}ms; try again in {seconds:.1f} s'
        )
    return f'tool "{name}" may run {config.max_concurrent} times at once; try again when a call has ended'
