"""A plugin that checks the pipeline's promises while other tests run (PIPE-219).

Mount it in a test's application; what it finds fails the test at the end::

    checker = InvariantChecker()
    await ctx.plugin(checker)
    …
    checker.verify()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from ..kernel import hands_on
from ..tools import EXECUTE, POST_EXECUTE, PRE_EXECUTE, TOOL_RESULT, Decision, PostDecision, ToolExecution, ToolResult
from ..tools.execution import CallToken

if TYPE_CHECKING:
    from ..kernel import Context, Next
    from ..tools import Review

__all__ = ["InvariantChecker"]

Phase: TypeAlias = Literal["pre", "execute", "post", "result"]


class InvariantChecker:
    """Notes every call's phases and lists what contradicts the contract in ``violations``."""

    name = "invariant-checker"

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._phases: dict[CallToken, Phase] = {}

    def apply(self, ctx: Context, config: object = None) -> None:
        """Listen on the four hooks of a call, outside all other listeners."""
        ctx.on(PRE_EXECUTE, self._pre, prepend=True)
        ctx.on(EXECUTE, self._execute, prepend=True)
        ctx.on(POST_EXECUTE, self._post, prepend=True)
        ctx.on(TOOL_RESULT, self._result, prepend=True)

    def verify(self) -> None:
        """Raise if anything was found.

        Raises:
            AssertionError: the promises that were broken, one a line.
        """
        if self.violations:
            raise AssertionError("\n".join(self.violations))

    @hands_on
    async def _pre(self, execution: ToolExecution, proceed: Next[Decision]) -> Decision:
        if not execution.name or not execution.call_id:
            self._broken(execution, "has an empty name or call id")
        if execution.token in self._phases:
            self._broken(execution, "went through tools/pre-execute twice")
        self._phases[execution.token] = "pre"
        return await proceed()

    async def _execute(self, execution: ToolExecution, proceed: Next[ToolResult]) -> ToolResult:
        if self._phases.get(execution.token) != "pre":
            self._broken(execution, "entered tools/execute other than right after tools/pre-execute")
        self._phases[execution.token] = "execute"
        return await proceed()

    async def _post(self, review: Review, proceed: Next[PostDecision]) -> PostDecision:
        execution = review.execution
        # Arguments that cannot run skip policy and are still reviewed (D25).
        if self._phases.get(execution.token) not in ("pre", "execute", None):
            self._broken(execution, "entered tools/post-execute other than after policy or the body")
        self._phases[execution.token] = "post"
        return await proceed()

    def _result(self, execution: ToolExecution, result: ToolResult) -> None:
        if self._phases.get(execution.token) == "result":
            self._broken(execution, "told tools/result twice")
        self._phases[execution.token] = "result"
        if not execution.state.frozen:
            self._broken(execution, "told tools/result before it was frozen")
        if type(result.content) is not tuple:
            self._broken(execution, "told tools/result with content that can still change")

    def _broken(self, execution: ToolExecution, what: str) -> None:
        self.violations.append(f"{execution.log_label}: {what}")
