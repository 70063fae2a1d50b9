"""Registering, layers, masks and views: PIPE sections B to G."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.support.calls import UNKNOWN, Body, app, error, make_tool, run, text_of

from dsh_tools.errors import (
    DefinitionError,
    DuplicateToolError,
    EmptyRestrictionError,
    HarnessError,
    InactiveEffectError,
    InvalidTimeoutError,
    JsonSchemaError,
    OutputDeclarationError,
    PresentationConflictError,
    ReservedNameError,
    RestrictionError,
    ScopeError,
    ScopeRequiredError,
    UnknownRestrictionError,
)
from dsh_tools.kernel import Context, Scope
from dsh_tools.tools import OutputSpec, ToolCall, ToolDefinition, compile_definition, render_value


def names(ctx: Context, scope: Scope | None = None) -> list[str]:
    return [schema.name for schema in ctx.tools.schemas(scope)]


class Agent:
    """A caller: nothing but a scope."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.scope = context.scope


# ── B. Registration ────────────────────────────────────────────────────────────


async def test_disposer_removes_exactly_its_registration() -> None:
    async with app() as ctx:
        dispose = ctx.tools.register(make_tool())
        assert ctx.tools.get("t") is not None
        dispose()
        dispose()  # PIPE-13: repeated calls do nothing
        assert ctx.tools.get("t") is None
        # PIPE-14: a spent disposer never removes a later registration of the same name
        later = make_tool()
        ctx.tools.register(later)
        dispose()
        assert ctx.tools.get("t") is later


async def test_the_owner_takes_its_tools_with_it() -> None:
    # PIPE-15
    async with app() as ctx:

        class Plugin:
            name = "owner"

            def apply(self, inner: Context, config: object) -> None:
                inner.tools.register(make_tool("mine"))

        fiber = ctx.plugin(Plugin())
        await fiber
        assert names(ctx) == ["mine"]
        await fiber.dispose()
        assert names(ctx) == []


async def test_teardown_steps_declared_later_still_see_the_tool() -> None:
    # PIPE-16: strict reverse order, also past a step that yields
    seen: list[bool] = []
    async with app() as ctx:

        class Plugin:
            name = "ordered"

            def apply(self, inner: Context, config: object) -> None:
                inner.tools.register(make_tool("mine"))

                async def look() -> None:
                    import asyncio

                    await asyncio.sleep(0.01)
                    seen.append(ctx.tools.get("mine") is not None)

                inner.effect(lambda: look)

        fiber = ctx.plugin(Plugin())
        await fiber
        await fiber.dispose()
        assert seen == [True]
        assert ctx.tools.get("mine") is None


async def test_checks_come_in_the_contracts_order() -> None:
    # PIPE-17: output shape, output schema, time limit, reserved name, duplicate
    async with app() as ctx:
        with pytest.raises(OutputDeclarationError):
            ctx.tools.register(make_tool("run_code", render=5, schema={"type": "weird"}, timeout_ms=-1))
        with pytest.raises(JsonSchemaError):
            ctx.tools.register(make_tool("run_code", schema={"type": "weird"}, timeout_ms=-1))
        with pytest.raises(InvalidTimeoutError):
            ctx.tools.register(make_tool("run_code", timeout_ms=-1))
        with pytest.raises(ReservedNameError):
            ctx.tools.register(make_tool("run_code"))
        ctx.tools.register(make_tool("taken"))
        with pytest.raises(InvalidTimeoutError):
            ctx.tools.register(make_tool("taken", timeout_ms=0))


@pytest.mark.parametrize(
    "output",
    [None, 5, {}, {"render": render_value}, {"schema": {}, "render": 1}, {"schema": {}, "presentation_meta": None}],
)
async def test_a_definition_must_declare_its_output(output: Any) -> None:
    # PIPE-18, 19
    definition = ToolDefinition(name="t", description="", parameters={"type": "object"}, output=output, execute=Body())
    async with app() as ctx:
        with pytest.raises(TypeError, match=r"must declare output \{ schema, render, presentationMeta\? \}"):
            ctx.tools.register(definition)


