"""What the adapters share: which tools go out, and one call of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from ...errors import DefinitionError
from ...json_value import thaw
from ...tools import AgentLike, ToolCall, ToolResult, ToolSchema

if TYPE_CHECKING:
    from ...kernel.context import Context

__all__ = ["Outgoing", "refuse_unapproved"]


class Outgoing:
    """The tools of a registry that another library gets to see.

    Parameters:
        context: the application.
        names: which tools; None is all that the caller sees. They are looked up anew each time.
        caller: whose scope decides what is visible and which policies hold; the context's own by default.
    """

    def __init__(self, context: Context, names: Iterable[str] | None = None, caller: AgentLike | None = None) -> None:
        self._context = context
        self._names = None if names is None else frozenset(names)
        self._caller: AgentLike = context if caller is None else caller
        self._ids = itertools.count(1)

    def schemas(self) -> list[ToolSchema]:
        """Return what a model is told about each tool."""
        visible = self._context.tools.schemas(self._caller.scope)
        return [schema for schema in visible if self._names is None or schema.name in self._names]

    def parameters(self, schema: ToolSchema) -> dict[str, Any]:
        """Return a tool's parameters as a JSON Schema document that the other library may change."""
        return cast("dict[str, Any]", thaw(schema.parameters))

    def is_exclusive(self, name: str) -> bool:
        """Whether calls of a tool run alone, whatever their arguments."""
        definition = self._context.tools.get(name, self._caller.scope)
        return definition is None or definition.is_concurrency_safe is None

    async def call(self, name: str, arguments: Any, call_id: str | None = None) -> ToolResult:
        """Run a tool through the whole pipeline.

        Parameters:
            arguments: JSON text or a JSON value.
            call_id: the other library's; without one it is made up.
        """
        known = call_id or f"adapter-{next(self._ids)}"
        return await self._context.tools.execute(ToolCall(name, arguments, call_id=known, agent=self._caller))


def refuse_unapproved(name: str, needs_approval: bool, handled: bool) -> None:
    """Refuse a tool that its library would ask a person about, unless a policy here does that.

    Raises:
        DefinitionError: it does, and nobody said that it is taken care of.
    """
    if needs_approval and not handled:
        raise DefinitionError(
            f'tool "{name}" needs approval where it comes from; add a rule here that asks before it runs, '
            "and pass approval_handled=True"
        )
