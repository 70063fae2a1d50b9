"""What would come of a question, and who it was that answered one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from ...errors import describe_exception
from ...kernel.hooks import Listener, run_waterfall
from ...kernel.markers import effects_of
from ...pipeline import Foreseen
from ..agents import session_of
from .records import ApprovalAnswer, ApprovalRequest, read_answer

if TYPE_CHECKING:
    from ...kernel.context import Context
    from ...session.durable import JournalService
    from ...session.log import EventLog
    from ...tools.execution import AgentLike

__all__ = ["asked_of", "foresee", "waiting_of"]

_WITHOUT_SESSION = "the call is denied, because it has no session to wait in; in a session that is kept it would wait"
_DENIED = "the call is denied"
_OPEN: Final = ApprovalAnswer("unavailable")
"""Stands for what a person, or an answerer that must not be asked, would say."""


async def asked_of(
    listeners: Sequence[Listener], request: ApprovalRequest, desks: Callable[[], Awaitable[ApprovalAnswer]]
) -> tuple[object, str | None]:
    """Put a question to the answerers, then to the desks; return what was given, and which answerer gave it."""
    given_by: list[tuple[object, str]] = []
    from_desk: list[object] = []

    async def ask_desks() -> ApprovalAnswer:
        answer = await desks()
        from_desk.append(answer)
        return answer

    def note(listener: Listener, outcome: Any) -> None:
        given_by.append((outcome, listener.name))

    given: object = await run_waterfall(listeners, request, ask_desks, note)
    if any(given is answer for answer in from_desk):
        return given, None
    # The innermost one that returned it; those further out only handed it on.
    return given, next((name for outcome, name in given_by if outcome is given), None)


def waiting_of(context: Context, agent: AgentLike, suspend_after: float | None) -> str | None:
    """Say what becomes of a call that nobody answers in time, where it is not denied: it is suspended (D34)."""
    keeper = cast("JournalService | None", context.get("journal"))
    if suspend_after is None or keeper is None:
        return None
    log = cast("EventLog | None", session_of(agent))
    if log is None:
        return _WITHOUT_SESSION
    at_once = "" if suspend_after == 0 else f" after {suspend_after:g} s"
    return f"the call waits{at_once}, and goes on when its turn is resumed" if keeper.keeps(log) else None


async def foresee(
    request: ApprovalRequest, *, never: bool, listeners: Sequence[Listener], served: bool, waiting: str | None
) -> Foreseen:
    """Say what would come of a question, in the order in which it would be decided (HOST-86).

    Answerers that are marked as free of effects are asked, remembered answers among them; of the others it is not
    known what they would say.
    """
    if never:
        return Foreseen("rejected", "approvals are switched off for this session")
    foresight = _Foresight(listeners)
    known = await foresight.answer(request)
    if known is not None:
        return known
    suspended = waiting is not None and waiting is not _WITHOUT_SESSION
    if served or foresight.met_others:
        return Foreseen(
            "asked", f"a person is asked; without an answer {waiting}" if suspended else "a person is asked"
        )
    if suspended:
        return Foreseen("suspended", f"nobody is there to answer; {waiting}")
    return Foreseen("unavailable", f"nobody is there to answer; {waiting or _DENIED}")


class _Foresight:
    """Asks the answerers that may be asked at any time, up to the first one that may not.

    ``met_others`` says that there was such a one, so that the outcome depends on it.
    """

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self.met_others = False
        self._listeners: list[Listener] = []
        for listener in listeners:
            effects = effects_of(listener.fn)
            if effects == "unknown":
                self._listeners.append(Listener(self._meet_others, name=listener.name))
                break
            if effects == "free":
                self._listeners.append(listener)

    async def answer(self, request: ApprovalRequest) -> Foreseen | None:
        """Return what comes of the question; None where that is up to somebody else."""
        try:
            given, by = await asked_of(self._listeners, request, self._meet_nobody)
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            return None if self.met_others else Foreseen("unavailable", _failing(describe_exception(error)))
        if self.met_others or given is _OPEN:
            return None
        answer = read_answer(given)
        if answer is None:
            return Foreseen("unavailable", f"the answer is none that exists; {_DENIED}")
        return _foreseen(answer, answer.by or by)

    def _meet_others(self, _request: ApprovalRequest, _next: object) -> ApprovalAnswer:
        self.met_others = True
        return _OPEN

    async def _meet_nobody(self) -> ApprovalAnswer:
        return _OPEN


def _foreseen(answer: ApprovalAnswer, by: str | None) -> Foreseen:
    """What an answer that is known already would do to the call."""
    said = answer.reason or f"{by} answers"
    if answer.outcome == "cancelled":
        return Foreseen("rejected", f'the answer is "cancelled": {said}')
    return Foreseen(answer.outcome, f"{said}; {_DENIED}" if answer.outcome == "unavailable" else said)


def _failing(text: str) -> str:
    return f"an answerer fails: {text}; {_DENIED}"
