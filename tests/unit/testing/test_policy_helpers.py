"""The helpers for tests of policies: tables, coverage, and denials under any order."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.calls import Body, make_tool

from dsh_tools.kernel import Context, effect_free
from dsh_tools.pipeline import guards as guards_module
from dsh_tools.services.policy import plugin as policy_plugin
from dsh_tools.testing.policy import Case, Coverage, PolicySetup, assert_denials_hold, assert_verdicts, open_setup
from dsh_tools.tools import Allow, Ask, Deny, tool

pytest_plugins = ["pytester"]


@tool
async def bash(command: str) -> str:
    """Run a command."""
    raise AssertionError("a table runs nothing")


def no_root(execution: Any) -> str | None:
    return "no root here" if execution.arguments["command"].startswith("sudo ") else None


RULES: list[dict[str, Any]] = [
    {"tool": "bash", "arguments": {"command": "git *"}, "action": "allow"},
    {"tool": "bash", "arguments": {"command": "rm *"}, "action": "deny", "reason": "nothing is deleted"},
    {"tool": "bash", "arguments": {"command": "git push*"}, "action": "ask", "reason": "it leaves the machine"},
    {"tool": "b*", "arguments": {"command": "git log"}, "action": "allow"},
]
SETUP = PolicySetup(tools=[bash], rules=RULES, default="ask", guards=[no_root])


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with open_setup(SETUP) as context:
        yield context


# ── tables ─────────────────────────────────────────────────────────────────────


async def test_a_table_that_holds(ctx: Context):
    coverage = await assert_verdicts(
        ctx,
        [
            ("bash", {"command": "git status"}, "allow"),
            ("bash", {"command": "git push origin"}, "ask", "rule 3"),
            ("bash", '{"command": "rm -rf /"}', "deny"),
            ("bash", {"command": "ls"}, "ask", "rule default"),
            ("bash", {"comand": "ls"}, "invalid"),
            ("zsh", {}, "invalid"),
            Case("bash", {"command": "sudo ls"}, "deny", by="no_root", reason="root"),
        ],
    )
    assert coverage.uncovered == ('4: allow b* with {"command":"git log"}',)


async def test_every_row_that_does_not_hold_is_listed(ctx: Context):
    with pytest.raises(AssertionError) as failed:
        await assert_verdicts(
            ctx,
            [
                ("bash", {"command": "git push"}, "allow"),
                ("bash", {"command": "git status"}, "allow"),
                ("bash", {"command": "rm x"}, "deny", "no_root"),
                Case("bash", {"command": "rm x"}, "deny", reason="because"),
            ],
        )
    first, second, third = str(failed.value).split("\n")
    assert first == (
        'bash {"command":"git push"}: expected allow, got ask by rule 3: ask bash with '
        '{"command":"git push*"}: it leaves the machine'
    )
    assert second.startswith('bash {"command":"rm x"}: expected deny by no_root, got deny by rule 2')
    assert third.startswith('bash {"command":"rm x"}: expected the reason \'because\', got deny by rule 2')


ROW = ("bash", {"command": "ls"}, "ask")


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("bash", "expected a Case or a tuple (tool, arguments, verdict, …), got 'bash'"),
        ("ask", "expected a Case or a tuple (tool, arguments, verdict, …), got 'ask'"),
        ({"tool": "bash", "arguments": {}, "verdict": "ask"}, "expected a Case or a tuple"),
        (None, "expected a Case or a tuple"),
        (("bash", {}), "expected 3 to 5 fields, got 2"),
        (("bash", {}, "ask", "", "", ""), "expected 3 to 5 fields, got 6"),
        ((bash, {}, "ask"), "the tool must be a name, got FunctionTool"),
        (("bash", {}, "denied"), "the verdict must be allow, ask, deny or invalid, got 'denied'"),
        (("bash", {}, ["ask"]), "the verdict must be allow, ask, deny or invalid, got ['ask']"),
        (("bash", {}, "ask", None), "by must be a string, got NoneType"),
        (Case("bash", {}, "ask", reason=3), "reason must be a string, got int"),  # type: ignore[arg-type]
    ],
)
async def test_a_row_that_is_none_is_named(ctx: Context, row: Any, what: str):
    with pytest.raises(ValueError, match=f"^row 2 of the table: {re.escape(what)}"):
        await assert_verdicts(ctx, [ROW, row])


async def test_a_table_that_is_a_text_is_no_table(ctx: Context):
    with pytest.raises(ValueError, match="row 1 of the table: expected a Case or a tuple"):
        await assert_verdicts(ctx, "bash")  # type: ignore[arg-type]


async def test_rows_may_be_lists_as_json_has_them(ctx: Context):
    await assert_verdicts(ctx, [list(ROW), [*ROW, "rule default", ""]])  # type: ignore[list-item]


async def test_arguments_that_are_no_json_are_a_row_like_others(ctx: Context):
    bad: list[Any] = [{"command": float("nan")}, {"command": b"x"}, {1: 2}]
    await assert_verdicts(ctx, [("bash", arguments, "invalid") for arguments in bad])
    with pytest.raises(AssertionError) as caught:
        await assert_verdicts(ctx, [("bash", arguments, "allow") for arguments in bad])
    # The reason has lines of its own.
    lines = [line for line in str(caught.value).splitlines() if ": expected" in line]
    assert [line.split(": expected")[0] for line in lines] == [
        "bash {'command': nan}",
        "bash {'command': b'x'}",
        "bash {1: 2}",
    ]
    assert all("expected allow, got invalid" in line for line in lines)


async def test_a_row_that_cannot_be_foreseen_fails_and_says_whose_fault_it_is(ctx: Context):
    async def counts(execution: Any, next: Any) -> Any:
        return await next()

    ctx.on("tools/pre-execute", counts)
    with pytest.raises(AssertionError, match=r"cannot be foreseen; not effect_free: .*counts \(without them: allow by"):
        await assert_verdicts(ctx, [("bash", {"command": "git status"}, "allow")])
    await assert_verdicts(ctx, [("bash", {"command": "sudo ls"}, "deny")])


async def test_a_table_may_be_about_one_agent(ctx: Context):
    agent = ctx.create_scope("careful")
    agent.tools.guard(lambda execution: "not for you")
    await assert_verdicts(ctx, [("bash", {"command": "git status"}, "deny")], agent=agent)
    await assert_verdicts(agent, [("bash", {"command": "git status"}, "deny")])
    await assert_verdicts(ctx, [("bash", {"command": "git status"}, "allow")])


async def test_coverage_tells_the_unused_from_the_outweighed(ctx: Context):
    coverage = await assert_verdicts(
        ctx, [("bash", {"command": "git push"}, "ask"), ("bash", {"command": "git push -f"}, "ask")]
    )
    assert coverage.report() == (
        'never  2: deny bash with {"command":"rm *"}\n'
        '    2  3: ask bash with {"command":"git push*"}\n'
        'never  1: allow bash with {"command":"git *"}, matched but always outweighed\n'
        'never  4: allow b* with {"command":"git log"}\n'
        "1 of 4 rules covered"
    )
    with pytest.raises(AssertionError, match="1 of 4 rules covered"):
        coverage.require_all()
    total = Coverage()
    total.merge(coverage)
    total.merge(await assert_verdicts(ctx, [("bash", {"command": "git log"}, "allow")]))
    total.merge(await assert_verdicts(ctx, [("bash", {"command": "rm x"}, "deny")]))
    assert total.rules['3: ask bash with {"command":"git push*"}'] == 2
    assert total.uncovered == ('4: allow b* with {"command":"git log"}',)


async def test_all_covered(no_leaks: None):
    setup = PolicySetup(tools=[bash], rules=[{"tool": "bash", "action": "ask"}])
    async with open_setup(setup) as ctx:
        (await assert_verdicts(ctx, [("bash", {"command": "x"}, "ask")])).require_all()


@pytest.mark.parametrize(("rules", "table"), [([], [("bash", {"command": "x"}, "allow")]), ([{"action": "ask"}], [])])
async def test_without_a_rule_nothing_is_covered(rules: list[Any], table: list[Any], no_leaks: None):
    async with open_setup(PolicySetup(tools=[bash], rules=rules)) as ctx:
        coverage = await assert_verdicts(ctx, table)
    with pytest.raises(AssertionError, match="no rule was seen"):
        coverage.require_all()


# ── denials ────────────────────────────────────────────────────────────────────

CALLS = [("bash", {"command": command}) for command in ("git push", "rm x", "sudo rm x", "sudo ls", "git log")]


@effect_free
async def allows_everything(execution: Any, next: Any) -> Any:
    return Allow()


async def hides_denials(execution: Any, next: Any) -> Any:
    decision = await next()
    return Allow() if isinstance(decision, Deny) else decision


async def asks(execution: Any, next: Any) -> Any:
    return Ask("really?")


async def test_denials_hold_against_listeners_that_want_to_lift_them(no_leaks: None):
    # D33
    setup = PolicySetup(tools=[bash], rules=RULES, guards=[no_root], listeners=[allows_everything, hides_denials, asks])
    assert await assert_denials_hold(setup, CALLS) == 3


async def test_the_check_finds_a_policy_that_listeners_can_lift(monkeypatch: pytest.MonkeyPatch, no_leaks: None):
    # Without the guard behind it, the policy plugin is a listener like any other.
    monkeypatch.setattr(policy_plugin.Rules, "can_deny", property(lambda self: False))
    setup = PolicySetup(tools=[bash], rules=RULES, listeners=[hides_denials])
    with pytest.raises(AssertionError) as failed:
        await assert_denials_hold(setup, CALLS)
    assert 'bash {"command":"rm x"}: ran although rule 2: deny' in str(failed.value)
    assert "listeners put in front [1]" in str(failed.value)


async def test_the_check_finds_guards_that_are_not_all_consulted(monkeypatch: pytest.MonkeyPatch, no_leaks: None):
    consult = guards_module.GuardTable.consult

    def first_only(self: Any, scope: Any) -> Any:
        return list(consult(self, scope))[:1]

    monkeypatch.setattr(guards_module.GuardTable, "consult", first_only)
    setup = PolicySetup(tools=[bash], guards=[lambda execution: None, no_root])
    with pytest.raises(AssertionError, match="ran although guard no_root denies it; order: policy, guard 1, guard 2"):
        await assert_denials_hold(setup, CALLS)


@pytest.mark.parametrize("orders", [0, -1, True, 2.5, None])
async def test_a_check_that_would_try_no_order_is_refused(orders: Any, no_leaks: None):
    with pytest.raises(ValueError, match=f"^orders must be a number from 1, got {orders!r}"):
        await assert_denials_hold(SETUP, [("bash", {"command": "rm x"})], orders=orders)


@pytest.mark.parametrize("call", ["rm", ("bash",), ("bash", {}, "deny"), (bash, {}), None])
async def test_a_call_that_is_none_is_named(call: Any, no_leaks: None):
    with pytest.raises(ValueError, match=r"^call 2: expected \(tool, arguments\), got "):
        await assert_denials_hold(SETUP, [("bash", {"command": "rm x"}), call])


async def test_calls_with_arguments_that_are_no_json_prove_nothing(no_leaks: None):
    assert await assert_denials_hold(SETUP, [("bash", {"command": float("nan")})], orders=2) == 0


async def test_calls_that_cannot_run_and_guards_that_fail_are_denials_or_nothing(no_leaks: None):
    def fails(execution: Any) -> None:
        raise RuntimeError("broken")

    setup = PolicySetup(tools=[bash], guards=[fails])
    # Nobody is asked about arguments that don't fit; guards are asked about names that are no tools.
    assert await assert_denials_hold(setup, [("bash", {}), ("zsh", {}), ("bash", {"command": "x"})]) == 2


async def test_bodies_never_run_and_other_tools_are_taken_as_they_are(no_leaks: None):
    body = Body()
    slow = make_tool("slow", body, timeout_ms=5, is_concurrency_safe=lambda args: True)
    setup = PolicySetup(tools=[slow], rules=[{"tool": "slow", "action": "deny"}])
    assert await assert_denials_hold(setup, [("slow", {})]) == 1
    assert body.calls == []


@settings(max_examples=15)
@given(
    rules=st.lists(
        st.fixed_dictionaries(
            {
                "tool": st.sampled_from(["*", "bash", "b?sh", "other"]),
                "arguments": st.sampled_from([{}, {"command": "r*"}, {"command": "ls"}]),
                "action": st.sampled_from(["allow", "ask", "deny"]),
            }
        ),
        max_size=4,
    ),
    default=st.sampled_from(["allow", "ask", "deny"]),
    with_guard=st.booleans(),
    listeners=st.lists(st.sampled_from([allows_everything, hides_denials, asks]), max_size=3),
    seed=st.integers(0, 99),
)
def test_no_policy_of_rules_and_guards_can_be_lifted(
    rules: list[dict[str, Any]], default: Any, with_guard: bool, listeners: list[Any], seed: int
):
    # D33
    setup = PolicySetup(tools=[bash], rules=rules, default=default, guards=[no_root] * with_guard, listeners=listeners)
    calls = [("bash", {"command": command}) for command in ("ls", "rm", "sudo rm")]
    asyncio.run(assert_denials_hold(setup, calls, orders=6, seed=seed))


# ── pytest ─────────────────────────────────────────────────────────────────────

TESTS = '''
import asyncio
from dsh_tools import tool
from dsh_tools.testing.policy import PolicySetup, open_setup

@tool
async def bash(command: str) -> str:
    """Run a command."""
    return ""

SETUP = PolicySetup(tools=[bash], rules=[
    {"tool": "bash", "arguments": {"command": "ls"}, "action": "allow"},
    {"tool": "bash", "arguments": {"command": "rm *"}, "action": "deny"},
])

def check(policy_check, command, verdict):
    async def run():
        async with open_setup(SETUP) as ctx:
            await policy_check(ctx, [("bash", {"command": command}, verdict)])
    asyncio.run(run())

def test_listing(policy_check):
    check(policy_check, "ls", "allow")
'''
DELETING = """
def test_deleting(policy_check):
    check(policy_check, "rm x", "deny")
