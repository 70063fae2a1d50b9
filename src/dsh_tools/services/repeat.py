"""Telling a model that it goes round in circles.

Mount it, and an agent that makes the same call several times in a row is told so::

    ctx.plugin(RepeatReminderPlugin(), {"thresholds": [3, 5, 8]})

The same call is the same tool with equal arguments, whatever the order of their keys. At the first threshold the
reminder is a gentle line; at the later ones it shows the arguments, too. It comes as context behind the results, and
changes none of them (HOST-141).

Every call of an agent counts, also one that was denied. Tools that ``exclude`` matches, or that ``include`` leaves
out, neither count nor start the count afresh; a message of the user's does start it afresh. Calls without an agent,
and calls that a program makes, are not looked at.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pydantic

from ..errors import LossyJsonError
from ..json_value import canonical_text
from ..messages import MessageSource, UserMessage, user_message
from ..tools.events import POST_EXECUTE, PostDecision, Review
from .agents import session_of
from .policy.globs import Glob

if TYPE_CHECKING:
    from ..kernel.context import Context
    from ..kernel.hooks import Next
    from ..tools.execution import AgentLike, ToolExecution

__all__ = ["RepeatReminderConfig", "RepeatReminderPlugin"]


class RepeatReminderConfig(pydantic.BaseModel):
    """Configuration of the reminder.

    Parameters:
        thresholds: after how many equal calls in a row to say something.
        include: patterns over tool names; where there are any, only these tools count.
        exclude: patterns over the names of tools that don't count.
        arguments_preview_chars: how many characters of the arguments a reminder shows.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    thresholds: list[int] = pydantic.Field(default=[3, 5, 8], min_length=1)
    include: list[str] = []
    exclude: list[str] = []
    arguments_preview_chars: int = pydantic.Field(default=500, ge=0, strict=True)

    @pydantic.field_validator("thresholds", mode="before")
    @classmethod
    def _check_thresholds(cls, value: Any) -> Any:
        if isinstance(value, list):
            numbers = cast("list[object]", value)
            if any(not isinstance(number, int) or isinstance(number, bool) or number < 2 for number in numbers):
                raise ValueError("thresholds must be integers of at least 2")
            if len(set(numbers)) != len(numbers):
                raise ValueError("thresholds must be different from each other")
        return cast("object", value)

    @pydantic.field_validator("include", "exclude")
    @classmethod
    def _check_patterns(cls, value: list[str]) -> list[str]:
        for pattern in value:
            Glob(pattern)
        return value


class RepeatReminderPlugin:
    """Reminds agents that repeat themselves."""

    name = "repeat-reminder"
    Config = RepeatReminderConfig

    def apply(self, ctx: Context, config: RepeatReminderConfig) -> None:
        """Register the listener."""
        ctx.on(POST_EXECUTE, _Reminder(config).review)


class _Streak:
    """How often an agent made its last call in a row, and how far its log has been read for user messages."""

    def __init__(self) -> None:
        self.call: tuple[str, str] | None = None
        self.count = 0
        self.read = 0


class _Reminder:
    def __init__(self, config: RepeatReminderConfig) -> None:
        self._thresholds = sorted(config.thresholds)
        self._include = [Glob(pattern) for pattern in config.include]
        self._exclude = [Glob(pattern) for pattern in config.exclude]
        self._preview_chars = config.arguments_preview_chars
        self._streaks: weakref.WeakKeyDictionary[Any, _Streak] = weakref.WeakKeyDictionary()

    async def review(self, review: Review, next: Next[PostDecision]) -> PostDecision:
        """Count the call; at a threshold, add a reminder before the contexts of the listeners further in."""
        execution = review.execution
        reminder = None
        if execution.agent is not None and execution.parent is None and self._counts(execution.name):
            reminder = self._count(execution.agent, execution)
        decision = await next()
        if reminder is None:
            return decision
        return msgspec.structs.replace(decision, additional_contexts=(reminder, *decision.additional_contexts))

    def _counts(self, name: str) -> bool:
        if self._include and not any(glob.matches(name) for glob in self._include):
            return False
        return not any(glob.matches(name) for glob in self._exclude)

    def _count(self, agent: AgentLike, execution: ToolExecution) -> UserMessage | None:
        streak = self._streaks.setdefault(agent, _Streak())
        arguments = _text_of(execution.arguments)
        call = (execution.name, arguments)
        if _user_has_spoken(agent, streak) or streak.call != call:
            streak.count = 0
        streak.call = call
        streak.count += 1
        return self._reminder(streak.count, execution.name, arguments) if streak.count in self._thresholds else None

    def _reminder(self, count: int, name: str, arguments: str) -> UserMessage:
        text = f'You have called "{name}" {count} times in a row with the same arguments.'
        if count == self._thresholds[0]:
            text += " If that does not get you further, try another way."
        else:
            preview = arguments[: self._preview_chars] + ("…" if len(arguments) > self._preview_chars else "")
            text += (
                f"\nThe arguments: {preview}\nThe results will not change by themselves. Say what you expected, "
                "then do something else, or ask the user."
            )
        return user_message(text, MessageSource("plugin", "repeat-reminder"))


def _text_of(arguments: Any) -> str:
    try:
        return canonical_text(arguments)
    except LossyJsonError:
        return repr(arguments)


def _user_has_spoken(agent: AgentLike, streak: _Streak) -> bool:
    log = session_of(agent)
    if log is None:
        return False
    heard = log.events[streak.read :]
    streak.read = len(log.events)
    return any(event.type == "user/message" and event.data["source"]["kind"] == "user" for event in heard)
