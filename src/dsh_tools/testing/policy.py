"""Testing policies: tables of calls and verdicts, which rules a table covers, and denials that nothing lifts.

::

    from dsh_tools.testing.policy import PolicySetup, assert_denials_hold, assert_verdicts, open_setup

    SETUP = PolicySetup(tools=[bash], rules=[{"tool": "bash", "action": "ask"}], guards=[no_root])

    async def test_the_policy():
        async with open_setup(SETUP) as ctx:
            coverage = await assert_verdicts(ctx, [
                ("bash", {"command": "ls"}, "ask"),
                ("bash", {"command": "sudo ls"}, "deny"),
            ])
        coverage.require_all()
        await assert_denials_hold(SETUP, [("bash", {"command": "sudo ls"})])

``assert_verdicts`` takes any context with tools, an application's own, too. It explains the calls and runs none of
them. ``assert_denials_hold`` runs them for real, with bodies that only note that they were reached, under many orders
of rules, guards and listeners, and with a person who says yes to everything.

Nothing here needs pytest. The fixture ``policy_check`` and a report at the end of a run are in
``dsh_tools.testing.pytest_policy``.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import permutations
from math import factorial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ..kernel import Context, create_context
from ..pipeline import Explanation, Guard, ToolsPlugin
from ..services import ApprovalPlugin, PolicyPlugin, always
from ..services.policy import Action, PolicyConfig, Rule, RuleConfig, Rules
from ..tools import PRE_EXECUTE, OutputSpec, ToolCall, ToolDefinition
from .policy_table import Case, CaseLike, Coverage, Verdict, read_calls, read_table, shown

if TYPE_CHECKING:
    from ..tools.execution import ToolExecution

__all__ = [
    "Case",
    "CaseLike",
    "Coverage",
    "PolicySetup",
    "Verdict",
    "assert_denials_hold",
    "assert_verdicts",
    "open_setup",
]

Listen: TypeAlias = Callable[[Any, Any], Any]
"""A listener on ``tools/pre-execute``."""

MOST_ORDERS = 60
"""How many orders are tried by default."""


async def assert_verdicts(ctx: Context, cases: Iterable[CaseLike], *, agent: Any = None) -> Coverage:
    """Explain every call of a table, and compare with what it says. Nothing runs and nobody is asked.

    Parameters:
        ctx: the application, or an agent's context.
        cases: the table.
        agent: the caller; by default one without further scope, below ``ctx``.

    Returns:
        Which rules the table covers.

    Raises:
        AssertionError: a line for each case that came out differently, or that cannot be foreseen because a listener
            does not declare itself ``effect_free``.
        ValueError: a row is no case; it is named.
    """
    caller = ctx.create_scope("policy-test", ctx.scope) if agent is None else agent
    coverage = Coverage()
    faults: list[str] = []
    try:
        for case in read_table(cases):
            explanation = await ctx.tools.explain(ToolCall(case.tool, case.arguments, agent=caller))
            coverage.add(explanation, ctx.tools.service.policies.rules(caller.scope))
            faults += _faults(case, explanation)
    finally:
        if agent is None:
            await caller.dispose()
    if faults:
        raise AssertionError("\n".join(faults))
    return coverage


def _faults(case: Case, found: Explanation) -> list[str]:
    call = shown(case.tool, case.arguments)
    by = found.decided_by or "nobody"
    got = f"{found.verdict} by {by}" + ("" if found.reason is None else f": {found.reason}")
    if not found.certain:
        return [f"{call}: cannot be foreseen; not effect_free: {', '.join(found.not_consulted)} (without them: {got})"]
    if found.verdict != case.verdict:
        return [f"{call}: expected {case.verdict}, got {got}"]
    if case.by not in by:
        return [f"{call}: expected {case.verdict} by {case.by}, got {got}"]
    return [] if case.reason in (found.reason or "") else [f"{call}: expected the reason {case.reason!r}, got {got}"]


# ── denials under any order ────────────────────────────────────────────────────


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicySetup:
    """A policy, taken apart, so that it can be put together in many orders.

    Parameters:
        tools: the tools that calls are made of. Their bodies never run.
        rules: the rules of the policy plugin.
        default: its verdict over calls that no rule matches.
        guards: guards.
        listeners: listeners on ``tools/pre-execute``.
    """

    tools: Sequence[ToolDefinition]
    rules: Sequence[RuleConfig | Mapping[str, Any]] = ()
    default: Action = "allow"
    guards: Sequence[Guard] = ()
    listeners: Sequence[Listen] = ()

    @property
    def config(self) -> PolicyConfig:
        """The policy plugin's configuration."""
        return PolicyConfig.model_validate({"rules": list(self.rules), "default": self.default, "remember": False})


@asynccontextmanager
async def open_setup(setup: PolicySetup) -> AsyncGenerator[Context]:
    """An application with a setup's tools and policy, in the order in which they stand there.

    Raises:
        ValidationError: a rule is wrong.
        DefinitionError: a tool is.
    """
    async with _application(setup, _Reached()) as ctx:
        await ctx.plugin(PolicyPlugin(), setup.config)
        for guard in setup.guards:
            ctx.tools.guard(guard)
        for listener in setup.listeners:
            ctx.on(PRE_EXECUTE, listener)
        yield ctx


