"""The policy plugin: rules on real calls, together with hooks, approval and remembered answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pydantic
import pytest
from tests.support.agents import LoggedAgent, LoneAgent
from tests.support.calls import make_tool

from dsh_tools.content import content_text
from dsh_tools.kernel.context import Context, create_context
from dsh_tools.pipeline.service import ToolsPlugin
from dsh_tools.schema import RawSchema
from dsh_tools.services import ApprovalAnswer, ApprovalPlugin, ApprovalRequest, PolicyPlugin
from dsh_tools.session.events import SessionHeader
from dsh_tools.session.log import EventLog
from dsh_tools.tools.definition import ToolDefinition
from dsh_tools.tools.events import PRE_EXECUTE, Allow, Ask, Deny
from dsh_tools.tools.execution import ToolCall
from dsh_tools.tools.registered import compile_definition


class Asked:
    """Answers questions as told, and notes them."""

    def __init__(self, ctx: Context, answer: Any = "allowed-once") -> None:
        self.answer = answer
        self.requests: list[ApprovalRequest] = []
        ctx.approval.answer_with(self)

    def __call__(self, request: ApprovalRequest) -> Any:
        self.requests.append(request)
        return self.answer


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    context = create_context()
    await context.plugin(ToolsPlugin())
    await context.plugin(ApprovalPlugin())

    async def write(args: Any, run: Any) -> str:
        return f"wrote {args['path']}"

    context.tools.register(
        ToolDefinition(
            name="write",
            description="",
            parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
            output={"schema": {"type": "string"}},
            execute=write,
        )
    )
    yield context
    await context.dispose()


async def mount(ctx: Context, *rules: dict[str, Any], **config: Any) -> None:
    await ctx.plugin(PolicyPlugin(), {"rules": list(rules), **config})


async def write(ctx: Context, path: str, agent: Any = None) -> str:
    call = ToolCall("write", {"path": path}, agent=agent or LoneAgent())
    return content_text((await ctx.tools.execute(call)).content)


async def test_rules_allow_ask_and_deny(ctx: Context):
    await mount(
        ctx,
        {"arguments": {"path": "docs/*"}, "action": "allow"},
        {"arguments": {"path": "*.env"}, "action": "deny", "reason": "secrets stay as they are"},
        default="ask",
    )
    asked = Asked(ctx, "rejected")
    assert await write(ctx, "docs/a") == "wrote docs/a"
    assert await write(ctx, "docs/.env") == "Error: secrets stay as they are"
    assert len(asked.requests) == 0
    assert await write(ctx, "src/a") == 'Error: the user rejected tool "write"'
    assert [request.arguments for request in asked.requests] == [{"path": "src/a"}]


async def test_a_denial_without_reason_has_the_fixed_text(ctx: Context):
    await mount(ctx, {"tool": "write", "action": "deny"})
    assert await write(ctx, "a") == 'Error: tool "write" was denied by policy'


async def test_hooks_and_rules_combine_to_the_stricter(ctx: Context):
    # HOST-142
    decisions: list[Any] = []
    ctx.on(PRE_EXECUTE, lambda execution, next: decisions[-1])
    await mount(ctx, {"arguments": {"path": "ask*"}, "action": "ask", "reason": "rule"})
    asked = Asked(ctx, "rejected")
    for path, hook, expected, reason in [
        ("ask", Allow(), "rejected", "rule"),
        ("ask", Ask("hook"), "rejected", "rule; hook"),
        ("ask", Deny("hook denies"), "hook denies", None),
        ("free", Ask("hook"), "rejected", "hook"),
        ("free", Deny("hook denies"), "hook denies", None),
        ("free", Allow(), "wrote free", None),
    ]:
        asked.requests.clear()
        decisions.append(hook)
        assert expected in await write(ctx, path)
        assert [request.reason for request in asked.requests] == ([] if reason is None else [reason])


async def test_a_denial_holds_against_a_listener_in_front(ctx: Context):
    # D33: denials stand as a guard, too; HOST-92
    await mount(ctx, {"tool": "write", "action": "deny", "reason": "no"})
    ctx.on(PRE_EXECUTE, lambda execution, next: Allow(), prepend=True)
    assert await write(ctx, "a") == "Error: no"
    ctx.on(PRE_EXECUTE, lambda execution, next: Ask(), prepend=True)
    Asked(ctx)
    assert await write(ctx, "a") == "Error: no"


async def test_rules_go_with_their_plugin(ctx: Context):
    fiber = ctx.plugin(PolicyPlugin(), {"default": "deny"})
    await fiber
    assert "denied by policy" in await write(ctx, "a")
    await fiber.dispose()
    assert await write(ctx, "a") == "wrote a"


async def test_rules_of_a_scope_are_for_its_agents(ctx: Context):
    scoped = ctx.create_scope("agent")
    await mount(scoped, default="deny")
    assert "denied by policy" in await write(ctx, "a", LoneAgent(scoped.scope))
    assert await write(ctx, "a") == "wrote a"


async def test_wrong_config_is_refused(ctx: Context):
    for config in ({"default": "maybe"}, {"rules": [{"action": "permit"}]}, {"rule": []}):
        with pytest.raises(pydantic.ValidationError):
            await ctx.plugin(PolicyPlugin(), config)


async def test_rules_for_a_number_hold_whether_written_as_text_or_not(ctx: Context):
    # D33
    ctx.tools.register(make_tool("refund", parameters=AMOUNT))
    await mount(ctx, {"tool": "refund", "arguments": {"amount": "5"}, "action": "deny", "reason": "not five"})
    await mount(ctx, {"tool": "refund", "arguments": {"amount": "*"}, "action": "ask"})
    asked = Asked(ctx)
    for amount, text in ((5, "Error: not five"), (6, "ok")):
        result = await ctx.tools.execute(ToolCall("refund", {"amount": amount}, agent=LoneAgent()))
        assert content_text(result.content) == text
    assert len(asked.requests) == 1


# ── rules that can match nothing ──────────────────────────────────────────────

AMOUNT = {"type": "object", "properties": {"amount": {"type": "number"}}}


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "dsh_tools"]


async def test_a_rule_that_names_nothing_is_warned_of_once(ctx: Context, caplog: pytest.LogCaptureFixture):
    await mount(
        ctx,
        {"tool": "refnd", "action": "deny"},
        {"tool": "refund", "arguments": {"amuont": "*"}, "action": "deny"},
        {"tool": "refund", "arguments": {"[0]": "*"}, "action": "allow"},
        # These have a meaning, or may have one later.
        {"tool": "refund", "arguments": {"amount": "*"}, "action": "allow"},
        {"tool": "mcp__*", "action": "deny"},
        {"arguments": {"path": "x"}, "action": "deny"},
    )
    cashier = ctx.create_scope("cashier")
    cashier.tools.register(make_tool("refund", parameters=AMOUNT))
    assert warnings_in(caplog) == []
    for _ in range(2):
        await write(ctx, "a")
    assert warnings_in(caplog) == [
        'policy: rule "1: deny refnd" matches nothing: no registered tool is called "refnd"; did you mean "refund"?',
        'policy: rule "2: deny refund with {"amuont":"*"}" matches nothing: no tool that it is about declares "amuont"; '
        'did you mean "amount"?',
        'policy: rule "3: allow refund with {"[0]":"*"}" matches nothing: no tool that it is about declares "[0]"',
    ]


@pytest.mark.parametrize(
    ("parameters", "warned"),
    [
        ({"type": "object"}, False),
        ({"type": "object", "additionalProperties": False}, True),
        ({"type": "object", "properties": {}}, True),
        ({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}, False),
        ({"type": "object", "properties": {}, "anyOf": [{"properties": {"amount": {}}}]}, False),
    ],
)
async def test_only_what_is_sure_is_warned_of(
    ctx: Context, caplog: pytest.LogCaptureFixture, parameters: dict[str, Any], warned: bool
):
    ctx.tools.register(make_tool("refund", parameters=RawSchema(parameters)))
    await mount(ctx, {"tool": "refund", "arguments": {"amount": "*"}, "action": "deny"})
    await write(ctx, "a")
    assert bool(warnings_in(caplog)) is warned


async def test_a_program_is_a_tool_as_well(ctx: Context, caplog: pytest.LogCaptureFixture):
    ctx.tools.service.registry.set_transport(compile_definition(make_tool("run_code", parameters=AMOUNT)))
    await mount(ctx, {"tool": "run_code", "action": "ask"})
    await write(ctx, "a")
    assert warnings_in(caplog) == []


# ── remembered answers ────────────────────────────────────────────────────────


async def test_an_answer_for_these_arguments_is_bound_to_them(ctx: Context):
    await mount(ctx, default="ask")
    agent = LoggedAgent()
    asked = Asked(ctx, ApprovalAnswer("allowed-once", remember="arguments"))
    assert await write(ctx, "a", agent) == "wrote a"
    asked.answer = "rejected"
    assert await write(ctx, "a", agent) == "wrote a"
    assert len(asked.requests) == 1
    assert "rejected" in await write(ctx, "b", agent)
    assert len(asked.requests) == 2


async def test_an_answer_for_the_tool_covers_any_arguments(ctx: Context):
    await mount(ctx, default="ask")
    agent = LoggedAgent()
    asked = Asked(ctx, ApprovalAnswer("allowed-once", remember="tool"))
    await write(ctx, "a", agent)
    assert await write(ctx, "b", agent) == "wrote b"
    assert len(asked.requests) == 1


async def test_a_refusal_can_be_remembered_and_the_narrower_answer_counts(ctx: Context):
    await mount(ctx, default="ask")
    agent = LoggedAgent()
    asked = Asked(ctx, ApprovalAnswer("rejected", remember="arguments"))
    await write(ctx, "a", agent)
    asked.answer = ApprovalAnswer("allowed-once", remember="tool")
    await write(ctx, "b", agent)
    assert await write(ctx, "c", agent) == "wrote c"
    assert "rejected" in await write(ctx, "a", agent)
    assert len(asked.requests) == 2


async def test_every_use_is_recorded(ctx: Context):
    await mount(ctx, default="ask")
    agent = LoggedAgent()
    Asked(ctx, ApprovalAnswer("allowed-once", remember="tool"))
    await write(ctx, "a", agent)
    await write(ctx, "b", agent)
    assert [data.get("reason") for kind, data in agent.events("approval/decided")] == [  # type: ignore[attr-defined]
        None,
        "as answered earlier in this session",
    ]
    assert len(agent.events("approval/asked")) == 2


async def test_another_session_asks_again(ctx: Context):
    await mount(ctx, default="ask")
    asked = Asked(ctx, ApprovalAnswer("allowed-once", remember="tool"))
    await write(ctx, "a", LoggedAgent(session="one"))
    await write(ctx, "a", LoggedAgent(session="two"))
    lone = LoneAgent()
    await write(ctx, "a", lone)
    await write(ctx, "b", lone)
    assert len(asked.requests) == 3


async def test_a_resumed_session_remembers_and_a_forked_one_does_not(ctx: Context):
    await mount(ctx, default="ask")
    agent = LoggedAgent()
    asked = Asked(ctx, ApprovalAnswer("allowed-once", remember="tool"))
    await write(ctx, "a", agent)
    resumed, forked = LoggedAgent(in_turn=False), LoggedAgent(in_turn=False)
    resumed.session = EventLog(SessionHeader("s1", 0))
    resumed.session.load(agent.session.events)
    agent.end_turn()
    forked.session = EventLog(SessionHeader("s2", 0))
    forked.session.seed(agent.session.events)
    forked.start_turn()
    await write(ctx, "b", resumed)
    assert len(asked.requests) == 1
    await write(ctx, "b", forked)
    assert len(asked.requests) == 2


async def test_never_holds_against_remembered_answers(ctx: Context):
    # HOST-86
    await mount(ctx, default="ask")
    agent = LoggedAgent()
    Asked(ctx, ApprovalAnswer("allowed-once", remember="tool"))
    await write(ctx, "a", agent)
    ctx.approval.set_policy(agent, "never")
    assert 'the user rejected tool "write"' in await write(ctx, "a", agent)


async def test_remembering_can_be_switched_off(ctx: Context):
    await mount(ctx, default="ask", remember=False)
    agent = LoggedAgent()
    asked = Asked(ctx, ApprovalAnswer("allowed-once", remember="tool"))
    await write(ctx, "a", agent)
    await write(ctx, "a", agent)
    assert [request.can_be_remembered for request in asked.requests] == [False, False]
