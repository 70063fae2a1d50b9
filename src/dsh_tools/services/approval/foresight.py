"""What would come of a question, and who it was that answered one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...kernel.hooks import Listener, run_waterfall
from ...kernel.markers import effects_of
from ...pipeline import Foreseen
from .records import ApprovalAnswer, ApprovalRequest

if TYPE_CHECKING:
    from .records import Outcome

__all__ = ["asked_of", "foresee"]


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


def foresee(
    request: ApprovalRequest,
    *,
    never: bool,
    remembered: Outcome | None,
    listeners: Sequence[Listener],
    served: bool,
) -> Foreseen:
    """Say what would come of a question, in the order in which it would be decided (HOST-86)."""
    if never:
        return Foreseen("rejected", "approvals are switched off for this session")
    free = [listener for listener in listeners if effects_of(listener.fn) == "free"]
    if free and remembered == "allowed-once":
        return Foreseen("allowed-once", "it was answered earlier in this session")
    if free and remembered == "rejected":
        return Foreseen("rejected", "it was answered earlier in this session")
    if served or len(free) < len(listeners):
        return Foreseen("asked", "a person is asked")
    return Foreseen("unavailable", "nobody is there to answer; the call is denied")