"""


def test_the_fixture_collects_what_a_run_covers(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest('pytest_plugins = ["dsh_tools.testing.pytest_policy"]')
    pytester.makepyfile(TESTS)
    reported = pytester.runpytest_subprocess("--policy-coverage")
    assert reported.ret == 0
    reported.stdout.fnmatch_lines(["*policy rules*", "*never  2: deny bash*", "*1 of 2 rules covered*"])
    required = pytester.runpytest_subprocess("--require-policy-coverage")
    required.assert_outcomes(passed=1)
    assert required.ret == 1
    pytester.makepyfile("def test_other(): pass")
    unseen = pytester.runpytest_subprocess("--require-policy-coverage")
    assert unseen.ret == 1
    unseen.stdout.fnmatch_lines(["*no rule was seen*"])
    pytester.makepyfile(TESTS + DELETING)
    complete = pytester.runpytest_subprocess("--require-policy-coverage")
    complete.assert_outcomes(passed=2)
    assert complete.ret == 0
    complete.stdout.fnmatch_lines(["*2 of 2 rules covered*"])


def test_what_the_processes_of_a_run_cover_is_added_up(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    # Each file goes to another process, and neither of them sees both rules decide.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeconftest('pytest_plugins = ["dsh_tools.testing.pytest_policy"]')
    pytester.makepyfile(test_one=TESTS)
    apart = ("-p", "xdist", "-n", "2", "--dist", "loadfile")
    partly = pytester.runpytest_subprocess(*apart, "--require-policy-coverage")
    partly.assert_outcomes(passed=1)
    assert partly.ret == 1
    partly.stdout.fnmatch_lines(["*never  2: deny bash*", "*1 of 2 rules covered*"])
    pytester.makepyfile(test_two=TESTS.replace("def test_listing", "def unused") + DELETING)
    complete = pytester.runpytest_subprocess(*apart, "--require-policy-coverage")
    complete.assert_outcomes(passed=2)
    assert complete.ret == 0
    complete.stdout.fnmatch_lines(["*    1  2: deny bash*", "*    1  1: allow bash*", "*2 of 2 rules covered*"])
    alone = pytester.runpytest_subprocess("-p", "xdist", "-n", "0", "--require-policy-coverage")
    assert alone.ret == 0


def test_a_process_that_died_covers_nothing(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeconftest('pytest_plugins = ["dsh_tools.testing.pytest_policy"]')
    pytester.makepyfile(test_one="import os\ndef test_dies(): os._exit(3)", test_two=TESTS)
    died = pytester.runpytest_subprocess("-p", "xdist", "-n", "1", "--require-policy-coverage")
    assert died.ret == 1
    died.stdout.fnmatch_lines(["*crashed*", "*1 of 2 rules covered*"])
    assert "INTERNALERROR" not in died.stdout.str()


def test_coverage_survives_being_written_down():
    coverage = Coverage()
    coverage.rules = {"1: deny a": 0, "2: allow b": 3}
    coverage.matched = {"1: deny a"}
    read = Coverage.load(json.loads(json.dumps(coverage.dump())))
    assert (read.rules, read.matched) == (coverage.rules, coverage.matched)
    assert list(read.rules) == list(coverage.rules)
    coverage.rules["2: allow b"] += 1
    coverage.matched.add("x")
    assert (read.rules["2: allow b"], read.matched) == (3, {"1: deny a"})
