"""The plugin: a listener on ``tools/pre-execute``, a guard for denials, and the remembered answers."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import pydantic

from ...kernel.markers import effect_free
from ...tools.events import PRE_EXECUTE, Ask, Decision, Deny
from ..approval import APPROVAL_REQUEST, ApprovalAnswer, ApprovalRequest
from .check import faults_of
from .rules import Action, Rule, RuleConfig, Rules, Verdict

if TYPE_CHECKING:
    from ...kernel.context import Context
    from ...kernel.hooks import Next
    from ...tools.execution import ToolExecution
    from ...tools.registry import ToolRegistry
    from ...tools.trace import CallTrace
    from ..approval import Approval

__all__ = ["PolicyConfig", "PolicyPlugin"]

_log = logging.getLogger("dsh_tools")

_REMEMBERED = "as answered earlier in this session"


class PolicyConfig(pydantic.BaseModel):
    """Configuration of the policy.

    Parameters:
        rules: see :class:`RuleConfig`; their order does not matter.
        default: what happens with calls that no rule matches.
        remember: offer answers that hold for the rest of the session, and act on them.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    rules: list[RuleConfig] = pydantic.Field(default_factory=list[RuleConfig])
    default: Action = "allow"
    remember: bool = True


class PolicyPlugin:
    """Applies the configured rules to every call of the scope that it is mounted in."""

    name = "policy"
    inject = ("tools",)
    Config = PolicyConfig

    def apply(self, ctx: Context, config: PolicyConfig) -> None:
        """Put the rules in force until the plugin goes."""
        rules = Rules([Rule(rule, number) for number, rule in enumerate(config.rules, 1)], config.default)
        policy = _Policy(rules, ctx.tools.service.registry)
        # As text, since a rule may hold numbers that are no lossless JSON.
        document = config.model_dump_json(include={"rules", "default"})
        ctx.tools.declare_policy(self.name, document, rules=rules.names)
        ctx.on(PRE_EXECUTE, policy.decide, prepend=True)
        if rules.can_deny:
            ctx.tools.guard(policy.guard)
        if config.remember:
            ctx.plugin(_RememberedAnswers)


class _Policy:
    def __init__(self, rules: Rules, registry: ToolRegistry) -> None:
        self._rules = rules
        self._registry = registry
        self._checked = False

    @effect_free
    async def decide(self, execution: ToolExecution, next: Next[Decision]) -> Decision:
        """Combine the rules' verdict with what the other listeners say; the stricter one counts."""
        if not self._checked:
            # Not before: tools are registered after their policy, and those of servers later still.
            self._checked = True
            for fault in faults_of(self._rules, self._registry.everywhere()):
                _log.warning("policy: %s", fault)
        trace = execution.state.trace
        if trace is None:
            verdict = self._rules.judge(execution.name, execution.arguments)
        else:
            verdict = self._judge_traced(execution, trace)
        if verdict.action == "deny":
            return Deny(verdict.reason)
        others = await next()
        if verdict.action == "allow" or isinstance(others, Deny):
            return others
        reasons = [verdict.reason, others.reason if isinstance(others, Ask) else None]
        return Ask("; ".join(reason for reason in reasons if reason) or None)

    def _judge_traced(self, execution: ToolExecution, trace: CallTrace) -> Verdict:
        """Note every rule that matches; the first of them counts."""
        began = time.perf_counter()
        found = self._rules.matching(execution.name, execution.arguments)
        took = (time.perf_counter() - began) * 1000
        for verdict in found:
            trace.note("rule", verdict.rule or "default", verdict.action, verdict.reason, took)
            took = 0.0
        if trace.missed is not None:
            trace.missed += self._rules.missed(execution.name, execution.arguments)
        return found[0]

    def guard(self, execution: ToolExecution) -> str | None:
        """Deny what the rules deny, whatever a listener in front of :meth:`decide` has said."""
        verdict = self._rules.judge(execution.name, execution.arguments)
        if verdict.action != "deny":
            return None
        return verdict.reason or f'tool "{execution.name}" was denied by policy'


class _RememberedAnswers:
    """Answers questions as they were answered before, before anybody is asked again."""

    name = "remembered-answers"
    inject = ("approval",)

    def apply(self, ctx: Context, config: object) -> None:
        """Act on remembered answers while the approval service is there."""
        approval = ctx.approval
        approval.use_remembered()
        ctx.on(APPROVAL_REQUEST, _recall_from(approval), prepend=True)


def _recall_from(approval: Approval):
    @effect_free
    async def recall(request: ApprovalRequest, next: Next[ApprovalAnswer]) -> ApprovalAnswer:
        outcome = approval.history(request.agent).recall(request)
        return await next() if outcome is None else ApprovalAnswer(outcome, _REMEMBERED, by="remembered answer")

    return recall