async def test_an_output_schema_outside_the_subset_is_refused_with_all_problems() -> None:
    # PIPE-20, 227
    async with app() as ctx:
        with pytest.raises(JsonSchemaError) as caught:
            ctx.tools.register(make_tool(schema={"type": "object", "properties": {"a": {"type": "weird"}, "b": 5}}))
        assert caught.value.code == "UNSUPPORTED_SCHEMA"
        assert caught.value.message.startswith("unsupported JSON schema: ")
        assert [violation.split()[0] for violation in caught.value.violations] == [
            "schema.properties.a.type",
            "schema.properties.b",
        ]


@pytest.mark.parametrize("limit", [0, -1, math.nan, math.inf, "5", True])
async def test_a_time_limit_is_a_positive_finite_number(limit: Any) -> None:
    # PIPE-21
    async with app() as ctx:
        with pytest.raises(TypeError, match='tool "t" timeoutMs must be a positive finite number'):
            ctx.tools.register(make_tool(timeout_ms=limit))


async def test_a_limit_that_cannot_be_kept_is_refused() -> None:
    # D44
    async with app() as ctx:
        with pytest.raises(InvalidTimeoutError, match="make the body async"):
            ctx.tools.register(make_tool(timeout_ms=5, isolation="thread"))


@pytest.mark.parametrize("mode", ["native", "code", "both"])
async def test_run_code_is_reserved_in_every_mode_and_layer(mode: str) -> None:
    # PIPE-22
    async with app(mode=mode) as ctx:
        for context in (ctx, ctx.create_scope("agent")):
            with pytest.raises(ReservedNameError, match="is reserved for the Code Mode presentation transport"):
                context.tools.register(make_tool("run_code"))


async def test_a_name_is_free_once_in_each_layer() -> None:
    # PIPE-23
    async with app() as ctx:
        ctx.tools.register(make_tool())
        with pytest.raises(DuplicateToolError, match=r'tool "t" is already registered.*agent\.ctx'):
            ctx.tools.register(make_tool())
        scoped = ctx.create_scope("agent")
        scoped.tools.register(make_tool())
        with pytest.raises(DuplicateToolError, match='tool "t" is already registered in this scope'):
            scoped.tools.register(make_tool())


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"parameters": {"type": "object", "x": {1, 2}}}, "must be lossless JSON"),
        ({"parameters": {"type": "string"}}, 'root "type": "object"'),
        ({"parameters": {"oneOf": [{"type": "object"}, {"type": "object"}]}}, "oneOf"),
        ({"parameters": 5}, "must be a JSON Schema object"),
        ({"name": ""}, "non-empty"),
        ({"name": "a\nb"}, "control characters"),
        ({"execute": 5}, "execute must be callable"),
        ({"isolation": "moon"}, "isolation must be"),
        ({"description": 5}, "description must be a string"),
    ],
)
async def test_a_definition_is_complete_or_refused(fields: dict[str, Any], text: str) -> None:
    # PIPE-24, 25, 26, 62: registration errors by D26
    base: dict[str, Any] = {
        "name": "t",
        "description": "",
        "parameters": {"type": "object"},
        "output": OutputSpec({}),
        "execute": Body(),
    }
    async with app() as ctx:
        with pytest.raises(DefinitionError, match=text):
            ctx.tools.register(ToolDefinition(**{**base, **fields}))
        assert names(ctx) == []


async def test_a_definition_is_kept_as_it_is_and_cannot_be_edited() -> None:
    # PIPE-26, 28: immutable by D26
    async with app() as ctx:
        definition = make_tool()
        ctx.tools.register(definition)
        assert ctx.tools.get("t") is definition
        with pytest.raises(AttributeError):
            definition.execute = Body("other")  # type: ignore[misc]


