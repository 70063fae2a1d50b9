"""The entry of a call, policy decisions, approval and guards: PIPE sections A, H to M."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.support.calls import (
    ABD,
    ABORTED_BEFORE,
    UNKNOWN,
    Body,
    Recorder,
    app,
    error,
    make_tool,
    run,
    text_of,
)

from dsh_tools.content import TextBlock
from dsh_tools.errors import DefinitionError, HarnessError, describe_exception
from dsh_tools.kernel import NEVER, AbortController, Context
from dsh_tools.tools import Accept, Allow, Ask, Block, Deny, ErrorInfo, ToolCall

INT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Agent:
    """A caller: nothing but a scope."""

    def __init__(self, context: Context) -> None:
        self.scope = context.scope


def returning(decision: Any) -> Any:
    async def listener(_execution: Any, next: Any) -> Any:
        return decision

    return listener


def raising(failure: BaseException) -> Any:
    async def listener(_subject: Any, next: Any) -> Any:
        raise failure

    return listener


# ── A. What was raised ─────────────────────────────────────────────────────────


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (ValueError("kaboom"), "kaboom"),
        (ValueError(), "ValueError"),
        (HarnessError("denied"), "denied"),
        (Unprintable(), "<unprintable thrown value>"),
    ],
)
async def test_the_message_of_what_was_raised(raised: Exception, message: str) -> None:
    # PIPE-8, 9
    assert describe_exception(raised) == message
    async with app() as ctx:
        ctx.tools.register(make_tool(execute=Body(raised)))
        assert text_of(await run(ctx)) == f"Error: {message}"


async def test_only_typed_errors_carry_info() -> None:
    # PIPE-10 to 12, 229: a code is always a string here
    class Mine(HarnessError):
        default_code = "MINE"

    class WithCode(Exception):
        code = "NOT_OURS"

    async with app() as ctx:
        ctx.tools.register(make_tool("typed", Body(Mine("x"))))
        ctx.tools.register(make_tool("other", Body(HarnessError("x", "SPECIAL", name="Named"))))
        ctx.tools.register(make_tool("plain", Body(WithCode("x"))))
        assert await run(ctx, "typed") == error("x", ErrorInfo("Mine", "MINE"))
        assert await run(ctx, "other") == error("x", ErrorInfo("Named", "SPECIAL"))
        assert await run(ctx, "plain") == error("x")


# ── I. Entry ───────────────────────────────────────────────────────────────────


async def test_a_call_is_a_record_that_cannot_drift() -> None:
    # PIPE-86, 87: a frozen record of plain fields has nothing to read twice
    with pytest.raises(AttributeError):
        ToolCall("t").name = "u"  # type: ignore[misc]


async def test_identity_travels_with_the_execution() -> None:
    # PIPE-88, 89; HOST-167: each call has an execution of its own
    async with app() as ctx:
        seen: list[Any] = []

        def look(args: Any, execution: Any) -> str:
            seen.append(execution.token)
            return "ok"

        recorder = Recorder(ctx)
        ctx.tools.register(make_tool(execute=Body(look)))
        agent = Agent(ctx.create_scope("agent"))
        await run(ctx, call_id="c1", agent=agent)
        await run(ctx, call_id="c2", root_call_id="root")
        first, second = recorder.executions
        assert (first.call_id, first.root_call_id, first.agent) == ("c1", "c1", agent)
        assert (second.call_id, second.root_call_id, second.agent) == ("c2", "root", None)
        assert seen == [first.token, second.token]
        assert first.token is not second.token


async def test_arguments_are_a_frozen_copy() -> None:
    # PIPE-90, 3, 4, 5
    async with app() as ctx:
        body = Body()
        ctx.tools.register(make_tool(execute=body))
        shared = {"x": 1}
        given = {"a": shared, "b": shared, "__proto__": [1]}
        await run(ctx, arguments=given)
        (seen,) = body.calls
        assert seen == given
        assert seen is not given
        shared["x"] = 2
        assert seen["a"] == {"x": 1}
        with pytest.raises(TypeError):
            seen["a"]["x"] = 3
        assert seen["a"] is not seen["b"]


@pytest.mark.parametrize(
    ("value", "where"),
    [({"a": -0.0}, "a"), ({"a": [float("nan")]}, "a[0]"), ({"a": {1}}, "a"), ({1: 2}, ""), ((1,), "")],
)
async def test_lossy_arguments_stop_at_the_door(value: Any, where: str) -> None:
    # PIPE-1, 2, 91, 92
    async with app() as ctx:
        body, finalized = Body(), []
        ctx.tools.register(make_tool(execute=body, finalize_content=lambda *_: finalized.append(1)))
        recorder = Recorder(ctx)
        controller = AbortController()
        result = await run(ctx, arguments=value, call_id="c", signal=controller.signal)
        first, _, hint = text_of(result).partition("\n")
        assert first == "Error: tool execution arguments must be losslessly JSON-serializable"
        assert hint.startswith(where or "value")
        assert recorder.seen == ["result"]
        assert (body.calls, finalized) == ([], [1])
        execution = recorder.executions[0]
        assert (execution.call_id, execution.name, execution.signal) == ("c", "t", controller.signal)


async def test_a_cycle_is_lossy_and_depth_is_not() -> None:
    # PIPE-2, 6
    async with app() as ctx:
        ctx.tools.register(make_tool())
        cyclic: dict[str, Any] = {}
        cyclic["self"] = cyclic
        assert "circular" in text_of(await run(ctx, arguments=cyclic))
        deep: Any = {}
        for _ in range(5000):
            deep = {"d": deep}
        assert text_of(await run(ctx, arguments=deep)) == "ok"


async def test_everything_frozen_goes_all_the_way_down() -> None:
    # PIPE-7
    async with app() as ctx:
        ctx.tools.register(make_tool(execute=Body({"a": [{"b": 1}]})))
        result = await run(ctx)
        with pytest.raises(TypeError):
            result.value["a"][0]["b"] = 2  # type: ignore[union-attr]


@pytest.mark.parametrize("nothing", ["", "   ", None, "null", "{}"])
async def test_no_arguments_are_an_empty_object(nothing: Any) -> None:
    # PIPE-93 and field-001: what a model sends for a tool without parameters
    async with app() as ctx:
        body = Body()
        ctx.tools.register(make_tool(execute=body))
        assert text_of(await ctx.tools.execute(ToolCall("t", nothing))) == "ok"
        assert body.calls == [{}]


@pytest.mark.parametrize("value", [[], 5, "text", True])
async def test_other_roots_are_arguments_that_a_schema_refuses(value: Any) -> None:
    # PIPE-93 by D26: every tool's parameters are object-rooted
    async with app() as ctx:
        body = Body()
        ctx.tools.register(make_tool(execute=body))
        ctx.tools.register(make_tool("open", execute=body, validate_arguments=False))
        given = f'"{value}"' if isinstance(value, str) else value
        assert '"arguments" must be an object' in text_of(await ctx.tools.execute(ToolCall("t", given)))
        assert text_of(await ctx.tools.execute(ToolCall("open", given))) == "ok"


async def test_bad_arguments_win_over_an_abort_and_an_unknown_name() -> None:
    # PIPE-94, 184
    async with app() as ctx:
        controller = AbortController()
        controller.abort()
        result = await run(ctx, "nobody", {"a": {1}}, signal=controller.signal)
        assert "losslessly JSON-serializable" in text_of(result)


async def test_a_missing_signal_never_aborts() -> None:
    # PIPE-95 by D21
    async with app() as ctx:
        recorder = Recorder(ctx)
        ctx.tools.register(make_tool())
        assert text_of(await run(ctx)) == "ok"
        assert recorder.executions[0].signal is NEVER


async def test_an_execution_is_read_only_but_for_its_signal() -> None:
    # PIPE-97, 98, 180
    async with app() as ctx:
        ctx.tools.register(make_tool())
        attempts: list[str] = []

        async def wrapper(execution: Any, next: Any) -> Any:
            for field, value in (("name", "u"), ("arguments", {}), ("token", object()), ("signal", None)):
                try:
                    setattr(execution, field, value)
                except AttributeError as refusal:
                    attempts.append(str(refusal))
            execution.defer_context("from the wrapper")
            return await next()

        ctx.on("tools/execute", wrapper)
        recorder = Recorder(ctx)
        result = await run(ctx)
        assert len(attempts) == 4
        assert text_of(result) == "ok"
        execution = recorder.executions[0]
        with pytest.raises(AttributeError, match="settled"):
            execution.signal = NEVER
        execution.defer_context("too late")
        assert len(result.additional_contexts) == 1  # type: ignore[arg-type]


async def test_arguments_are_checked_before_anybody_is_asked() -> None:
    # D25; PIPE-223, 206
    async with app() as ctx:
        body = Body()
        finalized: list[Any] = []
        ctx.tools.register(
            make_tool(execute=body, parameters=INT, finalize_content=lambda _e, result: finalized.append(result))
        )
        guarded: list[Any] = []
        ctx.tools.guard(lambda execution: guarded.append(execution))
        recorder = Recorder(ctx)
        for arguments in ('{"n": "x"}', '{"n": 1', {"n": "x"}):
            result = await ctx.tools.execute(ToolCall("t", arguments))
            assert result.is_error
            assert result.error.info == ErrorInfo("ToolArgsError", "INVALID_ARGS")
            assert text_of(result).startswith("Error: invalid arguments: ")
        assert recorder.seen == ["post", "result"] * 3
        assert (body.calls, guarded, len(finalized)) == ([], [], 3)


async def test_unknown_tools_skip_the_check() -> None:
    # D25, PIPE-101
    async with app() as ctx:
        recorder = Recorder(ctx)
        guarded: list[str] = []
        ctx.tools.guard(lambda execution: guarded.append(execution.name))
        result = await ctx.tools.execute(ToolCall("nobody", "{not json"))
        assert result == error('unknown tool "nobody"', UNKNOWN)
        assert recorder.seen == ["pre", "around", "post", "result"]
        assert guarded == ["nobody"]  # PIPE-82


async def test_a_near_name_is_offered_only_if_visible() -> None:
    # PIPE-221 by D27
    async with app() as ctx:
        scoped = ctx.create_scope("agent")
        ctx.tools.register(make_tool("read_file"))
        ctx.tools.register(make_tool("secret_tool"))
        scoped.tools.restrict(deny=["secret_tool"])
        agent = Agent(scoped)
        near = await run(ctx, "read_fil", agent=agent)
        assert text_of(near) == 'Error: unknown tool "read_fil"\nDid you mean "read_file"?'
        assert "secret" not in text_of(await run(ctx, "secret_too", agent=agent)).replace("secret_too", "")
        assert text_of(await run(ctx, "secret_tool", agent=agent)) == 'Error: unknown tool "secret_tool"'


async def test_defaults_are_filled_before_policy_looks() -> None:
    # D43
    async with app() as ctx:
        body, seen = Body(), []
        ctx.tools.register(make_tool(execute=body, defaults={"force": True, "tags": []}))
        ctx.tools.guard(lambda execution: seen.append(execution.arguments))
        await run(ctx, arguments={"tags": [1]})
        assert seen == [{"force": True, "tags": [1]}] == body.calls


# ── Code Mode's collapse ───────────────────────────────────────────────────────

ROUTE = 'unknown tool "t": only `run_code` is callable directly — call `t` from inside a `run_code` program instead'


async def test_a_collapsed_call_stops_before_policy() -> None:
    # PIPE-102, HOST-162
    async with app(mode="code") as ctx:
        finalized: list[int] = []
        ctx.tools.register(make_tool(finalize_content=lambda *_: finalized.append(1)))
        guarded: list[Any] = []
        ctx.tools.guard(lambda execution: guarded.append(execution))
        recorder = Recorder(ctx)
        assert await run(ctx) == error(ROUTE, UNKNOWN)
        assert (recorder.seen, finalized, guarded) == (["result"], [], [])


async def test_collapse_and_abort_and_bad_arguments() -> None:
    # PIPE-103
    async with app(mode="code") as ctx:
        finalized: list[int] = []
        ctx.tools.register(make_tool(finalize_content=lambda *_: finalized.append(1)))
        controller = AbortController()
        assert "losslessly" in text_of(await run(ctx, arguments={"a": {1}}))
        assert finalized == []
        controller.abort()
        assert await run(ctx, signal=controller.signal) == ABORTED_BEFORE
        assert finalized == [1]
        assert "losslessly" in text_of(await run(ctx, arguments={"a": {1}}, signal=controller.signal))
        assert finalized == [1, 1]


async def test_an_invisible_name_is_not_collapsed() -> None:
    # PIPE-104
    async with app(mode="code") as ctx:
        recorder = Recorder(ctx)
        assert await run(ctx, "nobody") == error('unknown tool "nobody"', UNKNOWN)
        assert recorder.seen == ["pre", "around", "post", "result"]


async def test_nested_calls_are_not_collapsed_if_their_parent_lives() -> None:
    # PIPE-105 by D21
    async with app(mode="both") as ctx:
        agent = ctx.create_scope("agent")
        nested: list[Any] = []
        tokens: list[Any] = []

        async def outer(args: Any, execution: Any) -> str:
            tokens.append(execution.token)
            inner = ToolCall("t", {}, agent=Agent(agent), parent=execution.token)
            nested.append(await ctx.tools.execute(inner))
            return "done"

        ctx.tools.register(make_tool())
        ctx.tools.register(make_tool("outer", outer))
        agent.tools.present_as("code")
        await run(ctx, "outer")
        assert text_of(nested[0]) == "ok"
        stale = await run(ctx, agent=Agent(agent), parent=tokens[0])
        assert text_of(stale) == "Error: invalid parent token"
        assert stale.error.info.code == "INVALID_PARENT"  # type: ignore[union-attr]
    async with app() as other:
        other.tools.register(make_tool())
        recorder = Recorder(other)
        assert text_of(await run(other, parent=tokens[0])) == "Error: invalid parent token"
        assert recorder.seen == ["result"]


# ── J, K. Order and waterfalls ─────────────────────────────────────────────────


async def test_the_stages_come_in_order() -> None:
    # PIPE-99, 100, 110
    async with app() as ctx:
        order: list[str] = []

        def body(args: Any, execution: Any) -> str:
            order.append("body")
            return "ok"

        ctx.tools.register(
            make_tool(
                execute=Body(body),
                render=lambda _args, _value: order.append("render") or (TextBlock("r"),),
                finalize_content=lambda *_: order.append("finalize"),
            )
        )
        ctx.tools.guard(lambda _execution: order.append("guard"))
        recorder = Recorder(ctx)
        recorder.seen = order
        await run(ctx)
        assert order == ["pre", "guard", "around", "body", "render", "post", "finalize", "result"]
        order.clear()
        ctx.on("tools/pre-execute", returning(Deny("no")), prepend=True)
        await run(ctx)
        assert order == ["post", "finalize", "result"]


async def test_a_tool_removed_on_the_way_is_unknown_at_dispatch() -> None:
    # PIPE-106, 175
    async with app() as ctx:
        finalized: list[int] = []
        dispose = ctx.tools.register(make_tool(finalize_content=lambda *_: finalized.append(1)))

        async def remove(_execution: Any, next: Any) -> Any:
            dispose()
            return await next()

        ctx.on("tools/pre-execute", remove)
        recorder = Recorder(ctx)
        assert await run(ctx) == error('unknown tool "t"', UNKNOWN)
        assert "post" in recorder.seen
        assert finalized == [1]


async def test_listeners_nest_and_may_cut_the_chain() -> None:
    # PIPE-107, 108
    async with app() as ctx:
        order: list[str] = []

        def link(name: str, cut: bool = False) -> Any:
            async def listener(_execution: Any, next: Any) -> Any:
                order.append(name)
                return Allow() if cut else await next("ignored")

            return listener

        ctx.tools.register(make_tool())
        ctx.on("tools/pre-execute", link("second"))
        ctx.on("tools/pre-execute", link("third"))
        ctx.on("tools/pre-execute", link("first"), prepend=True)
        await run(ctx)
        assert order == ["first", "second", "third"]
        order.clear()
        ctx.on("tools/pre-execute", link("cut", cut=True), prepend=True)
        await run(ctx)
        assert order == ["cut"]


async def test_calling_next_again_replays_the_rest_of_the_chain() -> None:
    # PIPE-109 and 133 by D12
    async with app() as ctx:
        order: list[str] = []

        async def twice(_execution: Any, next: Any) -> Any:
            order.append("A")
            await next()
            return await next()

        async def inner(_execution: Any, next: Any) -> Any:
            order.append("B")
            return await next()

        def body(args: Any, execution: Any) -> str:
            order.append("body")
            execution.defer_context(f"attempt {order.count('body')}")
            if order.count("body") == 1:
                execution.conclude_turn()
            return f"attempt {order.count('body')}"

        ctx.tools.register(make_tool(execute=Body(body)))
        ctx.on("tools/execute", twice)
        ctx.on("tools/execute", inner)
        result = await run(ctx)
        assert order == ["A", "B", "body", "B", "body"]
        assert text_of(result) == "attempt 2"
        assert [text.content[0].text for text in result.additional_contexts] == ["attempt 1", "attempt 2"]  # type: ignore[union-attr]
        assert result.concludes_turn is True  # type: ignore[union-attr]


# ── L. Decisions ───────────────────────────────────────────────────────────────


async def test_a_denial_is_reviewed_and_carries_no_info() -> None:
    # PIPE-111, 230
    async with app() as ctx:
        body = Body()
        ctx.tools.register(make_tool(execute=body))
        reviewed: list[Any] = []

        async def post(review: Any, next: Any) -> Any:
            reviewed.append(review.result)
            return await next()

        ctx.on("tools/pre-execute", returning(Deny("not today")))
        ctx.on("tools/post-execute", post)
        result = await run(ctx)
        assert result == error("not today")
        assert reviewed == [result]
        assert body.calls == []


async def test_arguments_cannot_be_rewritten() -> None:
    # PIPE-112
    async with app() as ctx:
        body = Body()
        ctx.tools.register(make_tool(execute=body))

        async def rewrite(execution: Any, next: Any) -> Any:
            with pytest.raises(TypeError):
                execution.arguments["n"] = 2
            return await next()

        ctx.on("tools/pre-execute", rewrite)
        await run(ctx, arguments={"n": 1})
        assert body.calls == [{"n": 1}]


async def test_a_listener_that_raises_ends_the_call() -> None:
    # PIPE-113, 187
    async with app() as ctx:
        body, finalized, guarded = Body(), [], []
        ctx.tools.register(make_tool(execute=body, finalize_content=lambda *_: finalized.append(1)))
        ctx.tools.guard(lambda execution: guarded.append(execution))
        recorder = Recorder(ctx)
        remove = ctx.on("tools/pre-execute", raising(HarnessError("policy broke", "BROKE")))
        assert await run(ctx) == error("policy broke", ErrorInfo("HarnessError", "BROKE"))
        assert recorder.seen == ["pre", "result"]
        assert (body.calls, finalized, guarded) == ([], [1], [])
        remove()
        ctx.on("tools/pre-execute", raising(ValueError("plain")))
        assert await run(ctx) == error("plain")


@pytest.mark.parametrize("decision", [None, "allow", {"kind": "allow"}, 5, Accept(), Deny(5), Ask(["x"])])  # type: ignore[arg-type]
async def test_anything_but_a_decision_fails_closed(decision: Any) -> None:
    # PIPE-114, 115, 116, 117, 239 by D21, D37
    async with app() as ctx:
        body = Body()
        ctx.tools.register(make_tool(execute=body))

        async def forward(_execution: Any, next: Any) -> Any:
            return await next()

        async def culprit(_execution: Any, next: Any) -> Any:
            return decision

        ctx.on("tools/pre-execute", forward)
        ctx.on("tools/pre-execute", culprit)
        recorder = Recorder(ctx)
        result = await run(ctx)
        assert result.is_error
        assert result.error.info == ErrorInfo("ListenerError", "INVALID_LISTENER_RESULT")
        message = result.error.message
        assert "culprit" in message
        assert '" returned an invalid tools/pre-execute result: ' in message
        assert recorder.seen == ["result"]
        assert body.calls == []


async def test_a_denial_without_a_reason_and_with_an_empty_one() -> None:
    # PIPE-116 by D21, 117
    async with app() as ctx:
        ctx.tools.register(make_tool())
        remove = ctx.on("tools/pre-execute", returning(Deny()))
        assert text_of(await run(ctx)) == 'Error: tool "t" was denied by policy'
        remove()
        ctx.on("tools/pre-execute", returning(Deny("")))
        assert text_of(await run(ctx)) == "Error: "


# ── M. Approval ────────────────────────────────────────────────────────────────


@dataclasses.dataclass
class Answer:
    outcome: str
    reason: str | None = None


class Approver:
    """An approval service that answers what it is told, after whatever it is told to do."""

    def __init__(self, answer: Any, during: Any = None) -> None:
        self.answer = answer
        self.during = during
        self.requests: list[dict[str, Any]] = []

    async def request(self, **request: Any) -> Any:
        self.requests.append(request)
        if self.during is not None:
            self.during()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def asking(ctx: Context, approver: Approver | None, ask: Ask = Ask("really?")) -> Body:
    body = Body()
    ctx.tools.register(make_tool(execute=body))
    ctx.on("tools/pre-execute", returning(ask))
    if approver is not None:
        ctx.provide("approval", approver)
    return body


async def test_without_an_approval_service_an_ask_denies() -> None:
    # PIPE-118, 119
    async with app() as ctx:
        body = await asking(ctx, None)
        assert await run(ctx) == error("really?")
        assert body.calls == []
        late = Approver(Answer("allowed-once"))
        ctx.provide("approval", late)
        agent = Agent(ctx.create_scope("agent"))
        assert text_of(await run(ctx, agent=agent)) == "ok"
    async with app() as ctx:
        await asking(ctx, None, Ask())
        assert await run(ctx) == error('tool "t" requires approval (not yet supported)')


async def test_without_an_agent_nobody_is_asked() -> None:
    # PIPE-120
    async with app() as ctx:
        approver = Approver(Answer("allowed-once"))
        await asking(ctx, approver)
        text = 'tool "t" requires approval, but the call has no agent to route it through'
        assert await run(ctx) == error(text)
        assert approver.requests == []


async def test_a_request_names_the_call_and_a_grant_lets_it_run() -> None:
    # PIPE-121, 122
    async with app() as ctx:
        approver = Approver(Answer("allowed-once"))
        body = await asking(ctx, approver)
        guarded: list[Any] = []
        ctx.tools.guard(lambda execution: guarded.append(execution))
        controller = AbortController()
        agent = Agent(ctx.create_scope("agent"))
        assert text_of(await run(ctx, agent=agent, call_id="c", signal=controller.signal)) == "ok"
        (request,) = approver.requests
        assert request["agent"] is agent
        assert request["reason"] == "really?"
        assert request["signal"] is controller.signal
        assert (request["execution"].name, request["execution"].call_id) == ("t", "c")
        assert (len(guarded), len(body.calls)) == (1, 1)


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ("rejected", 'the user rejected tool "t"'),
        ("cancelled", 'approval for tool "t" was cancelled'),
        ("unavailable", 'tool "t" requires approval, but no approval channel is available'),
    ],
)
async def test_what_a_refusal_says(outcome: str, text: str) -> None:
    # PIPE-123, 124, 125
    async with app() as ctx:
        approver = Approver(Answer(outcome))
        body = await asking(ctx, approver)
        agent = Agent(ctx.create_scope("agent"))
        recorder = Recorder(ctx)
        assert await run(ctx, agent=agent) == error(text)
        assert recorder.seen == ["post", "result"]
        approver.answer = Answer(outcome, "use the other one")
        assert text_of(await run(ctx, agent=agent)) == f"Error: {text}\nuse the other one"
        approver.answer = Answer(outcome)
        controller = AbortController()
        approver.during = controller.abort
        aborted = await run(ctx, agent=agent, signal=controller.signal)
        assert aborted == (ABORTED_BEFORE if outcome == "cancelled" else error(text))
        assert body.calls == []


async def test_a_grant_that_comes_with_an_abort_is_an_abort() -> None:
    # PIPE-188
    async with app() as ctx:
        controller = AbortController()
        body = await asking(ctx, Approver(Answer("allowed-once"), controller.abort))
        recorder = Recorder(ctx)
        agent = Agent(ctx.create_scope("agent"))
        assert await run(ctx, agent=agent, signal=controller.signal) == ABORTED_BEFORE
        assert recorder.seen == ["post", "result"]
        assert body.calls == []


async def test_an_approval_service_that_breaks_its_word() -> None:
    # PIPE-126, 127
    async with app() as ctx:
        approver = Approver(Answer("maybe"))
        body = await asking(ctx, approver)
        recorder = Recorder(ctx)
        agent = Agent(ctx.create_scope("agent"))
        strange = text_of(await run(ctx, agent=agent))
        assert "unreachable" in strange
        assert "maybe" in strange
        approver.answer = ValueError("no line")
        assert await run(ctx, agent=agent) == error("no line")
        assert recorder.seen == ["result", "result"]
        assert body.calls == []


# ── H. Guards ──────────────────────────────────────────────────────────────────


async def test_guards_come_last_and_can_only_deny() -> None:
    # PIPE-73, 75, 83
    async with app() as ctx:
        body = Body()
        ctx.tools.register(make_tool(execute=body))
        order: list[str] = []
        ctx.tools.guard(lambda _execution: order.append("guard") or "guarded")
        ctx.on("tools/pre-execute", returning(Allow()))
        recorder = Recorder(ctx)
        result = await run(ctx)
        assert result == error("guarded")
        assert recorder.seen == ["post", "result"]
        assert (order, body.calls) == (["guard"], [])


async def test_a_scoped_guard_watches_its_scope_and_descendants() -> None:
    # PIPE-73, 76, 77
    async with app() as ctx:
        ctx.tools.register(make_tool())
        parent = ctx.create_scope("parent")
        child = ctx.create_scope("child", parent=parent.scope)
        order: list[str] = []
        for context, name in ((child, "own"), (parent, "outer"), (ctx, "global 1"), (ctx, "global 2")):
            context.tools.guard(lambda _execution, name=name: order.append(name))
        await run(ctx, agent=Agent(child))
        assert order == ["global 1", "global 2", "outer", "own"]
        order.clear()
        await run(ctx)
        assert order == ["global 1", "global 2"]
        order.clear()
        ctx.tools.guard(lambda _execution: "stop")
        await run(ctx, agent=Agent(child))
        assert order == ["global 1", "global 2"]


@pytest.mark.parametrize("verdict", [False, 0, 5, ["x"]])
async def test_a_guard_says_nothing_or_a_reason(verdict: Any) -> None:
    # PIPE-74, 85 by D37
    async with app() as ctx:
        body = Body()
        ctx.tools.register(make_tool(execute=body))
        ctx.tools.guard(lambda _execution: verdict)
        recorder = Recorder(ctx)
        result = await run(ctx)
        assert result.is_error
        assert result.error.info.code == "INVALID_LISTENER_RESULT"  # type: ignore[union-attr]
        assert "returned an invalid guard result: expected None or a reason" in result.error.message
        assert recorder.seen == ["pre", "result"]
        assert body.calls == []


async def test_an_empty_reason_denies() -> None:
    # PIPE-74
    async with app() as ctx:
        ctx.tools.register(make_tool())
        ctx.tools.guard(lambda _execution: "")
        assert text_of(await run(ctx)) == "Error: "


async def test_an_async_guard_is_refused() -> None:
    # PIPE-85 by D29
    async def guard(_execution: Any) -> None: ...

    async with app() as ctx:
        for wrong in (guard, None):
            with pytest.raises(DefinitionError, match="synchronous callable"):
                ctx.tools.guard(wrong)  # type: ignore[arg-type]


async def test_one_function_twice_is_two_guards() -> None:
    # PIPE-78
    async with app() as ctx:
        ctx.tools.register(make_tool())
        seen: list[int] = []

        def guard(_execution: Any) -> None:
            seen.append(1)

        first = ctx.tools.guard(guard)
        ctx.tools.guard(guard)
        await run(ctx)
        assert len(seen) == 2
        first()
        first()
        await run(ctx)
        assert len(seen) == 3


async def test_guards_are_iterated_live_within_a_generation() -> None:
    # PIPE-79, 80; HOST-55
    async with app() as ctx:
        ctx.tools.register(make_tool())
        order: list[str] = []

        def adder(_execution: Any) -> None:
            order.append("adder")
            if order.count("adder") == 1:
                ctx.tools.guard(lambda _e: order.append("added"))

        remove = ctx.tools.guard(adder)
        await run(ctx)
        assert order == ["adder", "added"]
        remove()
    async with app() as ctx:
        ctx.tools.register(make_tool())
        order.clear()
        removers: list[Any] = []

        def drains(_execution: Any) -> None:
            order.append("drains")
            removers.pop()()
            ctx.tools.guard(lambda _e: order.append("next generation"))

        removers.append(ctx.tools.guard(drains))
        await run(ctx)
        assert order == ["drains"]
        await run(ctx)
        assert order == ["drains", "next generation"]


async def test_when_guards_are_skipped_and_when_not() -> None:
    # PIPE-81, 82
    async with app(mode="native") as ctx:
        guarded: list[str] = []
        ctx.tools.guard(lambda execution: guarded.append(execution.name))

        async def outer(args: Any, execution: Any) -> str:
            await ctx.tools.execute(ToolCall("t", {}, parent=execution.token))
            return "ok"

        ctx.tools.register(make_tool(parameters=INT))
        ctx.tools.register(make_tool("outer", outer))
        controller = AbortController()
        controller.abort()
        await run(ctx, arguments={"n": 1}, signal=controller.signal)
        await run(ctx, arguments={"n": "x"})
        assert guarded == []
        await run(ctx, "nobody")
        assert guarded == ["nobody"]
        await run(ctx, "outer")
        assert guarded == ["nobody", "outer"]  # the nested call's arguments were bad
        ctx.on("tools/pre-execute", returning(Deny("no")))
        await run(ctx, "nobody")
        assert guarded == ["nobody", "outer"]


async def test_a_nested_call_is_guarded() -> None:
    # PIPE-82
    async with app() as ctx:
        guarded: list[str] = []
        ctx.tools.guard(lambda execution: guarded.append(execution.name))

        async def outer(args: Any, execution: Any) -> str:
            await ctx.tools.execute(ToolCall("t", {}, parent=execution.token))
            return "ok"

        ctx.tools.register(make_tool())
        ctx.tools.register(make_tool("outer", outer))
        await run(ctx, "outer")
        assert guarded == ["outer", "t"]


async def test_a_guard_that_raises_ends_the_call() -> None:
    # PIPE-84
    async with app() as ctx:
        body = Body()
        ctx.tools.register(make_tool(execute=body))

        def guard(_execution: Any) -> None:
            raise HarnessError("broken guard", "GUARD")

        ctx.tools.guard(guard)
        recorder = Recorder(ctx)
        assert await run(ctx) == error("broken guard", ErrorInfo("HarnessError", "GUARD"))
        assert recorder.seen == ["pre", "result"]
        assert body.calls == []


async def test_an_abort_during_policy() -> None:
    # PIPE-183, 185, 186, 224
    async with app() as ctx:
        body = Body()
        ctx.tools.register(make_tool(execute=body))
        recorder = Recorder(ctx)
        before = AbortController()
        before.abort()
        assert await run(ctx, signal=before.signal) == ABORTED_BEFORE
        assert recorder.seen == ["result"]
        assert ABORTED_BEFORE.error.info == ABD
        for verdict, expected in ((Allow(), ABORTED_BEFORE), (Deny("no"), error("no"))):
            controller = AbortController()

            async def abort(_execution: Any, next: Any, verdict: Any = verdict, controller: Any = controller) -> Any:
                controller.abort()
                return verdict

            remove = ctx.on("tools/pre-execute", abort, prepend=True)
            recorder.seen.clear()
            assert await run(ctx, signal=controller.signal) == expected
            assert recorder.seen == ["post", "result"]
            remove()
        controller = AbortController()
        ctx.tools.guard(lambda _execution: controller.abort() or "guarded")
        assert await run(ctx, signal=controller.signal) == error("guarded")
        assert body.calls == []
        assert Block  # the other decision kind belongs to review
