"""What would come of a question, and who it was that answered one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ...kernel.hooks import Listener, run_waterfall
from ...kernel.markers import effects_of
from ...pipeline import Foreseen
from ..agents import session_of
from .records import ApprovalAnswer, ApprovalRequest

if TYPE_CHECKING:
    from ...kernel.context import Context
    from ...session.durable import JournalService
    from ...session.log import EventLog
    from ...tools.execution import AgentLike
    from .records import Outcome

__all__ = ["asked_of", "foresee", "waiting_of"]

_WITHOUT_SESSION = "the call is denied, because it has no session to wait in; in a session that is kept it would wait"


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


def foresee(
    *,
    never: bool,
    remembered: Outcome | None,
    listeners: Sequence[Listener],
    served: bool,
    waiting: str | None,
) -> Foreseen:
    """Say what would come of a question, in the order in which it would be decided (HOST-86)."""
    if never:
        return Foreseen("rejected", "approvals are switched off for this session")
    free = [listener for listener in listeners if effects_of(listener.fn) == "free"]
    if free and remembered == "allowed-once":
        return Foreseen("allowed-once", "it was answered earlier in this session")
    if free and remembered == "rejected":
        return Foreseen("rejected", "it was answered earlier in this session")
    suspended = waiting is not None and waiting is not _WITHOUT_SESSION
    if served or len(free) < len(listeners):
        return Foreseen(
            "asked", f"a person is asked; without an answer {waiting}" if suspended else "a person is asked"
        )
    if suspended:
        return Foreseen("suspended", f"nobody is there to answer; {waiting}")
    return Foreseen("unavailable", f"nobody is there to answer; {waiting or 'the call is denied'}")
