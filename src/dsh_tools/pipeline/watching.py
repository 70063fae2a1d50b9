"""Asking listeners and guards under the eyes of a trace. Calls that nobody traces never come here."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import UNSET

from ..errors import describe_exception
from ..kernel.hooks import Listener
from ..kernel.tasks import is_awaitable
from ..tools.events import Accept, Allow, Ask, Block, Deny
from ..tools.execution import ToolExecution
from ..tools.result import ToolFailure, ToolSuccess
from ..tools.trace import CallTrace, ConsultedKind
from .guards import Guard

__all__ = ["ask_guard", "guard_name", "watched"]


def watched(listeners: Sequence[Listener], trace: CallTrace, kind: ConsultedKind) -> tuple[Listener, ...]:
    """Return listeners that do what these do, and note in the trace what each of them said."""
    return tuple(
        Listener(_Watched(listener, trace, kind), listener.scope, name=listener.name, lineage=listener.lineage)
        for listener in listeners
    )


class _Watched:
    """A listener of a waterfall, and the trace that it is noted in."""

    __slots__ = ("_fn", "_kind", "_name", "_trace")

    def __init__(self, listener: Listener, trace: CallTrace, kind: ConsultedKind) -> None:
        self._fn = listener.fn
        self._name = listener.name
        self._trace = trace
        self._kind: ConsultedKind = kind

    async def __call__(self, subject: object, rest: Callable[[], Awaitable[Any]]) -> Any:
        trace = self._trace
        place = trace.open(self._kind, self._name)
        others = _Rest(rest, place, trace)
        began = time.perf_counter()
        try:
            outcome: Any = self._fn(subject, others)
            if is_awaitable(outcome):
                outcome = await outcome
        except BaseException as error:
            took = time.perf_counter() - began - others.seconds
            verdict = "passed" if error is others.raised else "raised"
            trace.close(place, verdict, None if verdict == "passed" else describe_exception(error), took * 1000)
            raise
        took = time.perf_counter() - began - others.seconds
        trace.close(place, *_said(outcome, others), took * 1000)
        return outcome


class _Rest:
    """What a watched listener gets as ``next``: runs the rest, and knows what that gave and how long it took."""

    __slots__ = ("_place", "_rest", "_trace", "gave", "raised", "seconds")

    def __init__(self, rest: Callable[[], Awaitable[Any]], place: int, trace: CallTrace) -> None:
        self._rest = rest
        self._place = place
        self._trace = trace
        self.gave: list[object] = []
        self.raised: BaseException | None = None
        self.seconds = 0.0

    async def __call__(self, *_ignored: object) -> Any:
        self._trace.heard_others.add(self._place)
        began = time.perf_counter()
        try:
            outcome = await self._rest()
        except BaseException as error:
            self.raised = error
            raise
        finally:
            self.seconds += time.perf_counter() - began
        self.gave.append(outcome)
        return outcome


def _said(outcome: object, others: _Rest) -> tuple[str, str | None]:
    """Return the verdict in what a listener returned, and its reason."""
    if any(outcome is given for given in others.gave):
        return "passed", None
    match outcome:
        case Allow():
            return "allow", None
        case Deny(reason=reason) | Ask(reason=reason):
            # A reason of another type is refused by whoever asked; here it must only not do harm.
            kind = "deny" if isinstance(outcome, Deny) else "ask"
            return kind, reason if isinstance(reason, str) else None
        case Accept():
            changes = outcome.value is not UNSET or outcome.content is not UNSET
            return "replace" if changes else "accept", None
        case Block():
            return "block", None
        case ToolSuccess() | ToolFailure():
            return "replaced" if others.gave else "answered", None
        case _:
            return "invalid", None


def guard_name(guard: Guard) -> str:
    """Return how a guard is called in traces and errors."""
    named: Any = guard if hasattr(guard, "__qualname__") else type(guard)
    return f"{named.__module__}.{named.__qualname__}"


def ask_guard(guard: Guard, execution: ToolExecution, trace: CallTrace) -> object:
    """Ask a guard, and note what it says."""
    place = trace.open("guard", guard_name(guard))
    began = time.perf_counter()
    try:
        reason: object = guard(execution)
    except BaseException as error:
        trace.close(place, "raised", describe_exception(error), (time.perf_counter() - began) * 1000)
        raise
    verdict = "passed" if reason is None else "deny" if isinstance(reason, str) else "invalid"
    text = reason if isinstance(reason, str) else None
    trace.close(place, verdict, text, (time.perf_counter() - began) * 1000)
    return reason
