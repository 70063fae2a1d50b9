"""The policy: which content is spilled, and what stands in its place (HOST-97 to 106)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import msgspec
import pydantic
from msgspec import UNSET

from ...content import Content, ContentBlock, TextBlock, content_text, text
from ...tools.events import CODE_DISPATCH_LOG, POST_EXECUTE, Accept, DispatchLogEntry, PostDecision, Review
from ..agents import session_of
from .preview import bounded_text, utf8
from .records import SpillOwner, SpillSource, SpillStore

if TYPE_CHECKING:
    from ...kernel.context import Context
    from ...kernel.hooks import Next

__all__ = ["SpillPolicyConfig", "SpillPolicyPlugin"]

_log = logging.getLogger("dsh_tools")


class SpillPolicyConfig(pydantic.BaseModel):
    """Configuration of the policy.

    Parameters:
        max_inline_bytes: how many UTF-8 bytes of text a result may have; without it nothing is bounded.
        exclude: tools whose results are left alone, because they page by themselves.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    max_inline_bytes: int | None = pydantic.Field(default=None, ge=0, strict=True)
    exclude: list[str] = ["read", "read_file", "read_artifact"]


class SpillPolicyPlugin:
    """Bounds what models read of results, and what session logs keep of programs' calls."""

    name = "spill-policy"
    Config = SpillPolicyConfig

    def apply(self, ctx: Context, config: SpillPolicyConfig) -> None:
        """Register the listeners, in front of all others: what they see is final."""
        if config.max_inline_bytes is None:
            return
        policy = _Policy(ctx, config.max_inline_bytes, frozenset(config.exclude))
        ctx.on(POST_EXECUTE, policy.review, prepend=True)
        ctx.on(CODE_DISPATCH_LOG, policy.bound_log, prepend=True)


class _Policy:
    def __init__(self, ctx: Context, cap: int, exclude: frozenset[str]) -> None:
        self._ctx = ctx
        self._cap = cap
        self._exclude = exclude

    async def review(self, review: Review, next: Next[PostDecision]) -> PostDecision:
        """Bound the content that the other listeners agreed on (HOST-98 to 100)."""
        decision = await next()
        execution = review.execution
        if (
            not isinstance(decision, Accept)
            or decision.value is not UNSET
            or execution.parent is not None
            or execution.name in self._exclude
        ):
            return decision
        content = review.result.content if decision.content is UNSET else decision.content
        source = SpillSource(execution.name, execution.call_id, "result")
        bounded = await self._bound(content, execution.agent, source)
        return decision if bounded is None else msgspec.structs.replace(decision, content=bounded)

    async def bound_log(self, entry: DispatchLogEntry, next: Next[Sequence[ContentBlock]]) -> Sequence[ContentBlock]:
        """Bound the logged copy of a program's call; the program has its value already (HOST-105)."""
        content = await next()
        source = SpillSource(entry.name, entry.sub_call_id, "dispatch")
        bounded = await self._bound(content, entry.execution.agent, source)
        return content if bounded is None else bounded

    async def _bound(self, content: Sequence[ContentBlock], agent: object, source: SpillSource) -> Content | None:
        """Return what stands for the content; None leaves it as it is (HOST-104)."""
        if not all(type(block) is TextBlock for block in content):
            return None
        full = content_text(content)
        if len(full) * 4 <= self._cap or len(utf8(full)) <= self._cap:
            return None
        log = session_of(agent)
        # Looked up each time: the store may come and go (HOST-41).
        store = cast("SpillStore | None", self._ctx.get("spill"))
        if log is None or store is None:
            missing = "no store is mounted" if store is None else "its agent has no session"
            _log.warning('the long result of "%s" stays inline: %s', source.tool_name, missing)
            return None
        try:
            saved = await store.save_text(
                owner=SpillOwner(log.id),
                source=source,
                suggested_name=f"{source.tool_name}-{source.call_id}.txt",
                content=full,
            )
        except Exception:
            _log.warning('the long result of "%s" stays inline: saving failed', source.tool_name, exc_info=True)
            return None
        bounded = bounded_text(full, saved, self._cap)
        return None if bounded is None else text(bounded)
