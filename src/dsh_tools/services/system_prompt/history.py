"""Fingerprints in the session log, so that it can be told later when and why a prefix changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from ..agents import session_of
from .explain import Fingerprint
from .records import SYSTEM_PROMPT_ASSEMBLED, AssembledPrompt, AssembleRequest

if TYPE_CHECKING:
    from ...kernel.context import Context
    from ...session.events import Event
    from ...session.protocol import SessionLog

__all__ = ["PROMPT_EVENT", "PromptHistoryPlugin", "kept_fingerprints"]

PROMPT_EVENT: Final = "prompt/assembled"
"""The event that keeps a fingerprint; readers that don't know it pass over it."""


class PromptHistoryPlugin:
    """Keeps, in each agent's session, the fingerprint of every prompt that differs from the one before.

    Only what is assembled within a step counts: that is what a provider gets.
    """

    name = "prompt-history"

    def apply(self, ctx: Context, config: object) -> None:
        """Listen to assemblies."""
        ctx.on(SYSTEM_PROMPT_ASSEMBLED, _keep)


def kept_fingerprints(events: Iterable[Event]) -> Iterator[tuple[Event, Fingerprint]]:
    """Yield the fingerprints of a session with the events that hold them, oldest first."""
    for event in events:
        if event.type == PROMPT_EVENT:
            yield event, msgspec.convert(event.data, Fingerprint)


def _keep(request: AssembleRequest, prompt: AssembledPrompt) -> None:
    log = session_of(request.agent)
    if log is None or log.step is None:
        return
    fingerprint = prompt.fingerprint
    if _last_digest(log) != fingerprint.digest:
        sections, tools = ([list(part) for part in parts] for parts in (fingerprint.sections, fingerprint.tools))
        data = {"digest": fingerprint.digest, "sections": sections, "tools": tools}
        log.append(PROMPT_EVENT, data, ignorable=True)


def _last_digest(log: SessionLog) -> object:
    for event in reversed(log.events):
        if event.type == PROMPT_EVENT:
            return event.data["digest"]
    return None
