"""What policy would decide, foreseen: nothing runs, nobody is asked, nothing is logged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.agents import LoggedAgent
from tests.support.calls import Body, make_tool

from dsh_tools.json_value import digest
from dsh_tools.kernel import Context, create_context, effect_free, effects_of, hands_on
from dsh_tools.pipeline import Foreseen, ToolsPlugin
from dsh_tools.services import (
    APPROVAL_DECIDED,
    APPROVAL_REQUEST,
    ApprovalAnswer,
    ApprovalPlugin,
    CallRecordPlugin,
    PolicyPlugin,
    always,
)
from dsh_tools.tools import PRE_EXECUTE, TOOL_PROGRESS, TOOL_RESULT, Allow, Ask, Deny, ToolCall, tool

PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with create_context() as context:
        await context.plugin(ToolsPlugin())
        await context.plugin(ApprovalPlugin())
        context.tools.register(make_tool("write", parameters=PARAMETERS))
        yield context


async def explain(ctx: Context, path: object = "a", agent: Any = None, name: str = "write") -> Any:
    return await ctx.tools.explain(ToolCall(name, {"path": path}, agent=agent))


def listener(answer: Any) -> Any:
    @effect_free
    async def decide(execution: Any, next: Any) -> Any:
        return await next() if answer is None else answer

    return decide


async def test_a_call_that_nobody_objects_to(ctx: Context):
    found = await explain(ctx)
    assert (found.verdict, found.decided_by, found.reason, found.certain) == ("allow", None, None, True)
    assert found.arguments == {"path": "a"}
    assert found.arguments_digest == digest({"path": "a"})
    assert found.policy_digest is None


async def test_the_rule_that_counts_is_named_and_so_are_those_that_match_as_well(ctx: Context):
    rules = [
        {"tool": "*", "action": "ask", "reason": "careful"},
        {"tool": "write", "arguments": {"path": "/etc/*"}, "action": "deny", "reason": "not there"},
        {"tool": "write", "action": "allow"},
    ]
    await ctx.plugin(PolicyPlugin(), {"rules": rules})
    denied = await explain(ctx, "/etc/passwd")
    assert (denied.verdict, denied.reason, denied.certain) == ("deny", "not there", True)
    assert denied.decided_by == 'rule 2: deny write with {"path":"/etc/*"}'
    assert [asked.name for asked in denied.consulted if asked.kind == "rule"] == [
        '2: deny write with {"path":"/etc/*"}',
        "1: ask *",
        "3: allow write",
    ]
    asked = await explain(ctx)
    assert (asked.verdict, asked.decided_by, asked.reason) == ("ask", "rule 1: ask *", "careful")
    assert asked.policy_digest == ctx.tools.policy_digest()


async def test_an_allow_rule_gets_the_credit(ctx: Context):
    await ctx.plugin(PolicyPlugin(), {"rules": [{"tool": "write", "action": "allow"}], "default": "deny"})
    found = await explain(ctx)
    assert (found.verdict, found.decided_by) == ("allow", "rule 1: allow write")
    ctx.tools.register(make_tool("other"))
    other = await explain(ctx, name="other")
    assert (other.verdict, other.decided_by) == ("deny", "rule default")


async def test_a_guard_has_the_last_word(ctx: Context):
    def no_secrets(execution: Any) -> str | None:
        return "a secret" if execution.arguments["path"] == ".env" else None

    ctx.tools.guard(no_secrets)
    ctx.on(PRE_EXECUTE, listener(Allow()))
    found = await explain(ctx, ".env")
    assert (found.verdict, found.reason, found.certain) == ("deny", "a secret", True)
    assert found.decided_by.endswith("no_secrets")
    assert found.decided_by.startswith("guard ")
    assert (await explain(ctx)).verdict == "allow"


async def test_what_a_guard_raises_or_returns_wrongly_denies(ctx: Context):
    # PIPE-85
    remove = ctx.tools.guard(lambda execution: 5)  # type: ignore[arg-type, return-value]
    found = await explain(ctx)
    assert found.verdict == "deny"
    assert "expected None or a reason, got int" in found.reason
    remove()

    def fails(execution: Any) -> None:
        raise RuntimeError("broken")

    ctx.tools.guard(fails)
    found = await explain(ctx)
    assert (found.verdict, found.reason) == ("deny", "broken")


async def test_listeners_form_the_waterfall_in_their_order(ctx: Context):
    ctx.on(PRE_EXECUTE, listener(None))
    ctx.on(PRE_EXECUTE, listener(Ask("why")))
    ctx.on(PRE_EXECUTE, listener(Deny("never reached")))
    found = await explain(ctx)
    assert (found.verdict, found.reason) == ("ask", "why")
    assert [asked.verdict for asked in found.consulted] == ["passed", "ask"]


async def test_a_listener_that_fails_or_answers_nonsense_denies(ctx: Context):
    # D21
    @effect_free
    async def fails(execution: Any, next: Any) -> Any:
        raise RuntimeError("broken")

    remove = ctx.on(PRE_EXECUTE, fails)
    found = await explain(ctx)
    assert (found.verdict, found.reason) == ("deny", "broken")
    assert found.decided_by.endswith("fails")
    remove()
    ctx.on(PRE_EXECUTE, listener("yes"))
    found = await explain(ctx)
    assert found.verdict == "deny"
    assert "expected Allow, Deny or Ask, got str" in found.reason


STRAY = [asyncio.CancelledError("a look-up was cancelled"), asyncio.CancelledError(), SystemExit(3)]


@pytest.mark.parametrize("error", STRAY, ids=repr)
@pytest.mark.parametrize("kind", ["listener", "guard"])
async def test_what_is_no_ordinary_exception_is_explained_as_it_is_handled(ctx: Context, kind: str, error: Any):
    # PIPE-96, D30: nobody has cancelled the task, so the call fails, and so it is said.
    def raises(*_given: Any) -> Any:
        raise error

    if kind == "listener":
        ctx.on(PRE_EXECUTE, effect_free(raises))
    else:
        ctx.tools.guard(raises)
    found = await explain(ctx)
    assert (found.verdict, found.certain) == ("deny", True)
    assert found.decided_by.startswith(kind)
    assert found.decided_by.endswith("raises")
    result = await ctx.tools.execute(ToolCall("write", {"path": "a"}))
    assert result.is_error
    assert result.error.message == found.reason


async def test_who_explains_may_be_cancelled(ctx: Context):
    began = asyncio.Event()

    @effect_free
    async def slow(execution: Any, next: Any) -> Any:
        began.set()
        await asyncio.Event().wait()

    ctx.on(PRE_EXECUTE, slow)
    task = asyncio.create_task(explain(ctx))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_passes_through_a_call_passes_through_its_explanation(ctx: Context):
    # PIPE-96
    def raises(*_given: Any) -> Any:
        raise KeyboardInterrupt

    remove = ctx.on(PRE_EXECUTE, effect_free(raises))
    await _passes_through(ctx, KeyboardInterrupt)
    remove()
    ctx.tools.guard(raises)
    await _passes_through(ctx, KeyboardInterrupt)


async def test_a_generator_exit_of_a_policy_denies(ctx: Context):
    # PIPE-96
    def raises(*_given: Any) -> Any:
        raise GeneratorExit

    remove = ctx.on(PRE_EXECUTE, effect_free(raises))
    found = await explain(ctx)
    assert (found.verdict, found.reason) == ("deny", "GeneratorExit")
    remove()
    ctx.tools.guard(raises)
    found = await explain(ctx)
    assert (found.verdict, found.reason) == ("deny", "GeneratorExit")


async def test_an_explanation_that_is_closed_is_closed(ctx: Context):
    @effect_free
    async def slow(execution: Any, next: Any) -> Any:
        await asyncio.sleep(30)

    ctx.on(PRE_EXECUTE, slow)
    coroutine = explain(ctx)
    coroutine.send(None)
    coroutine.close()


async def _passes_through(ctx: Context, kind: Any) -> None:
    coroutine = explain(ctx)
    with pytest.raises(kind):
        coroutine.send(None)


async def test_a_listener_that_may_have_effects_is_named_and_not_called(ctx: Context):
    called: list[object] = []

    async def counts(execution: Any, next: Any) -> Any:
        called.append(execution)
        return await next()

    ctx.on(PRE_EXECUTE, counts)
    found = await explain(ctx)
    assert (found.verdict, found.certain) == ("allow", False)
    assert [name.rsplit(".", 1)[-1] for name in found.not_consulted] == ["counts"]
    assert called == []


async def test_a_denial_is_certain_unless_somebody_in_front_cannot_be_consulted(ctx: Context):
    async def unknown(execution: Any, next: Any) -> Any:
        return await next()

    ctx.on(PRE_EXECUTE, listener(Deny("no")))
    behind = ctx.on(PRE_EXECUTE, unknown)
    assert (await explain(ctx)).certain
    behind()
    ctx.on(PRE_EXECUTE, unknown, prepend=True)
    assert not (await explain(ctx)).certain
    ctx.tools.guard(lambda execution: "never")
    found = await explain(ctx)
    assert (found.certain, found.reason) == (True, "never")


async def test_a_denial_by_one_who_hears_the_others_is_not_certain_if_one_of_those_is_left_out(ctx: Context):
    @effect_free
    async def turns(execution: Any, next: Any) -> Any:
        return Allow() if isinstance(await next(), Deny) else Deny("turned")

    async def unknown(execution: Any, next: Any) -> Any:
        return Deny("no")

    ctx.on(PRE_EXECUTE, turns)
    assert (await explain(ctx)).certain
    ctx.on(PRE_EXECUTE, unknown)
    found = await explain(ctx)
    assert (found.verdict, found.certain) == ("deny", False)


async def test_listeners_that_only_hand_on_are_passed_over(ctx: Context):
    called: list[object] = []

    @hands_on
    async def measures(execution: Any, next: Any) -> Any:
        called.append(execution)
        return await next()

    ctx.on(PRE_EXECUTE, measures)
    found = await explain(ctx)
    assert (found.certain, found.not_consulted, called) == (True, (), [])


async def test_a_call_that_cannot_run_says_so(ctx: Context):
    assert (await explain(ctx, 5)).verdict == "invalid"
    assert '"path" must be a string' in (await explain(ctx, 5)).reason
    unknown = await explain(ctx, name="wrote")
    assert (unknown.verdict, unknown.reason) == ("invalid", 'unknown tool "wrote"')
    lossy = await ctx.tools.explain(ToolCall("write", {"path": {1, 2}}))
    assert lossy.verdict == "invalid"
    with pytest.raises(TypeError, match="explain\\(\\) takes a ToolCall"):
        await ctx.tools.explain("write")  # type: ignore[arg-type]


async def test_defaults_are_part_of_what_is_explained(ctx: Context):
    # D43
    @tool
    async def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    ctx.tools.register(add)
    found = await ctx.tools.explain(ToolCall("add", '{"a": 1}'))
    assert found.arguments == {"a": 1, "b": 2}


async def test_what_is_hidden_from_a_caller_is_unknown_to_it(ctx: Context):
    agent = ctx.create_scope("a")
    agent.tools.restrict(deny=["write"])
    assert (await explain(ctx, agent=agent)).verdict == "invalid"
    assert (await explain(ctx)).verdict == "allow"


async def test_rules_that_nearly_match_are_told_with_what_keeps_them(ctx: Context):
    rules = [
        {"tool": "write", "arguments": {"path": "/etc/*"}, "action": "deny"},
        {"tool": "write", "action": "allow"},
        {"tool": "other", "arguments": {"path": "/etc/*"}, "action": "deny"},
    ]
    await ctx.plugin(PolicyPlugin(), {"rules": rules})
    assert [(rule.name, rule.argument) for rule in (await explain(ctx, "/tmp/a")).missed] == [
        ('1: deny write with {"path":"/etc/*"}', "path")
    ]
    assert (await explain(ctx, "/etc/passwd")).missed == ()


# ── asking ─────────────────────────────────────────────────────────────────────


async def test_it_is_said_what_would_come_of_asking(ctx: Context):
    await ctx.plugin(PolicyPlugin(), {"default": "ask"})
    nobody = Foreseen("unavailable", "the call has no agent to route the question through; it is denied")
    assert (await explain(ctx)).approval == nobody
    agent = LoggedAgent()
    assert (await explain(ctx, agent=agent)).approval.prospect == "unavailable"
    close = ctx.approval.open_desk()
    assert (await explain(ctx, agent=agent)).approval.prospect == "asked"
    close()
    ctx.approval.answer_with(always("rejected"))
    assert (await explain(ctx, agent=agent)).approval.prospect == "asked"
    ctx.approval.set_policy(agent, "never")
    assert (await explain(ctx, agent=agent)).approval.prospect == "rejected"


async def test_a_remembered_answer_is_foreseen(ctx: Context):
    await ctx.plugin(PolicyPlugin(), {"default": "ask"})
    agent = LoggedAgent()
    ctx.approval.answer_with(lambda request: ApprovalAnswer("allowed-once", remember="arguments"))
    await ctx.tools.execute(ToolCall("write", {"path": "a"}, agent=agent))
    assert (await explain(ctx, agent=agent)).approval.prospect == "allowed-once"
    assert (await explain(ctx, "b", agent=agent)).approval.prospect == "asked"


def answers(outcome: Any, *, free: bool = True, hears: bool = False) -> Any:
    """A listener on approval/request: answers itself, changes what the others say, or leaves it to them (None)."""

    async def answer(request: Any, next: Any) -> Any:
        if outcome is None:
            return await next()
        if hears:
            await next()
        if isinstance(outcome, BaseException):
            raise outcome
        small = isinstance(request.arguments, dict) and request.arguments["path"] == "a"
        return ApprovalAnswer(outcome, "small") if small else await next()

    return effect_free(answer) if free else answer


ALLOWED, REJECTED = ("allowed-once", "small"), ("rejected", "small")
CANCELLED = ("rejected", 'the answer is "cancelled": small')
FAILED = ("unavailable", "an answerer fails: broken; the call is denied")
NO_ANSWER = ("unavailable", "the answer is none that exists; the call is denied")
NOBODY = ("unavailable", "nobody is there to answer; the call is denied")
SOMEBODY = ("asked", "a person is asked")


@pytest.mark.parametrize(
    ("listeners", "foreseen", "outcome"),
    [
        ([answers("allowed-once")], ALLOWED, "allowed-once"),
        ([answers("rejected")], REJECTED, "rejected"),
        ([answers("cancelled")], CANCELLED, "cancelled"),
        ([answers("unavailable")], ("unavailable", "small; the call is denied"), "unavailable"),
        ([answers(None), answers("allowed-once")], ALLOWED, "allowed-once"),
        ([answers("rejected", hears=True), answers("allowed-once")], REJECTED, "rejected"),
        ([answers(None)], NOBODY, "unavailable"),
        ([answers("nonsense")], NO_ANSWER, "unavailable"),
        ([answers(RuntimeError("broken"))], FAILED, "unavailable"),
        ([answers(asyncio.CancelledError("broken"))], FAILED, "unavailable"),
        # Only who may have effects is not asked: what would be said is not known.
        ([answers(None), answers("allowed-once", free=False)], SOMEBODY, "allowed-once"),
        ([answers("rejected", hears=True), answers("allowed-once", free=False)], SOMEBODY, "rejected"),
        ([answers("rejected"), answers("allowed-once", free=False)], REJECTED, "rejected"),
        ([hands_on(answers(None, free=False)), answers("allowed-once")], ALLOWED, "allowed-once"),
    ],
)
@pytest.mark.parametrize("remembers", [True, False])
async def test_answerers_without_effects_are_consulted(
    ctx: Context, listeners: list[Any], foreseen: Any, outcome: str, remembers: bool
):
    # HOST-86, 87: what is foreseen is what comes of it.
    await ctx.plugin(PolicyPlugin(), {"default": "ask", "remember": remembers})
    for each in listeners:
        ctx.on(APPROVAL_REQUEST, each)
    decided: list[str] = []
    ctx.on(APPROVAL_DECIDED, lambda _request, answer: decided.append(answer.outcome))
    agent = LoggedAgent()
    assert (await explain(ctx, agent=agent)).approval == Foreseen(*foreseen)
    assert decided == []
    await ctx.tools.execute(ToolCall("write", {"path": "a"}, agent=agent))
    assert decided == [outcome]


async def test_an_answer_without_a_reason_names_who_gives_it(ctx: Context):
    await ctx.plugin(PolicyPlugin(), {"default": "ask"})

    @effect_free
    def small_sums(request: Any, next: Any) -> Any:
        return ApprovalAnswer("allowed-once")

    ctx.on(APPROVAL_REQUEST, small_sums)
    found = await explain(ctx, agent=LoggedAgent())
    assert found.approval.reason.endswith("<locals>.small_sums answers")


async def test_an_answerer_is_consulted_about_the_question_that_would_be_put(ctx: Context):
    seen: list[Any] = []

    @effect_free
    async def notes(request: Any, next: Any) -> Any:
        seen.append(request)
        return await next()

    await ctx.plugin(PolicyPlugin(), {"rules": [{"tool": "write", "action": "ask", "reason": "careful"}]})
    ctx.on(APPROVAL_REQUEST, notes)
    ctx.approval.answer_with(always("allowed-once"))
    agent = LoggedAgent()
    call = ToolCall("write", {"path": "a"}, "c7", agent=agent)
    await ctx.tools.explain(call)
    await ctx.tools.execute(call)
    foreseen, put = seen
    told = [name for name in put.__struct_fields__ if name not in ("id", "signal")]
    assert [getattr(foreseen, name) for name in told] == [getattr(put, name) for name in told]
    assert put.reason == "careful"


async def test_without_an_approval_service_asking_denies():
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin())
        ctx.tools.register(make_tool("write"))
        ctx.on(PRE_EXECUTE, listener(Ask("why")))
        found = await explain(ctx)
        assert (found.verdict, found.approval.prospect) == ("ask", "unavailable")


# ── nothing happens ────────────────────────────────────────────────────────────


async def test_nothing_runs_nobody_is_asked_nothing_is_logged(ctx: Context):
    asked: list[object] = []
    seen: list[object] = []
    body = Body()
    ctx.tools.register(make_tool("w2", body))
    await ctx.plugin(CallRecordPlugin())
    await ctx.plugin(PolicyPlugin(), {"default": "ask"})
    ctx.approval.answer_with(lambda request: asked.append(request))  # type: ignore[arg-type, func-returns-value]
    ctx.on(TOOL_RESULT, lambda *given: seen.append(given))
    ctx.on(TOOL_PROGRESS, lambda *given: seen.append(given))
    agent = LoggedAgent()
    before = len(agent.session.events)
    found = await ctx.tools.explain(ToolCall("w2", {}, agent=agent))
    assert found.verdict == "ask"
    assert (body.calls, asked, seen, len(agent.session.events)) == ([], [], [], before)


async def test_the_execution_that_is_shown_is_dead(ctx: Context):
    kept: list[Any] = []
    progress: list[object] = []
    ctx.on(TOOL_PROGRESS, lambda *given: progress.append(given))

    def keeps(execution: Any) -> None:
        kept.append(execution)
        execution.progress("x")
        execution.defer_context("y")

    ctx.tools.guard(keeps)
    await explain(ctx)
    result = await ctx.tools.execute(ToolCall("write", {"path": "b"}, parent=kept[0].token))
    assert result.is_error
    assert "invalid parent token" in result.error.message
    assert (progress, kept[0].state.contexts) == ([], None)


# ── the marks ──────────────────────────────────────────────────────────────────


class Marked:
    @effect_free
    def free(self, subject: Any, next: Any) -> Any: ...

    @hands_on
    async def __call__(self, subject: Any, next: Any) -> Any: ...


def test_marks_are_found_through_methods_objects_and_partials():
    from functools import partial

    def plain(subject: Any, next: Any) -> None: ...

    assert effects_of(Marked().free) == "free"
    assert effects_of(Marked()) == "hands-on"
    assert effects_of(partial(Marked().free, 1)) == "free"
    assert effects_of(plain) == "unknown"


def test_a_mark_is_that_of_the_marked_function_alone():
    from copy import copy
    from functools import partial, update_wrapper, wraps

    @effect_free
    def looks(subject: Any, next: Any) -> None: ...

    @wraps(looks)
    def writes(subject: Any, next: Any) -> None: ...

    def tells(log: object, subject: Any, next: Any) -> None: ...

    class Wraps:
        def __init__(self) -> None:
            update_wrapper(self, looks)

        def __call__(self, subject: Any, next: Any) -> None: ...

    class Proxy:
        def __call__(self, subject: Any, next: Any) -> None: ...

        def __getattr__(self, name: str) -> Any:
            return getattr(looks, name)

    class Overrides(Marked):
        @wraps(Marked.free)
        def free(self, subject: Any, next: Any) -> Any: ...

        def __call__(self, subject: Any, next: Any) -> Any: ...

    assert effects_of(looks) == "free"
    named = update_wrapper(partial(tells, []), looks)
    for other in (writes, Wraps(), Proxy(), Overrides().free, Overrides(), named, partial(writes)):
        assert effects_of(other) == "unknown", other
    # Each may be marked itself, and then is.
    assert effects_of(effect_free(writes)) == "free"
    assert effects_of(hands_on(named)) == "hands-on"
    assert effects_of(partial(partial(named))) == "hands-on"
    wrapper = effect_free(Wraps())
    assert effects_of(wrapper) == "free"
    assert effects_of(copy(wrapper)) == "unknown"
    assert effects_of(looks) == "free"


async def test_a_wrapper_of_a_marked_listener_is_not_consulted(ctx: Context):
    from functools import wraps

    ran: list[str] = []
    looks = listener(Deny("no"))

    @wraps(looks)
    async def writes(execution: Any, next: Any) -> Any:
        ran.append("an effect")
        return await looks(execution, next)

    ctx.on(PRE_EXECUTE, writes)
    found = await explain(ctx)
    assert (found.verdict, found.certain, ran) == ("allow", False, [])
    assert len(found.not_consulted) == 1


async def test_a_listener_that_ends_with_its_first_call_is_not_consulted(ctx: Context):
    ctx.on(PRE_EXECUTE, listener(Deny("no")), once=True)
    found = await explain(ctx)
    assert (found.verdict, found.certain) == ("allow", False)
    assert (await ctx.tools.execute(ToolCall("write", {"path": "a"}))).is_error


async def test_a_policy_digest_follows_the_rules_in_force(ctx: Context):
    agent = ctx.create_scope("a")
    assert ctx.tools.policy_digest(agent.scope) is None
    first = ctx.tools.declare_policy("mine", {"rules": [1]})
    one = ctx.tools.policy_digest(agent.scope)
    own = agent.tools.declare_policy("own", 2, rules=["r"])
    both = ctx.tools.policy_digest(agent.scope)
    assert ctx.tools.policy_digest() == one != both
    assert ctx.tools.service.policies.rules(agent.scope) == ("r",)
    first()
    own()
    assert ctx.tools.policy_digest(agent.scope) is None
    # The order in which policies come does not matter.
    ctx.tools.declare_policy("own", 2)
    ctx.tools.declare_policy("mine", {"rules": [1]})
    assert ctx.tools.policy_digest() == both


@settings(max_examples=60)
@given(
    listeners=st.lists(
        st.tuples(st.sampled_from(["pass", "allow", "deny", "ask", "raise", "soften", "turn"]), st.booleans()),
        max_size=4,
    ),
    guards=st.lists(st.sampled_from(["pass", "deny", "raise"]), max_size=2),
    rules=st.lists(st.sampled_from(["allow", "ask", "deny"]), max_size=2),
)
def test_what_is_certain_is_what_happens(listeners: list[tuple[str, bool]], guards: list[str], rules: list[Any]):
    """Under any mix of rules, guards and listeners, of which some cannot be consulted."""

    def make_listener(kind: str, free: bool) -> Any:
        async def decide(execution: Any, next: Any) -> Any:
            if kind == "raise":
                raise RuntimeError("broken")
            if kind == "soften":
                decision = await next()
                return Allow() if isinstance(decision, Deny) else decision
            if kind == "turn":
                return Allow() if isinstance(await next(), Deny) else Deny("turned")
            return await next() if kind == "pass" else {"allow": Allow(), "deny": Deny("no"), "ask": Ask("?")}[kind]

        return effect_free(decide) if free else decide

    def make_guard(kind: str) -> Any:
        def check(execution: Any) -> str | None:
            if kind == "raise":
                raise RuntimeError("broken")
            return "never" if kind == "deny" else None

        return check

    async def compare() -> None:
        asked: list[object] = []
        body = Body()
        async with create_context() as ctx:
            await ctx.plugin(ToolsPlugin())
            await ctx.plugin(ApprovalPlugin())
            ctx.tools.register(make_tool("write", body))
            for kind, free in listeners:
                ctx.on(PRE_EXECUTE, make_listener(kind, free))
            await ctx.plugin(PolicyPlugin(), {"rules": [{"action": action} for action in rules]})
            for kind in guards:
                ctx.tools.guard(make_guard(kind))

            def answer(request: Any) -> str:
                asked.append(request)
                return "allowed-once"

            ctx.approval.answer_with(answer)  # type: ignore[arg-type]
            agent = LoggedAgent()
            call = ToolCall("write", {}, agent=agent)
            found = await ctx.tools.explain(call)
            assert (asked, body.calls) == ([], [])
            result = await ctx.tools.execute(call)
        if found.certain:
            assert result.is_error == (found.verdict == "deny") == (not body.calls)
            assert found.verdict != "ask" or asked
            assert found.verdict != "allow" or not asked
        if all(free for _, free in listeners):
            assert found.certain

    asyncio.run(compare())


async def test_explaining_and_running_agree(ctx: Context):
    """Reasons, too."""
    rules = [
        {"tool": "write", "arguments": {"path": "d*"}, "action": "deny", "reason": "d"},
        {"tool": "write", "arguments": {"path": "*x"}, "action": "ask"},
    ]
    await ctx.plugin(PolicyPlugin(), {"rules": rules})
    ctx.on(PRE_EXECUTE, listener(None))
    ctx.tools.guard(lambda execution: "g" if "g" in execution.arguments["path"] else None)
    ctx.approval.answer_with(always("allowed-once"))
    agent = LoggedAgent()
    for path in ("a", "d", "x", "dx", "g", "gx", "dg", 5):
        found = await explain(ctx, path, agent)
        assert found.certain
        result = await ctx.tools.execute(ToolCall("write", {"path": path}, agent=agent))
        assert result.is_error == (found.verdict in ("deny", "invalid"))
        if result.is_error:
            assert result.error.message.startswith(found.reason)