async def test_a_refused_registration_leaves_nothing_behind() -> None:
    # PIPE-27
    async with app() as ctx:
        scoped = ctx.create_scope("agent")
        with pytest.raises(ReservedNameError):
            scoped.tools.register(make_tool("run_code"))
        with pytest.raises(RestrictionError):
            scoped.tools.restrict(deny=["nothing"])
        registry = ctx.tools.service.registry
        assert len(registry._scoped) == 0
        await scoped.dispose()
        with pytest.raises(InactiveEffectError):
            scoped.tools.register(make_tool())
        assert len(registry._scoped) == 0


async def test_raw_parameters_are_enforced_unless_the_definition_says_otherwise() -> None:
    # PIPE-29 by D8
    required = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    async with app() as ctx:
        ctx.tools.register(make_tool("checked", parameters=required))
        ctx.tools.register(make_tool("open", parameters=required, validate_arguments=False))
        assert text_of(await run(ctx, "checked")).startswith(
            'Error: invalid arguments: missing required property "path"'
        )
        assert text_of(await run(ctx, "open")) == "ok"


@pytest.mark.parametrize("role", ["render", "presentation_meta", "finalize_content"])
async def test_projectors_and_finalizers_are_synchronous(role: str) -> None:
    # PIPE-153, 178 by D29
    async def late(*_: Any) -> Any: ...

    async with app() as ctx:
        with pytest.raises(DefinitionError, match="must be synchronous"):
            ctx.tools.register(make_tool(**{role: late}))


# ── C. Layers ──────────────────────────────────────────────────────────────────


async def test_the_layer_is_the_contexts() -> None:
    # PIPE-30, 31
    async with app() as ctx:
        mine, other = Agent(ctx.create_scope("mine")), Agent(ctx.create_scope("other"))
        mine.context.tools.register(make_tool("secret"))
        assert text_of(await run(ctx, "secret", agent=mine)) == "ok"
        for caller in (other, None):
            assert await run(ctx, "secret", agent=caller) == error('unknown tool "secret"', UNKNOWN)
        child = Agent(ctx.create_scope("child", parent=mine.scope))
        assert text_of(await run(ctx, "secret", agent=child)) == "ok"


@pytest.mark.parametrize("scoped_first", [True, False])
async def test_a_scopes_own_version_wins_for_it_alone(scoped_first: bool) -> None:
    # PIPE-32
    async with app() as ctx:
        agent = Agent(ctx.create_scope("agent"))
        registrations = [(agent.context, "own"), (ctx, "global")]
        for context, says in registrations if scoped_first else reversed(registrations):
            context.tools.register(make_tool("t", Body(says)))
        assert text_of(await run(ctx, agent=agent)) == "own"
        assert text_of(await run(ctx)) == "global"
        assert names(ctx, agent.scope) == ["t"]


async def test_views_go_from_global_over_ancestors_to_own() -> None:
    # PIPE-33
    async with app() as ctx:
        grand = ctx.create_scope("grand")
        parent = ctx.create_scope("parent", parent=grand.scope)
        child = ctx.create_scope("child", parent=parent.scope)
        for context, name in ((child, "own"), (parent, "near"), (grand, "far"), (ctx, "all")):
            context.tools.register(make_tool(name))
        grand.tools.register(make_tool("near", Body("grand's")))
        assert names(ctx, child.scope) == ["all", "far", "near", "own"]
        assert text_of(await run(ctx, "near", agent=Agent(child))) == "ok"
        assert text_of(await run(ctx, "near", agent=Agent(grand))) == "grand's"


def test_a_parent_is_bound_once_and_never_in_a_circle() -> None:
    # PIPE-34
    a, b = Scope("a"), Scope("b")
    b.bind_parent(a)
    with pytest.raises(ScopeError):
        b.bind_parent(Scope("c"))
    with pytest.raises(ScopeError):
        a.bind_parent(b)


