"""Tools in the prompt: providers, order, modes; and the fingerprint of the prefix."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pydantic
import pytest
from tests.support.agents import LoggedAgent, LoneAgent

from dsh_tools.errors import PromptError
from dsh_tools.kernel.context import Context, create_context
from dsh_tools.pipeline.service import ToolsPlugin
from dsh_tools.services.system_prompt import (
    PROMPT_EVENT,
    SYSTEM_PROMPT_ASSEMBLE,
    UNLISTED_TOOLS,
    AssembleRequest,
    Fingerprint,
    PromptHistoryPlugin,
    SystemPromptPlugin,
    ToolOffer,
    explain_change,
    kept_fingerprints,
)
from dsh_tools.tools.definition import ToolDefinition
from dsh_tools.tools.registered import ToolSchema, compile_definition

PLAIN = {"include_harness_identity": False, "include_runtime_context": False}


async def mounted(*, mode: str = "native", order: list[str] | None = None) -> Context:
    context = create_context()
    await context.plugin(ToolsPlugin(), {"mode": mode})
    await context.plugin(SystemPromptPlugin(), {**PLAIN, "tool_order": order})
    return context


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    context = await mounted()
    yield context
    await context.dispose()


def tool(name: str, description: str = "") -> ToolDefinition:
    return ToolDefinition(
        name=name,
        description=description,
        parameters={"type": "object", "properties": {"x": {"type": "string"}}},
        output={"schema": {"type": "string"}},
        execute=lambda args, run: "",
    )


async def names(ctx: Context, agent: Any = None) -> list[str]:
    return [shown.name for shown in (await ctx.system_prompt.assemble(AssembleRequest(agent))).tools]


async def test_the_default_order_is_by_code_units_whatever_the_registration(ctx: Context):
    # HOST-75: U+FF5E sorts behind the surrogates of U+1F600 by code units, and before it by code points
    ordered = ["B", "a", "a-b", "a_b", "ä", "\U0001f600", "\uff5e"]
    shuffled = ordered.copy()
    random.Random(7).shuffle(shuffled)
    for name in shuffled:
        ctx.tools.register(tool(name))
    assert await names(ctx) == ordered


async def test_a_configured_order_has_a_place_for_the_rest(no_leaks: None):
    # HOST-76
    async with await mounted(order=["z", UNLISTED_TOOLS, "a"]) as ctx:
        for name in ("c", "a", "z", "b"):
            ctx.tools.register(tool(name))
        assert await names(ctx) == ["z", "b", "c", "a"]
        scoped = ctx.create_scope("agent")
        scoped.tools.restrict(deny=["z"])
        assert await names(ctx, LoneAgent(scoped.scope)) == ["b", "c", "a"]


async def test_an_order_that_names_an_unknown_tool_fails_every_assembly(no_leaks: None):
    # HOST-76
    async with await mounted(order=["echo", UNLISTED_TOOLS]) as ctx:
        with pytest.raises(PromptError, match='toolOrder lists unregistered tool "echo"'):
            await names(ctx)
        ctx.tools.register(tool("echo"))
        assert await names(ctx) == ["echo"]


@pytest.mark.parametrize(
    "order",
    [[], ["a"], [UNLISTED_TOOLS, UNLISTED_TOOLS], ["a", UNLISTED_TOOLS, "a"]],
)
async def test_a_wrong_order_is_a_load_error(no_leaks: None, order: list[str]):
    # HOST-76
    async with create_context() as ctx:
        with pytest.raises(pydantic.ValidationError, match="toolOrder"):
            await ctx.plugin(SystemPromptPlugin(), {"tool_order": order})


@pytest.mark.parametrize("order", [None, [UNLISTED_TOOLS]])
async def test_a_tool_cannot_have_the_markers_name(no_leaks: None, order: list[str] | None):
    # HOST-77
    async with await mounted(order=order) as ctx:
        ctx.system_prompt.tool_provider(lambda request: ToolOffer([ToolSchema(UNLISTED_TOOLS, "", {})]))
        with pytest.raises(PromptError, match="stands for the unlisted tools"):
            await names(ctx)


async def test_all_providers_contribute(ctx: Context):
    # HOST-73
    ctx.tools.register(tool("registered"))
    scoped = ctx.create_scope("agent")

    async def own(request: AssembleRequest) -> ToolOffer:
        return ToolOffer([ToolSchema("own", "", {"type": "object"})], known_names=["own", "hidden"])

    scoped.system_prompt.tool_provider(own)
    extra = ctx.system_prompt.tool_provider(lambda request: ToolOffer([ToolSchema("extra", "", {"type": "object"})]))
    assert await names(ctx, LoneAgent(scoped.scope)) == ["extra", "own", "registered"]
    assert await names(ctx) == ["extra", "registered"]
    extra()
    assert await names(ctx) == ["registered"]
    ctx.system_prompt.tool_provider(lambda request: ToolOffer([ToolSchema("registered", "", {})]))
    with pytest.raises(PromptError, match='two providers offer a tool "registered"'):
        await names(ctx)


async def test_known_names_of_a_provider_may_be_ordered(no_leaks: None):
    # HOST-73, 76
    async with await mounted(order=["hidden", UNLISTED_TOOLS]) as ctx:
        provider = ctx.system_prompt.tool_provider(lambda request: ToolOffer([], known_names=["hidden"]))
        assert await names(ctx) == []
        provider()
        ctx.system_prompt.tool_provider(lambda request: ToolOffer([]))
        with pytest.raises(PromptError, match='unregistered tool "hidden"'):
            await names(ctx)


async def test_what_is_shown_is_a_copy_of_three_fields(ctx: Context):
    # HOST-74
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    ctx.system_prompt.tool_provider(lambda request: ToolOffer([ToolSchema("mine", "text", parameters)]))
    ctx.tools.register(tool("registered"))
    mine, registered = (await ctx.system_prompt.assemble()).tools
    assert msgspec.to_builtins(mine) == {"name": "mine", "description": "text", "parameters": parameters}
    with pytest.raises(TypeError, match="frozen"):
        registered.parameters["properties"]["x"]["type"] = "number"
    parameters["properties"]["new"] = {}
    assert mine.parameters == {"type": "object", "properties": {}}
    assert ctx.tools.schemas()[0].parameters["properties"]["x"] == {"type": "string"}


async def test_the_order_is_applied_before_listeners(ctx: Context):
    # HOST-78
    for name in ("b", "a"):
        ctx.tools.register(tool(name))
    seen: list[list[str]] = []

    async def reverse(request: AssembleRequest, next: Any) -> Any:
        assembly = await next()
        seen.append([shown.name for shown in assembly.tools])
        return msgspec.structs.replace(assembly, tools=assembly.tools[::-1])

    ctx.on(SYSTEM_PROMPT_ASSEMBLE, reverse)
    assert await names(ctx) == ["b", "a"]
    assert seen == [["a", "b"]]


# ── modes ─────────────────────────────────────────────────────────────────────


class Runtime:
    language = "typescript"


def with_code_mode(ctx: Context) -> None:
    """Put a transport in place as Code Mode does; the reserved name cannot be registered."""
    definition = tool("to be renamed")
    transport = compile_definition(definition)
    transport.name = "run_code"
    transport.schema = ToolSchema("run_code", "runs programs", transport.schema.parameters)
    ctx.tools.service.registry.set_transport(transport)


@pytest.mark.parametrize(
    ("mode", "shown"),
    [("native", ["a", "zip"]), ("code", ["run_code"]), ("both", ["a", "zip", "run_code"])],
)
async def test_modes_decide_what_is_shown(no_leaks: None, mode: str, shown: list[str]):
    # PIPE-67, 68; CODE-2 to 4
    async with await mounted(mode=mode) as ctx:
        ctx.provide("code_runtime", Runtime())
        with_code_mode(ctx)
        for name in ("zip", "a"):
            ctx.tools.register(tool(name))
        assert await names(ctx) == shown


async def test_a_mode_with_programs_needs_a_runtime(no_leaks: None):
    # PIPE-69; CODE-11
    async with await mounted(mode="native") as ctx:
        scoped = ctx.create_scope("agent")
        scoped.tools.present_as("both")
        agent = LoneAgent(scoped.scope)
        assert await names(ctx) == []
        with pytest.raises(PromptError, match='mode "both" requires a code runtime'):
            await names(ctx, agent)
        ctx.provide("code_runtime", Runtime())
        with pytest.raises(PromptError, match='mode "both" requires Code Mode'):
            await names(ctx, agent)
        with_code_mode(ctx)
        assert await names(ctx, agent) == ["run_code"]


async def test_under_code_only_the_transport_can_be_ordered(no_leaks: None):
    # PIPE-68; CODE-14
    async with await mounted(mode="code", order=["a", UNLISTED_TOOLS]) as ctx:
        ctx.provide("code_runtime", Runtime())
        with_code_mode(ctx)
        ctx.tools.register(tool("a"))
        with pytest.raises(PromptError, match='toolOrder lists unregistered tool "a"'):
            await names(ctx)
    async with await mounted(mode="both", order=["run_code", UNLISTED_TOOLS]) as ctx:
        ctx.provide("code_runtime", Runtime())
        with_code_mode(ctx)
        ctx.tools.register(tool("a"))
        assert await names(ctx) == ["run_code", "a"]


# ── the fingerprint ───────────────────────────────────────────────────────────


async def fingerprint(ctx: Context) -> Fingerprint:
    return (await ctx.system_prompt.assemble()).fingerprint


async def test_equal_registrations_give_equal_bytes(no_leaks: None):
    # HOST-81
    prompts = []
    for order in (("a", "b"), ("b", "a")):
        async with await mounted() as ctx:
            for name in order:
                ctx.tools.register(tool(name))
            ctx.system_prompt.section("s", 1, "text")
            first, second = await ctx.system_prompt.assemble(), await ctx.system_prompt.assemble()
            assert first == second
            prompts.append(first)
    assert prompts[0] == prompts[1]
    assert prompts[0].fingerprint == prompts[1].fingerprint


async def test_the_first_change_is_named(ctx: Context):
    ctx.system_prompt.section("one", 1, "1")
    two = ctx.system_prompt.section("two", 2, "2")
    ctx.tools.register(tool("a"))
    b = ctx.tools.register(tool("b"))
    before = await fingerprint(ctx)
    assert explain_change(before, before) is None

    ctx.system_prompt.section("new", 1.5, "new")
    assert str(explain_change(before, await fingerprint(ctx))) == 'section "new" was added'

    before = await fingerprint(ctx)
    two()
    assert str(explain_change(before, await fingerprint(ctx))) == 'section "two" was removed'

    ctx.system_prompt.section("two", 2, "changed")
    assert str(explain_change(await fingerprint(ctx), before)) == 'section "two" was changed'

    before = await fingerprint(ctx)
    b()
    assert str(explain_change(before, await fingerprint(ctx))) == 'tool "b" was removed'
    ctx.tools.register(tool("b", "another description"))
    assert str(explain_change(before, await fingerprint(ctx))) == 'tool "b" was changed'


async def test_a_moved_part_is_called_so():
    old = Fingerprint("1", (("a", "x"), ("b", "y")), ())
    new = Fingerprint("2", (("b", "y"), ("a", "x")), ())
    assert str(explain_change(old, new)) == 'section "b" was moved'


async def test_contexts_do_not_touch_the_prefix(ctx: Context):
    # HOST-71
    before = await fingerprint(ctx)
    ctx.system_prompt.runtime_context("now", 1, "Monday")
    assert await fingerprint(ctx) == before


async def test_a_fingerprint_can_be_kept_as_json(ctx: Context):
    ctx.system_prompt.section("one", 1, "lone surrogate \ud800")
    ctx.tools.register(tool("a"))
    before = await fingerprint(ctx)
    assert msgspec.json.decode(msgspec.json.encode(before), type=Fingerprint) == before


async def test_a_session_keeps_each_new_fingerprint(ctx: Context):
    await ctx.plugin(PromptHistoryPlugin())
    agent, idle = LoggedAgent(), LoggedAgent(in_turn=False)
    ctx.system_prompt.section("one", 1, "1")
    ctx.tools.register(tool("a"))
    for _ in range(3):
        await ctx.system_prompt.assemble(AssembleRequest(agent))
    await ctx.system_prompt.assemble(AssembleRequest(idle))
    await ctx.system_prompt.assemble()
    ctx.system_prompt.section("two", 2, "2")
    prompt = await ctx.system_prompt.assemble(AssembleRequest(agent))
    (first, old), (second, new) = kept_fingerprints(agent.session.events)
    assert [event.type for event in (first, second)] == [PROMPT_EVENT, PROMPT_EVENT]
    assert new == prompt.fingerprint
    assert str(explain_change(old, new)) == 'section "two" was added'
    assert agent.session.derive_messages() == []
    assert list(kept_fingerprints(idle.session.events)) == []
