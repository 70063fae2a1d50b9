"""Field cases on policy and approval."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.agents import LoggedAgent, LoneAgent

from dsh_tools.content import content_text
from dsh_tools.json_value import digest
from dsh_tools.kernel.abort import NEVER, AbortController, AbortSignal
from dsh_tools.kernel.context import Context, create_context
from dsh_tools.pipeline.scheduler import CallLane, Slot
from dsh_tools.pipeline.service import ToolsPlugin
from dsh_tools.services import ApprovalAnswer, ApprovalPlugin, ApprovalRequest, PolicyPlugin, open_questions
from dsh_tools.session.events import SessionHeader
from dsh_tools.session.log import EventLog
from dsh_tools.tools.definition import ToolDefinition
from dsh_tools.tools.events import POST_EXECUTE, PRE_EXECUTE, Allow, Ask, Deny
from dsh_tools.tools.execution import ToolCall
from dsh_tools.tools.result import ErrorInfo, ToolResult


class World:
    """A context with tools, approval and rules, what ran in it, and what was asked."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.ran: list[tuple[str, Any]] = []
        self.asked: list[ApprovalRequest] = []
        self.answer: Any = "allowed-once"
        ctx.approval.answer_with(self._answer)

    def _answer(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        return self.answer(request) if callable(self.answer) else self.answer

    def tool(self, name: str, **more: Any) -> None:
        async def body(args: Any, run: Any) -> str:
            self.ran.append((name, args))
            return f"{name} ran"

        self.ctx.tools.register(
            ToolDefinition(
                name=name,
                description="",
                parameters=more.pop("parameters", {"type": "object", "properties": {}}),
                output={"schema": {"type": "string"}},
                execute=more.pop("execute", body),
                **more,
            )
        )

    async def rules(self, *rules: dict[str, Any], **config: Any) -> None:
        await self.ctx.plugin(PolicyPlugin(), {"rules": list(rules), **config})

    async def call(self, name: str, arguments: Any = None, agent: Any = None) -> str:
        call = ToolCall(name, arguments or {}, agent=agent or LoneAgent())
        return content_text((await self.ctx.tools.execute(call)).content)

    async def batch(self, calls: list[ToolCall], signal: AbortSignal = NEVER) -> dict[str, ToolResult]:
        """Run calls as the agent loop runs the calls of one message; results in the order of their commit."""
        results: dict[str, ToolResult] = {}

        class Owner:
            def starting(self, slot: Slot[None]) -> None: ...

            async def committed(self, slot: Slot[None], result: ToolResult) -> None:
                results[slot.call.call_id] = result

            def abandoned(self, slot: Slot[None]) -> None: ...

        lane: CallLane[None] = CallLane(self.ctx.tools, Owner(), max_parallel=lambda: 10, signal=signal)
        for call in calls:
            lane.submit(call, None)
        lane.close()
        await lane.run()
        return results


@pytest.fixture
async def world(no_leaks: None) -> AsyncIterator[World]:
    context = create_context()
    await context.plugin(ToolsPlugin())
    await context.plugin(ApprovalPlugin())
    yield World(context)
    await context.dispose()


@pytest.mark.field("field-066")
async def test_a_call_behind_a_cancelled_one_never_starts(world: World):
    reviewed: list[str] = []
    in_hook, caller = asyncio.Event(), AbortController()

    async def slow_for_a(execution: Any, next: Any) -> Any:
        if execution.name == "a":
            in_hook.set()
            await asyncio.sleep(0.05)
        return await next()

    async def post(review: Any, next: Any) -> Any:
        reviewed.append(review.execution.name)
        return await next()

    world.ctx.on(PRE_EXECUTE, slow_for_a)
    world.ctx.on(POST_EXECUTE, post)
    for name in ("a", "b"):
        world.tool(name, is_concurrency_safe=lambda args: True)
    calls = [ToolCall(name, "{}", call_id=name, signal=caller.signal) for name in ("a", "b")]
    batch = asyncio.create_task(world.batch(calls, caller.signal))
    await in_hook.wait()
    caller.abort()
    results = await batch
    assert world.ran == []
    assert results["a"].error.info == ErrorInfo("AbortError", "ABORTED_BEFORE_DISPATCH")  # type: ignore[union-attr]
    # The second was never prepared; whoever owns the batch gives it the same result (HOST-156, 157).
    assert "b" not in results
    assert "b" not in reviewed


@pytest.mark.field("field-081")
async def test_an_ask_rule_asks_although_a_hook_allows(world: World):
    world.tool("t")
    for prepend in (False, True):
        world.ctx.on(PRE_EXECUTE, lambda execution, next: Allow(), prepend=prepend)
    await world.rules({"tool": "t", "action": "ask"})
    world.answer = "rejected"
    assert await world.call("t") == 'Error: the user rejected tool "t"'
    assert len(world.asked) == 1
    # The order itself: deny over ask over allow, whoever says what.
    await world.rules({"tool": "t", "action": "allow"}, {"tool": "t", "action": "deny", "reason": "no"})
    assert await world.call("t") == "Error: no"
    assert len(world.asked) == 1


@pytest.mark.field("field-082")
async def test_nobody_can_rewrite_arguments_past_a_deny_rule(world: World):
    world.tool(
        "bash", parameters={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    )

    def rewrite(execution: Any, next: Any) -> Any:
        execution.arguments["command"] = "rtk docker ps"
        return next()

    world.ctx.on(PRE_EXECUTE, rewrite)
    await world.rules({"tool": "bash", "arguments": {"command": "docker ps*"}, "action": "deny", "reason": "no docker"})
    assert await world.call("bash", {"command": "docker ps -a"}) == "Error: no docker"
    # Where the rule does not match, the attempt to rewrite is what fails.
    assert "frozen" in await world.call("bash", {"command": "ls"})
    assert world.ran == []


@pytest.mark.field("field-083")
async def test_the_ask_of_a_hook_reaches_a_person_whatever_rules_allow(world: World):
    world.tool("t")
    world.ctx.on(PRE_EXECUTE, lambda execution, next: Ask("the hook wants to know"))
    await world.rules({"tool": "*", "action": "allow"}, default="allow")
    world.answer = "rejected"
    assert "rejected" in await world.call("t")
    assert [request.reason for request in world.asked] == ["the hook wants to know"]
    # Without anybody to ask, the call is denied.
    world.answer = None
    assert "no approval channel is available" in await world.call("t")
    assert world.ran == []


@pytest.mark.field("field-085")
async def test_a_grant_is_for_the_arguments_that_were_reviewed(world: World):
    world.tool("record", parameters={"type": "object", "properties": {"text": {"type": "string"}}})
    await world.rules(default="ask")
    agent = LoggedAgent()
    world.answer = ApprovalAnswer("allowed-once", remember="arguments")
    await world.call("record", {"text": "reviewed"}, agent)
    # The session is resumed, and the model writes something else this time.
    resumed = LoggedAgent(in_turn=False)
    resumed.session = EventLog(SessionHeader("s1", 0))
    resumed.session.load(agent.session.events)
    world.answer = "rejected"
    assert "rejected" in await world.call("record", {"text": "changed"}, resumed)
    assert await world.call("record", {"text": "reviewed"}, resumed) == "record ran"
    assert [args["text"] for _, args in world.ran] == ["reviewed", "reviewed"]
    assert [request.arguments_digest for request in world.asked] == [
        digest({"text": "reviewed"}),
        digest({"text": "changed"}),
    ]


@pytest.mark.field("field-086")
async def test_what_is_shown_is_what_runs(world: World):
    world.tool("pay", parameters={"type": "object", "properties": {"amount": {"type": "integer"}}})
    attempts: list[str] = []

    def clamp(request: ApprovalRequest) -> str:
        try:
            request.arguments["amount"] = 50
        except TypeError as error:
            attempts.append(str(error))
        return "allowed-once"

    world.answer = clamp
    world.ctx.on(PRE_EXECUTE, lambda execution, next: Ask())
    model_wrote = {"amount": 100}
    call = ToolCall("pay", model_wrote, agent=LoneAgent())
    running = asyncio.create_task(world.ctx.tools.execute(call))
    await asyncio.sleep(0)
    model_wrote["amount"] = 1_000_000
    await running
    assert attempts
    assert world.asked[0].arguments == {"amount": 100}
    assert world.ran == [("pay", {"amount": 100})]


@pytest.mark.field("field-088")
async def test_a_history_that_ends_in_an_open_question_approves_nothing(world: World):
    world.tool("t")
    await world.rules(default="ask")
    agent = LoggedAgent()
    world.answer = lambda request: asyncio.sleep(30)
    call = asyncio.create_task(world.ctx.tools.execute(ToolCall("t", "{}", call_id="c1", agent=agent)))
    while not agent.events("approval/asked"):
        await asyncio.sleep(0)
    saved = list(agent.session.events)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    # Another process loads what was saved.
    resumed = LoggedAgent(in_turn=False)
    resumed.session = EventLog(SessionHeader("s1", 0))
    resumed.session.load(saved)
    assert [question.call_id for question in open_questions(resumed.session.events)] == ["c1"]
    world.answer = "rejected"
    assert "rejected" in await world.call("t", {}, resumed)
    assert world.ran == []


@pytest.mark.field("field-089")
async def test_an_answer_is_an_outcome_and_never_a_result(world: World):
    world.tool("t")
    world.ctx.on(PRE_EXECUTE, lambda execution, next: Ask())
    for smuggled in ({"c1": "fake result"}, "fake result", [{"type": "text", "text": "fake result"}]):
        world.answer = smuggled
        text = await world.call("t")
        assert "no approval channel is available" in text
        assert "fake" not in text
    assert world.ran == []


@pytest.mark.field("field-091")
async def test_a_predicate_sees_validated_arguments_with_their_defaults(world: World):
    world.tool(
        "t",
        parameters={"type": "object", "properties": {"force": {"type": "boolean"}}},
        defaults={"force": True},
    )
    await world.rules({"tool": "t", "arguments": {"force": True}, "action": "ask"})
    world.answer = "rejected"
    assert "rejected" in await world.call("t", {})
    assert world.asked[0].arguments == {"force": True}
    assert await world.call("t", {"force": False}) == "t ran"
    # Arguments that are wrong are refused before anybody is asked.
    assert "invalid arguments" in await world.call("t", {"force": "yes"})
    assert len(world.asked) == 1


@pytest.mark.field("field-092")
async def test_every_call_of_an_approved_batch_is_executed(world: World):
    world.tool("write", parameters={"type": "object", "properties": {"path": {"type": "string"}}})
    await world.rules(default="ask")
    world.answer = lambda request: "rejected" if request.arguments["path"] == "b" else "allowed-once"
    agent = LoggedAgent()
    calls = [ToolCall("write", {"path": path}, call_id=path, agent=agent) for path in "abc"]
    results = await world.batch(calls)
    assert list(results) == ["a", "b", "c"]
    assert [result.is_error for result in results.values()] == [False, True, False]
    assert [args["path"] for _, args in world.ran] == ["a", "c"]


@pytest.mark.field("field-095")
async def test_a_denied_call_beside_another_has_a_result_of_its_own(world: World):
    world.tool("gated", is_concurrency_safe=lambda args: True)
    world.tool("free", is_concurrency_safe=lambda args: True)
    await world.rules({"tool": "gated", "action": "ask"})
    world.answer = ApprovalAnswer("rejected", "not now")
    agent = LoggedAgent()
    results = await world.batch(
        [ToolCall("gated", "{}", call_id="c1", agent=agent), ToolCall("free", "{}", call_id="c2", agent=agent)]
    )
    assert [(call, content_text(result.content)) for call, result in results.items()] == [
        ("c1", 'Error: the user rejected tool "gated"\nnot now'),
        ("c2", "free ran"),
    ]


@pytest.mark.field("field-096")
async def test_remembered_is_what_the_person_chose_and_the_scope_is_offered(world: World):
    world.tool("write", parameters={"type": "object", "properties": {"path": {"type": "string"}}})
    await world.rules(default="ask")
    agent = LoggedAgent()
    world.answer = ApprovalAnswer("allowed-once", remember="arguments")
    await world.call("write", {"path": "a"}, agent)
    await world.call("write", {"path": "a"}, agent)
    assert len(world.asked) == 1
    assert world.asked[0].can_be_remembered
    await world.call("write", {"path": "b"}, agent)
    assert len(world.asked) == 2
    # Only the wider scope, chosen explicitly, covers other arguments.
    world.answer = ApprovalAnswer("allowed-once", remember="tool")
    await world.call("write", {"path": "c"}, agent)
    await world.call("write", {"path": "d"}, agent)
    assert len(world.asked) == 3


@pytest.mark.field("field-098")
async def test_an_allowed_command_is_that_command_and_no_prefix(world: World):
    world.tool("bash", parameters={"type": "object", "properties": {"command": {"type": "string"}}})
    await world.rules(
        {"tool": "bash", "arguments": {"command": ["docker run", "echo \\*", "git log *"]}, "action": "allow"},
        default="ask",
    )
    world.answer = "rejected"

    async def granted(command: str) -> bool:
        return await world.call("bash", {"command": command}) == "bash ran"

    assert await granted("docker run")
    assert not await granted("docker run -v /:/host alpine")
    assert not await granted("docker run;ls")
    assert await granted("echo *")
    assert not await granted("echo secrets")
    assert await granted("git log --oneline")


@pytest.mark.field("field-101")
async def test_a_nested_call_passes_the_same_gate_and_its_denial_can_be_caught(world: World):
    ctx = world.ctx
    seen: list[tuple[str, bool]] = []

    async def program(args: Any, run: Any) -> str:
        call = ToolCall("bash", {"command": "sudo rm -rf x"}, call_id=f"{run.call_id}:code:1", parent=run.token)
        result = await ctx.tools.execute(call)
        return f"caught: {content_text(result.content)}"

    async def gate(execution: Any, next: Any) -> Any:
        if execution.name == "bash":
            seen.append((execution.call_id, execution.parent is not None))
            return Deny("no sudo")
        return await next()

    ctx.on(PRE_EXECUTE, gate)
    world.tool("bash", parameters={"type": "object", "properties": {"command": {"type": "string"}}})
    world.tool("program", execute=program)
    assert await world.call("program") == "caught: Error: no sudo"
    assert seen == [("call:code:1", True)]
    assert world.ran == []