async def test_a_disposed_scope_sees_nothing_of_its_own() -> None:
    # PIPE-35, 36
    async with app() as ctx:
        scoped = ctx.create_scope("agent")
        scoped.tools.register(make_tool("own"))
        assert ctx.tools.get("own", scoped.scope) is not None
        assert ctx.tools.get("own") is None
        await scoped.dispose()
        assert ctx.tools.get("own", scoped.scope) is None
        assert names(ctx, scoped.scope) == []


async def test_a_parent_bound_later_counts_from_then_on() -> None:
    # PIPE-33: views are recomputed when a link changes
    async with app() as ctx:
        parent, child = ctx.create_scope("parent"), ctx.create_scope("child")
        parent.tools.register(make_tool("theirs"))
        assert names(ctx, child.scope) == []
        assert child.scope is not None
        assert parent.scope is not None
        child.scope.bind_parent(parent.scope)
        assert names(ctx, child.scope) == ["theirs"]


async def test_listeners_hear_their_scope_and_its_descendants() -> None:
    # PIPE-37, 38
    async with app() as ctx:
        parent = ctx.create_scope("parent")
        child = ctx.create_scope("child", parent=parent.scope)
        ctx.tools.register(make_tool())
        heard: list[str] = []

        def listen(context: Context, name: str) -> None:
            for hook in ("tools/pre-execute", "tools/execute", "tools/post-execute"):

                async def link(_subject: Any, next: Any, tag: str = f"{name}:{hook[6:]}") -> Any:
                    heard.append(tag)
                    return await next()

                context.on(hook, link)
            context.on("tools/result", lambda *_: heard.append(f"{name}:result"))

        for context, name in ((ctx, "global"), (parent, "parent"), (child, "child")):
            listen(context, name)
        stages = ("pre-execute", "execute", "post-execute", "result")

        async def hearers(agent: Agent | None) -> set[str]:
            heard.clear()
            await run(ctx, agent=agent)
            return set(heard)

        def all_of(*tags: str) -> set[str]:
            return {f"{tag}:{stage}" for tag in tags for stage in stages}

        assert await hearers(Agent(child)) == all_of("global", "parent", "child")
        assert await hearers(Agent(parent)) == all_of("global", "parent")
        assert await hearers(None) == all_of("global")


# ── D. restrict ────────────────────────────────────────────────────────────────


async def three_tools(ctx: Context) -> Context:
    for name in ("a", "b", "c"):
        ctx.tools.register(make_tool(name))
    return ctx.create_scope("agent")


async def test_restrict_checks_in_order_and_stores_nothing_on_failure() -> None:
    # PIPE-39 to 41, 43, 44
    async with app() as ctx:
        scoped = await three_tools(ctx)
        changes: list[None] = []
        ctx.on("tools/change", lambda: changes.append(None))
        with pytest.raises(ScopeRequiredError, match="requires a scoped context"):
            ctx.tools.restrict()
        with pytest.raises(EmptyRestrictionError, match="no-op"):
            scoped.tools.restrict()
        with pytest.raises(RestrictionError, match="cannot name reserved Code Mode presentation transport"):
            scoped.tools.restrict(allow=["zzz", "run_code"])
        with pytest.raises(UnknownRestrictionError) as caught:
            scoped.tools.restrict(allow=["x"])
        assert 'names unknown global tool "x"' in caught.value.message
        assert caught.value.message.endswith("known global tools: a, b, c")
        with pytest.raises(UnknownRestrictionError, match='tools "g", "g"'):
            scoped.tools.restrict(allow=["g"], deny=["g"])
        with pytest.raises(RestrictionError, match="takes a list of tool names"):
            scoped.tools.restrict(allow="abc")
        assert changes == []
        assert names(ctx, scoped.scope) == ["a", "b", "c"]


async def test_restrict_without_known_names_says_none() -> None:
    # PIPE-44
    async with app() as ctx:
        with pytest.raises(UnknownRestrictionError, match=r"known global tools: \(none\)$"):
            ctx.create_scope("agent").tools.restrict(deny=["x"])