async def assert_denials_hold(
    setup: PolicySetup,
    calls: Iterable[tuple[str, Any]],
    *,
    orders: int = MOST_ORDERS,
    seed: int = 0,
) -> int:
    """Check that what one rule or guard denies is denied under any order of rules, guards and listeners.

    Each call is made for real, with bodies that only note that they were reached, and a person who says yes to
    everything. Where there are few enough, all orders of the setup's parts are tried.

    Parameters:
        setup: the policy.
        calls: names and arguments. Those that neither a rule nor a guard denies are made as well, and prove nothing.
        orders: how many orders to try at most, from 1.
        seed: which ones, where not all are tried.

    Returns:
        How many of the calls a rule or guard denies.

    Raises:
        AssertionError: a line for each denial that was lifted, with the order that did it.
        ValueError: no order would be tried, or one of the calls is no pair of a name and arguments; it is named.
    """
    if not isinstance(orders, int) or isinstance(orders, bool) or orders < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"orders must be a number from 1, got {orders!r}")
    made = read_calls(calls)
    denied = [await _is_denied(setup, tool, arguments) for tool, arguments in made]
    faults: list[str] = []
    for order in _orders(setup, orders, random.Random(seed)):
        reached = _Reached()
        async with _application(setup, reached) as ctx:
            await order.mount(ctx, setup)
            for (tool, arguments), by in zip(made, denied, strict=True):
                reached.calls = 0
                caller = ctx.create_scope("policy-test")
                result = await ctx.tools.execute(ToolCall(tool, arguments, agent=caller))
                await caller.dispose()
                if by is not None and (reached.calls or not result.is_error):
                    faults.append(f"{shown(tool, arguments)}: ran although {by} denies it; {order}")
    if faults:
        raise AssertionError("\n".join(faults))
    return sum(by is not None for by in denied)


class _Reached:
    """Stands in for the bodies, and counts how often one was reached."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, args: Any, run: Any) -> str:
        self.calls += 1
        return "reached"

    def in_place_of(self, definition: ToolDefinition) -> ToolDefinition:
        """Return the same tool with this body, as far as policy can see."""
        # A plain definition: subclasses have fields that belong to their own body.
        kept = {field.name: getattr(definition, field.name) for field in dataclasses.fields(ToolDefinition)}
        kept |= {
            "execute": self,
            "output": OutputSpec({}),
            "timeout_ms": None,
            "isolation": "task",
            "finalize_content": None,
            "present_result": None,
        }
        return ToolDefinition(**kept)


@asynccontextmanager
async def _application(setup: PolicySetup, reached: _Reached) -> AsyncGenerator[Context]:
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin())
        await ctx.plugin(ApprovalPlugin())
        ctx.approval.answer_with(always("allowed-once"))
        for definition in setup.tools:
            ctx.tools.register(reached.in_place_of(definition))
        yield ctx


async def _is_denied(setup: PolicySetup, tool: str, arguments: Any) -> str | None:
    """Return the first rule or guard that denies the call by itself, with nothing else mounted."""
    seen: list[ToolExecution] = []
    async with _application(setup, _Reached()) as ctx:
        ctx.tools.guard(lambda execution: seen.append(execution))
        caller = ctx.create_scope("policy-test")
        await ctx.tools.execute(ToolCall(tool, arguments, agent=caller))
    if not seen:
        return None
    verdict = _rules_of(setup).matching(seen[0].name, seen[0].arguments)[0]
    if verdict.action == "deny":
        return f"rule {verdict.rule or 'default'}"
    denies = (guard for guard in setup.guards if _denies(guard, seen[0]))
    return next((f"guard {getattr(guard, '__qualname__', guard)}" for guard in denies), None)


def _denies(guard: Guard, execution: ToolExecution) -> bool:
    try:
        return guard(execution) is not None
    except Exception:
        # A guard that fails fails the call.
        return True


def _rules_of(setup: PolicySetup) -> Rules:
    config = setup.config
    return Rules([Rule(rule, number) for number, rule in enumerate(config.rules, 1)], config.default)


class _Order:
    """One way to put a setup together: its parts in turn, each listener in front of the others or behind them."""

    def __init__(self, rules: Sequence[int], parts: Sequence[tuple[str, int]], front: Sequence[bool]) -> None:
        self.rules = tuple(rules)
        self.parts = tuple(parts)
        self.front = tuple(front)

    def __str__(self) -> str:
        steps = [f"{kind} {place + 1}" if kind != "policy" else kind for kind, place in self.parts]
        front = [place + 1 for place, first in enumerate(self.front) if first]
        return f"order: {', '.join(steps)}; rules {[place + 1 for place in self.rules]}; listeners put in front {front}"

    async def mount(self, ctx: Context, setup: PolicySetup) -> None:
        """Register everything in this order."""
        config = setup.config
        shuffled = config.model_copy(update={"rules": [config.rules[place] for place in self.rules]})
        for kind, place in self.parts:
            if kind == "policy":
                await ctx.plugin(PolicyPlugin(), shuffled)
            elif kind == "guard":
                ctx.tools.guard(setup.guards[place])
            else:
                ctx.on(PRE_EXECUTE, cast("Any", setup.listeners[place]), prepend=self.front[place])


def _orders(setup: PolicySetup, most: int, draw: random.Random) -> Iterable[_Order]:
    parts = [("policy", 0)]
    parts += [("guard", place) for place in range(len(setup.guards))]
    parts += [("listener", place) for place in range(len(setup.listeners))]
    rules = list(range(len(setup.rules)))
    listeners = len(setup.listeners)
    if factorial(len(parts)) * factorial(len(rules)) * 2**listeners <= most:
        for some_parts in permutations(parts):
            for some_rules in permutations(rules):
                for bits in range(2**listeners):
                    yield _Order(some_rules, some_parts, [bool(bits >> place & 1) for place in range(listeners)])
        return
    for _ in range(most):
        front = [draw.random() < 0.5 for _ in range(listeners)]
        yield _Order(draw.sample(rules, len(rules)), draw.sample(parts, len(parts)), front)
