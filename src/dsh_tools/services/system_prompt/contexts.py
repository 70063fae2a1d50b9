"""Runtime contexts as a message: sent when it differs from the last one that the model still sees (HOST-71)."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ...content import TextBlock
from ...messages import Message, MessageSource, UserMessage, user_message

if TYPE_CHECKING:
    from .records import AssembleRequest

__all__ = ["RUNTIME_CONTEXT", "runtime_context_update", "runtime_facts"]

RUNTIME_CONTEXT: Final = MessageSource("plugin", "runtime-context")
"""The source of the messages that carry runtime contexts."""

_HEADING = "[How things stand now; put in by the harness]"
_NONE = "[What was said about how things stand no longer holds; nothing takes its place]"


def runtime_context_update(messages: Iterable[Message], context: str) -> UserMessage | None:
    """Return the message to append after ``messages``, or None where the model has read it already.

    Parameters:
        messages: the history as the model will see it.
        context: :attr:`AssembledPrompt.context`. Where it has become empty the model is told once.
    """
    text = f"{_HEADING}\n{context}" if context else _NONE
    last = _last_text(messages)
    if text == last or (last is None and not context):
        return None
    return user_message(text, RUNTIME_CONTEXT)


def _last_text(messages: Iterable[Message]) -> str | None:
    found = None
    for message in messages:
        if isinstance(message, UserMessage) and message.source == RUNTIME_CONTEXT:
            found = "".join(block.text for block in message.content if isinstance(block, TextBlock))
    return found


def runtime_facts(today: Callable[[], datetime.date]) -> Callable[[AssembleRequest], str]:
    """Return the context that every agent gets: the date, the system, and the working directory if there is one."""

    def facts(request: AssembleRequest) -> str:
        lines = [f"Date: {today().isoformat()}", f"System: {platform.system()}"]
        header = getattr(getattr(request.agent, "session", None), "header", None)
        cwd = getattr(header, "cwd", None)
        if isinstance(cwd, str):
            lines.append(f"Working directory: {cwd}")
        return "\n".join(lines)

    return facts