async def test_empty_lists_mean_what_they_say() -> None:
    # PIPE-42
    async with app() as ctx:
        scoped = await three_tools(ctx)
        lift = scoped.tools.restrict(allow=[])
        assert names(ctx, scoped.scope) == []
        lift()
        scoped.tools.restrict(deny=[])
        assert names(ctx, scoped.scope) == ["a", "b", "c"]


async def test_known_names_are_the_inherited_ones_masked_or_not() -> None:
    # PIPE-45
    async with app() as ctx:
        parent = await three_tools(ctx)
        parent.tools.register(make_tool("own"))
        parent.tools.restrict(deny=["a"])
        child = ctx.create_scope("child", parent=parent.scope)
        child.tools.restrict(deny=["a", "own"])
        with pytest.raises(UnknownRestrictionError):
            parent.tools.restrict(deny=["own"])


async def test_lists_are_copied() -> None:
    # PIPE-46
    async with app() as ctx:
        scoped = await three_tools(ctx)
        denied = ["a"]
        scoped.tools.restrict(deny=denied)
        denied.append("b")
        assert names(ctx, scoped.scope) == ["b", "c"]


async def test_masks_filter_what_is_inherited_and_combine() -> None:
    # PIPE-47 to 49, 54; HOST-51: a scope's own tools are not among what it restricts
    async with app() as ctx:
        scoped = await three_tools(ctx)
        lift_allow = scoped.tools.restrict(allow=["a", "b"])
        scoped.tools.restrict(deny=["b"])
        scoped.tools.register(make_tool("own"))
        assert names(ctx, scoped.scope) == ["a", "own"]
        lift_allow()
        assert names(ctx, scoped.scope) == ["a", "c", "own"]
        assert text_of(await run(ctx, "c", agent=Agent(scoped))) == "ok"


async def test_masks_apply_to_the_live_registry() -> None:
    # PIPE-50
    async with app() as ctx:
        denying, allowing = await three_tools(ctx), ctx.create_scope("allowing")
        denying.tools.restrict(deny=["a"])
        allowing.tools.restrict(allow=["a"])
        ctx.tools.register(make_tool("web"))
        assert names(ctx, denying.scope) == ["b", "c", "web"]
        assert names(ctx, allowing.scope) == ["a"]


async def test_an_ancestors_mask_reaches_descendants_only() -> None:
    # PIPE-51
    async with app() as ctx:
        parent = await three_tools(ctx)
        child = ctx.create_scope("child", parent=parent.scope)
        parent.tools.restrict(deny=["a"])
        child.tools.restrict(deny=["b"])
        assert names(ctx, child.scope) == ["c"]
        assert names(ctx, parent.scope) == ["b", "c"]


async def test_an_allow_mask_never_hides_a_scopes_own_tools_from_its_children() -> None:
    # PIPE-52 by D22
    async with app() as ctx:
        ctx.tools.register(make_tool("web"))
        ctx.tools.register(make_tool("other"))
        parent = ctx.create_scope("parent")
        parent.tools.register(make_tool("bash"))
        parent.tools.restrict(allow=["web"])
        child = ctx.create_scope("child", parent=parent.scope)
        assert names(ctx, parent.scope) == ["web", "bash"]
        assert names(ctx, child.scope) == ["web", "bash"]


async def test_an_own_tool_stays_visible_under_a_masked_name() -> None:
    # PIPE-53
    async with app() as ctx:
        scoped = await three_tools(ctx)
        scoped.tools.restrict(deny=["b"])
        scoped.tools.register(make_tool("b", Body("own")))
        assert text_of(await run(ctx, "b", agent=Agent(scoped))) == "own"


async def test_masks_and_execution_agree() -> None:
    # PIPE-55
    async with app() as ctx:
        scoped = await three_tools(ctx)
        scoped.tools.restrict(deny=["b"])
        result = await run(ctx, "b", agent=Agent(scoped))
        assert result == error('unknown tool "b"', UNKNOWN)
        assert ctx.tools.get("b", scoped.scope) is None


