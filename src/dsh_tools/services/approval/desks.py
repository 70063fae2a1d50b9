"""Front ends that answer from elsewhere, and which agents' questions they serve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .records import ApprovalAnswer

if TYPE_CHECKING:
    from ...kernel.scope import Scope
    from .question import Question
    from .records import ApprovalRequest

__all__ = ["Desks"]


class Desks:
    """The desks that are open now.

    Parameters:
        pending: the questions that wait, by id; those that only wait for a desk end with the last one that serves them.
    """

    def __init__(self, pending: Mapping[str, Question]) -> None:
        self._pending = pending
        self._open: list[Scope | None] = []

    def open(self, scope: Scope | None) -> Callable[[], None]:
        """Open a desk for the agents of a scope, or for all; return what closes it."""
        self._open.append(scope)

        def close() -> None:
            self._open.remove(scope)
            for question in list(self._pending.values()):
                if question.waits_for_desk and not self.serve(question.request):
                    question.settle(ApprovalAnswer("unavailable"))

        return close

    def serve(self, request: ApprovalRequest) -> bool:
        """Whether a question would be seen at one of them."""
        scope = request.agent.scope
        chain = () if scope is None else scope.chain()
        return any(desk is None or desk in chain for desk in self._open)
