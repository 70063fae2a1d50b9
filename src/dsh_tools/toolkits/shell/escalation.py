"""Asking a person before a command runs with more rights than the sandbox gives it (HOST-205)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ...kernel import effect_free
from ...tools import Ask, Decision, Deny
from .errors import ShellError

if TYPE_CHECKING:
    from ...kernel import Context
    from ...kernel.hooks import Next
    from ...tools import CallToken, ToolDefinition, ToolExecution, ToolResult, ToolRunContext

__all__ = ["Escalations"]

_RIGHTS = {
    "workspace-write": "with the right to change the project folder",
    "full-access": "outside the sandbox, with all rights that you have",
}


class Escalations:
    """Turns every call that wants more rights into a question, and lets no other one have them.

    Parameters:
        ctx: where the visible tools are looked up.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._definition: ToolDefinition | None = None
        self._asked: set[CallToken] = set()

    def watch(self, definition: ToolDefinition) -> None:
        """Say which tool it is about."""
        self._definition = definition

    @effect_free
    async def decide(self, execution: ToolExecution, next: Next[Decision]) -> Decision:
        """Ask, unless another listener denies; the reason says what is wanted, and why."""
        wanted = self._wanted(execution)
        if wanted is None:
            return await next()
        others = await next()
        if isinstance(others, Deny):
            return others
        if not execution.state.frozen:
            # Otherwise somebody only wants to know what would be asked.
            self._asked.add(execution.token)
        question = f"run this command {_RIGHTS[wanted]}: {execution.arguments['justification']}"
        reasons = [question, others.reason if isinstance(others, Ask) else None]
        return Ask("; ".join(reason for reason in reasons if reason))

    def forget(self, execution: ToolExecution, result: ToolResult) -> None:
        """Forget a call that is over."""
        self._asked.discard(execution.token)

    def require_asked(self, run: ToolRunContext) -> None:
        """Refuse more rights to a call that nobody was asked about: a listener has answered in our place.

        Raises:
            ShellError: nobody was asked.
        """
        if run.token not in self._asked:
            raise ShellError("more rights were wanted, but nobody was asked for them; run the command without")

    def _wanted(self, execution: ToolExecution) -> str | None:
        if self._definition is None or execution.name != self._definition.name:
            return None
        if self._ctx.tools.get(execution.name, execution.scope) is not self._definition:
            return None
        return cast("dict[str, Any]", execution.arguments).get("sandbox_permissions")