# ── E. Presentation ────────────────────────────────────────────────────────────


async def test_the_nearest_declaration_decides_the_mode() -> None:
    # PIPE-56, 57
    async with app() as ctx:
        assert ctx.tools.mode() == "native"
        parent = ctx.create_scope("parent")
        child = ctx.create_scope("child", parent=parent.scope)
        parent.tools.present_as("code")
        assert ctx.tools.mode(child.scope) == "code"
        child.tools.present_as("both")
        assert ctx.tools.mode(child.scope) == "both"
        assert ctx.tools.mode(parent.scope) == "code"
        with pytest.raises(ScopeRequiredError, match="requires a scoped context"):
            ctx.tools.present_as("code")
        with pytest.raises(HarnessError, match="must be"):
            ctx.create_scope("x").tools.present_as("weird")  # type: ignore[arg-type]


async def test_one_declaration_a_scope() -> None:
    # PIPE-58
    async with app() as ctx:
        scoped = ctx.create_scope("agent")
        dispose = scoped.tools.present_as("code")
        for mode in ("code", "native"):
            with pytest.raises(PresentationConflictError, match='conflicts with "code" already declared'):
                scoped.tools.present_as(mode)  # type: ignore[arg-type]
        dispose()
        scoped.tools.present_as("native")
        assert ctx.tools.mode(scoped.scope) == "native"


async def test_native_opts_out_of_a_code_deployment() -> None:
    # PIPE-59: what the SDK section says then is tested with Code Mode
    async with app(mode="code") as ctx:
        scoped = ctx.create_scope("agent")
        ctx.tools.register(make_tool())
        scoped.tools.present_as("native")
        assert text_of(await run(ctx, agent=Agent(scoped))) == "ok"


@pytest.mark.parametrize("limit", [0, -1, 1.5, "3", True])
async def test_the_number_of_parallel_sub_calls_is_a_positive_integer(limit: Any) -> None:
    # PIPE-61
    with pytest.raises(Exception, match="maxParallelSubCalls must be a positive integer"):
        async with app(max_parallel_sub_calls=limit):
            pass
    async with app() as ctx:
        assert ctx.tools.service.config.max_parallel_sub_calls == 10


# ── F. Schemas and order ───────────────────────────────────────────────────────


async def test_schemas_tell_name_description_and_parameters_only() -> None:
    # PIPE-62, 63
    async with app() as ctx:
        parameters = {"type": "object", "properties": {"a": {"type": "string"}}}
        ctx.tools.register(make_tool(parameters=parameters))
        (schema,) = ctx.tools.schemas()
        assert schema.__struct_fields__ == ("name", "description", "parameters")
        assert schema.parameters == parameters
        with pytest.raises(TypeError):
            schema.parameters["properties"]["a"]["type"] = "integer"
        parameters["properties"]["a"]["type"] = "integer"  # type: ignore[index]
        assert ctx.tools.schemas()[0].parameters["properties"]["a"]["type"] == "string"
        assert text_of(await run(ctx, arguments={"a": "x"})) == "ok"


async def test_a_shadow_keeps_the_place_of_the_name_it_shadows() -> None:
    # PIPE-64, 65
    async with app() as ctx:
        scoped = await three_tools(ctx)
        for name in ("z", "b"):
            scoped.tools.register(make_tool(name))
        assert names(ctx, scoped.scope) == ["a", "b", "c", "z"]
        scoped.tools.restrict(deny=["b"])
        assert names(ctx, scoped.scope) == ["a", "c", "z", "b"]


