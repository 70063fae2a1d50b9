"""Prompt assembly: sections, variables, contexts, listeners."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pydantic
import pytest
from tests.support.agents import LoggedAgent, LoneAgent

from dsh_tools.content import content_text
from dsh_tools.errors import AbortError, PromptError, ToolError
from dsh_tools.kernel.abort import AbortController
from dsh_tools.kernel.context import Context, create_context
from dsh_tools.messages import MessageSource, user_message
from dsh_tools.pipeline.service import ToolsPlugin
from dsh_tools.services.system_prompt import (
    SYSTEM_PROMPT_ASSEMBLE,
    SYSTEM_PROMPT_CHANGE,
    AssembleRequest,
    PromptSection,
    SystemPromptConfig,
    SystemPromptPlugin,
    runtime_context_update,
)
from dsh_tools.session.events import SessionHeader
from dsh_tools.session.log import EventLog
from dsh_tools.tools.definition import ToolDefinition

PLAIN = {"include_harness_identity": False, "include_runtime_context": False}


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    context = create_context()
    await context.plugin(SystemPromptPlugin(), PLAIN)
    yield context
    await context.dispose()


async def text(ctx: Context, agent: Any = None) -> str:
    return (await ctx.system_prompt.assemble(AssembleRequest(agent))).system


# ── sections ──────────────────────────────────────────────────────────────────


async def test_sections_are_sorted_by_order_then_by_registration(ctx: Context):
    # HOST-62, 63, 70
    ctx.system_prompt.section("later", 101, "later")
    ctx.system_prompt.section("first of two", 50, "first of two")
    ctx.system_prompt.section("second of two", 50.0, "second of two")
    ctx.system_prompt.section("front", -1.5, "front")
    ctx.system_prompt.section("empty", 60, "")
    assert await text(ctx) == "front\n\nfirst of two\n\nsecond of two\n\nlater"


@pytest.mark.parametrize("order", [float("nan"), float("inf"), -float("inf"), "1", None, True])
async def test_an_order_that_is_no_finite_number_is_refused(ctx: Context, order: Any):
    # HOST-62
    with pytest.raises(TypeError, match="finite number"):
        ctx.system_prompt.section("s", order, "text")
    assert await text(ctx) == ""


async def test_a_name_is_taken_once_in_a_layer_and_a_scope_shadows(ctx: Context):
    # HOST-62
    ctx.system_prompt.section("a", 1, "global a")
    ctx.system_prompt.section("b", 1, "global b")
    with pytest.raises(PromptError, match='section "a" is already registered'):
        ctx.system_prompt.section("a", 2, "again")
    scoped = ctx.create_scope("agent")
    own = scoped.system_prompt.section("a", 1, "own a")
    with pytest.raises(PromptError):
        scoped.system_prompt.section("a", 1, "again")
    child = ctx.create_scope("child", scoped.scope)
    assert await text(ctx) == "global a\n\nglobal b"
    assert await text(ctx, LoneAgent(scoped.scope)) == "own a\n\nglobal b"
    assert await text(ctx, LoneAgent(child.scope)) == "own a\n\nglobal b"
    own()
    assert await text(ctx, LoneAgent(scoped.scope)) == "global a\n\nglobal b"
    own()
    await scoped.dispose()


async def test_sections_end_with_their_context(ctx: Context):
    fiber = ctx.plugin(lambda inner, config: inner.system_prompt.section("a", 1, "a"), None)
    await fiber
    assert await text(ctx) == "a"
    await fiber.dispose()
    assert await text(ctx) == ""


async def test_texts_may_be_computed_for_each_request(ctx: Context):
    # HOST-62, 80
    seen: list[AssembleRequest] = []

    def sync_text(request: AssembleRequest) -> str:
        seen.append(request)
        return f"for {'an agent' if request.agent else 'nobody'}"

    async def async_text(request: AssembleRequest) -> str:
        await asyncio.sleep(0)
        return "async"

    ctx.system_prompt.section("a", 1, sync_text)
    ctx.system_prompt.section("b", 2, async_text)
    assert (await ctx.system_prompt.assemble()).system == "for nobody\n\nasync"
    agent, caller = LoneAgent(), AbortController()
    request = AssembleRequest(agent, caller.signal)
    assert (await ctx.system_prompt.assemble(request)).system == "for an agent\n\nasync"
    assert seen[1] is request
    caller.abort()
    with pytest.raises(AbortError):
        await ctx.system_prompt.assemble(request)


async def test_a_text_that_fails_names_its_section(ctx: Context):
    def fail(request: AssembleRequest) -> str:
        raise ValueError("no disk")

    failing = ctx.system_prompt.section("disk", 1, fail)
    with pytest.raises(PromptError, match='section "disk" failed: no disk'):
        await text(ctx)
    failing()

    def typed(request: AssembleRequest) -> str:
        raise ToolError("its own words", "OWN")

    failing = ctx.system_prompt.section("disk", 1, typed)
    with pytest.raises(ToolError, match=r"^its own words$"):
        await text(ctx)
    failing()
    ctx.system_prompt.section("disk", 1, lambda request: 5)  # type: ignore[arg-type, return-value]
    with pytest.raises(PromptError, match='section "disk" gave int'):
        await text(ctx)


async def test_a_complete_section_stands_alone(ctx: Context):
    # HOST-67
    ctx.system_prompt.section("a", 1, "a")
    whole = ctx.system_prompt.section("whole", 5, "whole {{name}}", complete=True)
    ctx.system_prompt.variable("name", "x")
    ctx.on(
        SYSTEM_PROMPT_ASSEMBLE,
        lambda request, next: _replaced(next, sections=(PromptSection("mine", 0, "mine"),), variables={"name": "y"}),
    )
    assert await text(ctx) == "whole y"
    scoped = ctx.create_scope("agent")
    scoped.system_prompt.section("other", 1, "other", complete=True)
    with pytest.raises(PromptError, match='"whole", "other" are'):
        await text(ctx, LoneAgent(scoped.scope))
    shadow = ctx.create_scope("shadow")
    shadow.system_prompt.section("whole", 1, "not complete here")
    assert await text(ctx, LoneAgent(shadow.scope)) == "mine"
    whole()
    assert await text(ctx) == "mine"


async def _replaced(next: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(await next(), **changes)


async def test_hiding_a_tool_leaves_its_guidance(ctx: Context):
    # HOST-66
    await ctx.plugin(ToolsPlugin())
    ctx.tools.register(_tool("read"))
    ctx.system_prompt.section("tool:read", 100, "How to read.")
    scoped = ctx.create_scope("agent")
    scoped.tools.restrict(deny=["read"])
    prompt = await ctx.system_prompt.assemble(AssembleRequest(LoneAgent(scoped.scope)))
    assert prompt.tools == ()
    assert prompt.system == "How to read."


async def test_the_default_configuration(no_leaks: None):
    # HOST-64, 65
    async with create_context() as ctx:
        await ctx.plugin(SystemPromptPlugin(lambda: datetime.date(2031, 2, 3)), {"persona": "You are {{who}}."})
        ctx.system_prompt.section("tool:read", 100, "guidance")
        ctx.system_prompt.variable("who", "a baker")
        prompt = await ctx.system_prompt.assemble()
        assert [(section.name, section.order) for section in prompt.sections] == [
            ("harness:identity", -100),
            ("deployment:persona", 0),
            ("tool:read", 100),
        ]
        assert prompt.sections[1].text == "You are a baker."
        assert "Date: 2031-02-03" in prompt.context
        agent = LoggedAgent()
        agent.session = EventLog(SessionHeader("s", 0, cwd="/srv/books"))
        assert "/srv/books" in (await ctx.system_prompt.assemble(AssembleRequest(agent))).context
        assert "/srv/books" not in (await ctx.system_prompt.assemble(AssembleRequest(agent))).system
    assert SystemPromptConfig() == SystemPromptConfig(
        include_harness_identity=True, include_runtime_context=True, persona="", tool_order=None
    )
    with pytest.raises(pydantic.ValidationError):
        SystemPromptConfig.model_validate({"personas": ""})


# ── variables ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("a {{name}} b", "a N b"),
        ("{{name}}{{name}}", "NN"),
        ("{{nested}}", "{{name}}"),
        ("{{ without an end", "{{ without an end"),
        ("}} {{", "}} {{"),
        ("{{name}} then {{ open", "N then {{ open"),
        ("{name}", "{name}"),
        ("{{empty}}!", "!"),
    ],
)
async def test_what_is_interpolated(ctx: Context, template: str, expected: str):
    # HOST-68
    ctx.system_prompt.variable("name", "N")
    ctx.system_prompt.variable("nested", "{{name}}")
    ctx.system_prompt.variable("empty", "")
    ctx.system_prompt.section("s", 1, template)
    assert await text(ctx) == expected


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{{unknown}}", r"unknown variable {{unknown}} \(known: absent, name\)"),
        ("{{absent}}", "{{absent}} has no value here"),
        ("{{constructor}}", "unknown variable {{constructor}}"),
        ("{{__class__}}", "{{__class__}} is not a variable"),
        ("{{Name}}", "{{Name}} is not a variable"),
        ("{{ name }}", "is not a variable"),
        ("{{}}", "is not a variable"),
        ("{{1a}}", "is not a variable"),
        ("{{a\nb}}", "is not a variable"),
        ("{{name\n}}", "is not a variable"),
        ("{{{name}}}", "is not a variable"),
        ("{{ open {{name}}", "is not a variable"),
    ],
)
async def test_a_group_without_a_value_is_an_error_that_names_the_section(ctx: Context, template: str, complaint: str):
    # HOST-68
    ctx.system_prompt.variable("name", "N")
    ctx.system_prompt.variable("absent", lambda request: None)
    ctx.system_prompt.section("the one", 1, template)
    with pytest.raises(PromptError, match='section "the one": ') as error:
        await text(ctx)
    with pytest.raises(PromptError, match=complaint):
        raise error.value


async def test_a_literal_section_keeps_its_braces(ctx: Context):
    ctx.system_prompt.section("sdk", 1, "type T = {{a: 1}}", literal=True)
    assert await text(ctx) == "type T = {{a: 1}}"


async def test_a_variable_without_value_only_matters_where_it_is_used(ctx: Context):
    # HOST-68
    ctx.system_prompt.variable("absent", lambda request: None)
    ctx.system_prompt.section("s", 1, "text")
    assert await text(ctx) == "text"


async def test_variables_are_checked(ctx: Context):
    # HOST-68
    for name in ("", "Name", "1a", "a-b", "a b", "é", "a\n"):
        with pytest.raises(PromptError, match="must match"):
            ctx.system_prompt.variable(name, "x")
    ctx.system_prompt.variable("a", "x")
    with pytest.raises(PromptError, match="already registered"):
        ctx.system_prompt.variable("a", "y")
    ctx.system_prompt.variable("b", lambda request: 5)  # type: ignore[arg-type, return-value]
    with pytest.raises(PromptError, match="{{b}} gave int"):
        await text(ctx)


async def test_a_scopes_variable_shadows_and_the_shadowed_provider_rests(ctx: Context):
    # HOST-69; docs/decisions says why the shadowed one is not asked
    asked: list[str] = []

    def provider(name: str) -> Any:
        def value(request: AssembleRequest) -> str:
            asked.append(name)
            return name

        return value

    ctx.system_prompt.variable("a", provider("global"))
    ctx.system_prompt.section("s", 1, "{{a}}")
    scoped = ctx.create_scope("agent")
    scoped.system_prompt.variable("a", provider("own"))
    assert await text(ctx, LoneAgent(scoped.scope)) == "own"
    assert asked == ["own"]
    assert await text(ctx) == "global"


# ── listeners ─────────────────────────────────────────────────────────────────


async def test_what_a_listener_returns_counts(ctx: Context):
    # HOST-79
    ctx.system_prompt.section("a", 1, "a {{x}}")
    ctx.system_prompt.section("b", 2, "b")

    async def listen(request: AssembleRequest, next: Any) -> Any:
        assembly = await next()
        assert [section.text for section in assembly.sections] == ["a {{x}}", "b"]
        return msgspec.structs.replace(assembly, sections=assembly.sections[:1], variables={"x": "!"})

    listener = ctx.on(SYSTEM_PROMPT_ASSEMBLE, listen)
    assert await text(ctx) == "a !"
    listener()
    ctx.on(SYSTEM_PROMPT_ASSEMBLE, lambda request, next: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(PromptError, match="returned NoneType; expected an Assembly"):
        await text(ctx)


async def test_listeners_of_other_scopes_are_not_asked(ctx: Context):
    # HOST-79
    mine, other = ctx.create_scope("mine"), ctx.create_scope("other")
    seen: list[str] = []

    def note(name: str) -> Any:
        async def listen(request: AssembleRequest, next: Any) -> Any:
            seen.append(name)
            return await next()

        return listen

    mine.on(SYSTEM_PROMPT_ASSEMBLE, note("mine"))
    other.on(SYSTEM_PROMPT_ASSEMBLE, note("other"))
    await text(ctx, LoneAgent(mine.scope))
    assert seen == ["mine"]


async def test_changes_are_told_to_everybody(ctx: Context):
    # HOST-79
    heard: list[str] = []
    elsewhere = ctx.create_scope("elsewhere")
    elsewhere.on(SYSTEM_PROMPT_CHANGE, lambda: heard.append("change"))
    scoped = ctx.create_scope("agent")
    registrations = [
        scoped.system_prompt.section("a", 1, "a"),
        scoped.system_prompt.variable("a", "a"),
        scoped.system_prompt.runtime_context("a", 1, "a"),
        scoped.system_prompt.suppress_runtime_context(),
    ]
    assert len(heard) == 4
    for take_back in registrations:
        take_back()
    assert len(heard) == 8


# ── runtime contexts ──────────────────────────────────────────────────────────


async def test_contexts_are_kept_apart_from_the_prefix(ctx: Context):
    # HOST-71
    ctx.system_prompt.section("s", 1, "system")
    ctx.system_prompt.runtime_context("late", 2, lambda request: "two {{braces}}")
    ctx.system_prompt.runtime_context("early", 1, "one")
    ctx.system_prompt.runtime_context("empty", 0, "")
    prompt = await ctx.system_prompt.assemble()
    assert (prompt.system, prompt.context) == ("system", "one\n\ntwo {{braces}}")


async def test_a_context_is_sent_when_it_differs_from_the_last_one_seen():
    # HOST-71
    messages: list[Any] = [user_message("hello")]
    first = runtime_context_update(messages, "Date: Monday")
    assert first is not None
    assert first.source == MessageSource("plugin", "runtime-context")
    assert "Date: Monday" in content_text(first.content)  # type: ignore[arg-type]
    messages += [first, user_message("more")]
    assert runtime_context_update(messages, "Date: Monday") is None
    second = runtime_context_update(messages, "Date: Tuesday")
    assert second is not None
    messages.append(second)
    assert runtime_context_update(messages, "Date: Tuesday") is None
    # What is no longer visible has to be said again.
    assert runtime_context_update(messages[:1], "Date: Tuesday") is not None
    gone = runtime_context_update(messages, "")
    assert gone is not None
    assert len(content_text(gone.content).splitlines()) == 1  # type: ignore[arg-type]
    messages.append(gone)
    assert runtime_context_update(messages, "") is None
    assert runtime_context_update([], "") is None
    assert runtime_context_update(messages, "Date: Tuesday") is not None


async def test_contexts_return_when_the_last_suppressor_goes(ctx: Context):
    # HOST-72
    ctx.system_prompt.runtime_context("a", 1, "a")
    scoped = ctx.create_scope("agent")
    agent = AssembleRequest(LoneAgent(scoped.scope))
    ctx.on(
        SYSTEM_PROMPT_ASSEMBLE,
        lambda request, next: _replaced(next, contexts=(PromptSection("added", 1, "added"),)),
    )
    assert (await ctx.system_prompt.assemble(agent)).context == "added"
    first, second = (scoped.system_prompt.suppress_runtime_context() for _ in range(2))
    assert (await ctx.system_prompt.assemble(agent)).context == ""
    assert (await ctx.system_prompt.assemble()).context == "added"
    first()
    assert (await ctx.system_prompt.assemble(agent)).context == ""
    second()
    assert (await ctx.system_prompt.assemble(agent)).context == "added"


def _tool(name: str) -> ToolDefinition:
    return ToolDefinition(
        name=name,
        description="",
        parameters={"type": "object", "properties": {}},
        output={"schema": {"type": "string"}},
        execute=lambda args, run: "",
    )
