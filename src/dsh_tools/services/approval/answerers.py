"""Ready-made answerers: functions from a request to an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ...kernel.tasks import is_awaitable
from .records import ApprovalAnswer, ApprovalRequest, Outcome

if TYPE_CHECKING:
    from ...kernel.hooks import Next

__all__ = ["AnswerLike", "Answerer", "always", "as_listener", "scripted"]

AnswerLike: TypeAlias = ApprovalAnswer | Outcome
"""An answer, or just its outcome."""

Answerer: TypeAlias = Callable[[ApprovalRequest], AnswerLike | Awaitable[AnswerLike | None] | None]
"""Answers a request, or returns None to leave it to the next answerer."""


def always(outcome: Outcome, reason: str | None = None) -> Answerer:
    """Return an answerer that gives everyone the same answer; what ``--yes`` uses."""
    answer = ApprovalAnswer(outcome, reason)
    return lambda _request: answer


def scripted(answers: Sequence[AnswerLike] | Mapping[str, AnswerLike | Sequence[AnswerLike]]) -> Answerer:
    """Return an answerer that plays prepared answers, for tests and demonstrations.

    Parameters:
        answers: a list, used up one by one; or, by tool name, one answer for all calls of that
            tool or a list for its calls in turn. Where nothing is left, others are asked.
    """
    if isinstance(answers, Mapping):
        lists = {name: _Script(given) for name, given in answers.items()}
        return lambda request: lists[request.tool_name].next() if request.tool_name in lists else None
    script = _Script(answers)
    return lambda _request: script.next()


class _Script:
    def __init__(self, answers: AnswerLike | Sequence[AnswerLike]) -> None:
        self._repeated = isinstance(answers, (str, ApprovalAnswer))
        self._answers: list[Any] = [answers] if isinstance(answers, (str, ApprovalAnswer)) else list(answers)

    def next(self) -> AnswerLike | None:
        if not self._answers:
            return None
        return self._answers[0] if self._repeated else self._answers.pop(0)


def as_listener(answerer: Answerer) -> Callable[[ApprovalRequest, Next[ApprovalAnswer]], Awaitable[Any]]:
    """Make an answerer a listener on ``approval/request``: None goes on to the next one."""

    async def listen(request: ApprovalRequest, next: Next[ApprovalAnswer]) -> Any:
        answer: Any = answerer(request)
        if is_awaitable(answer):
            answer = await answer
        return await next() if answer is None else answer

    listen.__qualname__ = getattr(answerer, "__qualname__", type(answerer).__qualname__)
    listen.__module__ = getattr(answerer, "__module__", __name__)
    return listen