async def test_registering_again_moves_a_name_to_the_end() -> None:
    # PIPE-66
    async with app() as ctx:
        await three_tools(ctx)
        dispose = ctx.tools.register(make_tool("d"))
        first = ctx.tools.register(make_tool("e"))
        first()
        dispose()
        ctx.tools.register(make_tool("e"))
        ctx.tools.register(make_tool("d"))
        assert names(ctx) == ["a", "b", "c", "e", "d"]


async def test_schemas_are_the_full_set_whatever_the_mode() -> None:
    # PIPE-67, 68
    async with app(mode="code") as ctx:
        scoped = await three_tools(ctx)
        assert names(ctx) == ["a", "b", "c"]
        assert ctx.tools.known_names() == ["run_code"]
        scoped.tools.present_as("both")
        scoped.tools.restrict(deny=["a"])
        assert ctx.tools.known_names(scoped.scope) == ["a", "b", "c", "run_code"]
        native = ctx.create_scope("native")
        native.tools.present_as("native")
        assert ctx.tools.known_names(native.scope) == ["a", "b", "c"]


# ── G. tools/change ────────────────────────────────────────────────────────────


async def test_every_change_is_told_once_and_guards_are_none() -> None:
    # PIPE-70
    async with app() as ctx:
        scoped = ctx.create_scope("agent")
        count = 0
        counts: list[int] = []

        def changed() -> None:
            nonlocal count
            count += 1

        ctx.on("tools/change", changed)
        unregister = ctx.tools.register(make_tool())
        counts.append(count)
        unguard = ctx.tools.guard(lambda _execution: None)
        counts.append(count)
        unguard()
        counts.append(count)
        lift = scoped.tools.restrict(deny=["t"])
        counts.append(count)
        lift()
        counts.append(count)
        undo = scoped.tools.present_as("code")
        counts.append(count)
        undo()
        counts.append(count)
        unregister()
        counts.append(count)
        unregister()
        counts.append(count)
        assert counts == [1, 1, 1, 2, 3, 4, 5, 6, 6]


async def test_a_failing_observer_of_changes_undoes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    # PIPE-71, 72 by D28; HOST-54: what takes it back is in place before anybody is told
    async with app() as ctx:
        told: list[str] = []

        def fail() -> None:
            raise RuntimeError("observer")

        ctx.on("tools/change", fail)
        ctx.on("tools/change", lambda: told.append("second"))
        ctx.tools.register(make_tool())
        assert told == ["second"]
        assert names(ctx) == ["t"]
        assert "fail" in caplog.text


async def test_scoped_observers_of_changes_hear_all_of_them() -> None:
    # PIPE-38, 70: unfiltered
    async with app() as ctx:
        heard: list[None] = []
        ctx.create_scope("agent").on("tools/change", lambda: heard.append(None))
        ctx.tools.register(make_tool())
        ctx.create_scope("other").tools.register(make_tool("u"))
        assert len(heard) == 2


async def test_one_registration_costs_a_call_nothing() -> None:
    # design 9: a look-up, however many tools there are
    async with app() as ctx:
        for index in range(200):
            ctx.tools.register(make_tool(f"t{index}"))
        view = ctx.tools.view()
        await run(ctx, "t7")
        assert ctx.tools.view() is view
        assert isinstance(ToolCall("t7"), ToolCall)


async def test_run_code_is_the_last_of_a_view_that_is_not_native() -> None:
    # PIPE-54, 60
    async with app(mode="code") as ctx:
        scoped = await three_tools(ctx)
        native = ctx.create_scope("native")
        native.tools.present_as("native")
        transport = compile_definition(make_tool("run_code"))
        ctx.tools.service.registry.set_transport(transport)
        scoped.tools.restrict(allow=["a"])
        assert list(ctx.tools.view(scoped.scope).entries) == ["a", "run_code"]
        assert ctx.tools.get("run_code", scoped.scope) is transport.definition
        assert ctx.tools.get("run_code", native.scope) is None
        assert "run_code" not in names(ctx)
        ctx.tools.service.registry.set_transport(None)
        assert list(ctx.tools.view(scoped.scope).entries) == ["a"]
