"""What is not shown of a search is kept in the spill store, where there is one (HOST-223, 224)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET

from ...content import content_text, text
from ...services.agents import session_of
from ...services.spill import SpillOwner, SpillSource, SpillStore
from ...tools import Accept, PostDecision, Review, ToolDefinition, ToolSuccess

if TYPE_CHECKING:
    from ...kernel import Context
    from ...kernel.hooks import Next

__all__ = ["Overflow"]

_log = logging.getLogger("dsh_tools")
_NOT_SAVED = "(The rest was not saved.)"


class Overflow:
    """Adds to a page where the rest is.

    Parameters:
        ctx: where the store and the visible tools are looked up.
        definition: the tool; results of another one of its name are left alone.
        full: returns the whole text of a value, None where the page shows everything.
    """

    def __init__(self, ctx: Context, definition: ToolDefinition, full: Callable[[Any], str | None]) -> None:
        self._ctx = ctx
        self._definition = definition
        self._full = full

    async def review(self, review: Review, next: Next[PostDecision]) -> PostDecision:
        """Let the other listeners go first; only what none of them has replaced is added to."""
        decision = await next()
        execution, result = review.execution, review.result
        if (
            not isinstance(decision, Accept)
            or decision.value is not UNSET
            or decision.content is not UNSET
            or not isinstance(result, ToolSuccess)
            or execution.name != self._definition.name
            or execution.parent is not None
            or self._ctx.tools.get(execution.name, execution.scope) is not self._definition
        ):
            return decision
        rest = self._full(result.value)
        if rest is None:
            return decision
        notice = await self._keep(rest, execution.agent, execution.call_id)
        if notice is None:
            return decision
        page = content_text(result.content)
        return msgspec.structs.replace(decision, content=text(f"{page}\n{notice}"))

    async def _keep(self, rest: str, agent: object, call_id: str) -> str | None:
        """Save the whole text and return where it is; None where nobody could keep it anyway."""
        log = session_of(agent)
        store = cast("SpillStore | None", self._ctx.get("spill"))
        if log is None or store is None:
            return None
        name = self._definition.name
        try:
            saved = await store.save_text(
                owner=SpillOwner(log.id),
                source=SpillSource(name, call_id, "result"),
                suggested_name=f"{name}-{call_id}.txt",
                content=rest,
            )
        except Exception:
            _log.warning('the whole result of "%s" could not be saved', name, exc_info=True)
            return _NOT_SAVED
        return f"(All of it is stored at {saved.locator}. {saved.retrieval_hint})"
