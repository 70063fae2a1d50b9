"""Modes: what is shown to whom, and what may be called. CODE sections A, B and C."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pydantic
import pytest
from tests.support.calls import Body, Recorder, make_tool, text_of
from tests.support.code_mode import Program, ScriptRuntime, run_code

from dsh_tools.code_mode import CODE_ONLY, CodeModePlugin
from dsh_tools.errors import PresentationConflictError, PromptError, ScopeRequiredError
from dsh_tools.kernel import AbortController, Context, create_context
from dsh_tools.pipeline import ToolsConfig, ToolsPlugin
from dsh_tools.services import SystemPromptPlugin
from dsh_tools.services.system_prompt import UNLISTED_TOOLS, AssembledPrompt, AssembleRequest
from dsh_tools.tools import ToolCall

pytestmark = pytest.mark.usefixtures("no_leaks")


@asynccontextmanager
async def prompting(
    mode: str = "native", *, language: str | None = "typescript", order: list[str] | None = None, **config: Any
) -> AsyncIterator[Context]:
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin(), {"mode": mode, **config})
        await ctx.plugin(SystemPromptPlugin(), {"include_harness_identity": False, "tool_order": order})
        await ctx.plugin(CodeModePlugin())
        if language is not None:
            ctx.provide("code_runtime", ScriptRuntime(language=language))
        ctx.tools.register(make_tool("echo"))
        ctx.tools.register(make_tool("Zed"))
        yield ctx


async def assembled(ctx: Context, agent: Any = None) -> AssembledPrompt:
    return await ctx.system_prompt.assemble(AssembleRequest(agent))


def names(prompt: AssembledPrompt) -> list[str]:
    return [tool.name for tool in prompt.tools]


def sections(prompt: AssembledPrompt) -> list[str]:
    return [section.name for section in prompt.sections]


@pytest.mark.parametrize(
    ("mode", "tools", "shown"),
    [
        # CODE-1 to 5, 7; PIPE-69
        ("native", ["Zed", "echo"], []),
        ("code", ["run_code"], ["tools:code-only", "tools:sdk"]),
        ("both", ["Zed", "echo", "run_code"], ["tools:sdk"]),
    ],
)
async def test_what_each_mode_shows(mode: str, tools: list[str], shown: list[str]) -> None:
    async with prompting(mode) as ctx:
        prompt = await assembled(ctx)
        assert names(prompt) == tools
        assert sections(prompt) == shown
        assert ("only tool that you can call directly" in prompt.system) is (mode == "code")
        assert ("interface ToolArgsMap" in prompt.system) is (mode != "native")


async def test_native_needs_no_runtime() -> None:
    # CODE-2
    async with prompting("native", language=None) as ctx:
        assert names(await assembled(ctx)) == ["Zed", "echo"]


async def test_the_rule_comes_before_guidance_and_guidance_before_the_sdk() -> None:
    # CODE-5
    async with prompting("code") as ctx:
        ctx.system_prompt.section("guide:echo", 120, "Use {{echo}} with care.", literal=True)
        ctx.tools.register(make_tool("braces", parameters={"type": "object", "description": "{{x}}"}))
        prompt = await assembled(ctx)
        assert sections(prompt) == ["tools:code-only", "guide:echo", "tools:sdk"]
        assert prompt.sections[0].text == CODE_ONLY


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", True, None])
def test_the_limit_of_sub_calls_is_a_positive_integer(value: Any) -> None:
    # CODE-1
    with pytest.raises(pydantic.ValidationError, match="maxParallelSubCalls must be a positive integer"):
        ToolsConfig(max_parallel_sub_calls=value)


def test_the_limit_of_sub_calls_is_ten() -> None:
    # CODE-1
    assert ToolsConfig().max_parallel_sub_calls == 10
    assert ToolsConfig().mode == "native"


async def test_the_mode_is_the_scopes_own() -> None:
    # CODE-8, 9, 10
    async with prompting("native") as ctx:
        parent = ctx.create_scope("parent")
        child = ctx.create_scope("child", parent.scope)
        other = ctx.create_scope("other")
        restore = parent.tools.present_as("code")
        for agent in (parent, child):
            assert names(await assembled(ctx, agent)) == ["run_code"]
            denied = await ctx.tools.execute(ToolCall("echo", {}, agent=agent))
            assert denied.error.info.code == "UNKNOWN_TOOL"
        assert names(await assembled(ctx, other)) == ["Zed", "echo"]
        assert sections(await assembled(ctx, other)) == []
        unknown = await run_code(ctx, agent=other)
        assert text_of(unknown).startswith('Error: unknown tool "run_code"')
        assert ctx.tools.get("run_code", other.scope) is None
        with pytest.raises(PresentationConflictError, match='conflicts with "code" already declared'):
            parent.tools.present_as("code")
        with pytest.raises(ScopeRequiredError, match="requires a scoped context"):
            ctx.tools.present_as("code")
        await restore()
        assert names(await assembled(ctx, parent)) == ["Zed", "echo"]
        assert not (await ctx.tools.execute(ToolCall("echo", {}, agent=parent))).is_error


async def test_an_agent_may_opt_out() -> None:
    # CODE-9, PIPE-59
    async with prompting("code") as ctx:
        agent = ctx.create_scope("agent")
        agent.tools.present_as("native")
        prompt = await assembled(ctx, agent)
        assert names(prompt) == ["Zed", "echo"]
        assert sections(prompt) == []
        assert not (await ctx.tools.execute(ToolCall("echo", {}, agent=agent))).is_error


@pytest.mark.parametrize("mode", ["code", "both"])
async def test_programs_need_a_runtime(mode: str) -> None:
    # CODE-11, PIPE-69
    async with prompting(language=None) as ctx:
        agent = ctx.create_scope("agent")
        agent.tools.present_as(mode)
        with pytest.raises(PromptError) as refused:
            await assembled(ctx, agent)
        first, hint = str(refused.value).split("\n")
        assert first == f'mode "{mode}" requires a code runtime'
        assert 'pip install "dsh-tools[code]"' in hint


@pytest.mark.parametrize("language", ["ruby", "toString"])
async def test_programs_need_a_language_with_an_sdk(language: str) -> None:
    # CODE-12, PIPE-69
    async with prompting("code", language=language) as ctx:
        with pytest.raises(PromptError) as refused:
            await assembled(ctx)
        assert str(refused.value) == (
            f'no SDK renderer registered for runtime language "{language}" (known: "typescript", "python")'
        )
        assert ctx.tools.execution_mode(ToolCall("run_code", {"code": ""})) == "exclusive"


async def test_the_language_chooses_the_texts() -> None:
    # CODE-12
    async with prompting("code", language="python") as ctx:
        prompt = await assembled(ctx)
        assert "```python" in prompt.system
        assert "async Python function" in str(prompt.tools[0].parameters)


async def test_known_names_of_an_order() -> None:
    # CODE-14
    async with prompting("code", order=["echo", UNLISTED_TOOLS]) as ctx:
        with pytest.raises(PromptError, match='toolOrder lists unregistered tool "echo"'):
            await assembled(ctx)
    async with prompting("both", order=["run_code", UNLISTED_TOOLS, "Zed"]) as ctx:
        assert names(await assembled(ctx)) == ["run_code", "echo", "Zed"]


async def test_what_a_listener_returns_is_final() -> None:
    # CODE-15
    async with prompting("code") as ctx:
        agent = ctx.create_scope("agent")

        async def drop(request: Any, next: Any) -> Any:
            return msgspec.structs.replace(await next(), sections=(), tools=())

        agent.on("system-prompt/assemble", drop)
        assert (await assembled(ctx, agent)).tools == ()
        assert names(await assembled(ctx)) == ["run_code"]


async def test_a_scoped_section_replaces_the_default_one() -> None:
    # CODE-15
    async with prompting("code") as ctx:
        agent = ctx.create_scope("agent")
        agent.system_prompt.section("tools:sdk", 150, "my own words")
        assert "my own words" in (await assembled(ctx, agent)).system
        assert "interface ToolArgsMap" not in (await assembled(ctx, agent)).system
        assert "interface ToolArgsMap" in (await assembled(ctx)).system


async def test_same_tools_same_bytes() -> None:
    # CODE-16
    async with prompting("both") as ctx:
        first = (await assembled(ctx)).system
        assert (await assembled(ctx, ctx.create_scope("agent"))).system == first
        async with prompting("both") as other:
            assert (await assembled(other)).system == first


async def test_everything_vanishes_with_the_registry() -> None:
    # CODE-17
    async with create_context() as ctx:
        tools = ctx.plugin(ToolsPlugin(), {"mode": "code"})
        await tools
        await ctx.plugin(SystemPromptPlugin(), {"include_harness_identity": False})
        await ctx.plugin(CodeModePlugin())
        ctx.provide("code_runtime", ScriptRuntime())
        assert sections(await assembled(ctx)) == ["tools:code-only", "tools:sdk"]
        await tools.dispose()
        prompt = await assembled(ctx)
        assert (names(prompt), sections(prompt)) == ([], [])


async def test_the_prompt_service_may_come_later() -> None:
    # CODE-5
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin(), {"mode": "code"})
        await ctx.plugin(CodeModePlugin())
        ctx.provide("code_runtime", ScriptRuntime())
        prompt = ctx.plugin(SystemPromptPlugin(), {"include_harness_identity": False})
        await prompt
        await asyncio.sleep(0.01)
        assert sections(await assembled(ctx)) == ["tools:code-only", "tools:sdk"]


async def test_restrictions_reach_sdk_and_bindings_and_leave_run_code() -> None:
    # CODE-19, 20
    async with prompting("code") as ctx:
        agent = ctx.create_scope("agent")
        agent.tools.restrict(allow=["echo"])
        agent.tools.register(make_tool("own"))
        prompt = await assembled(ctx, agent)
        assert names(prompt) == ["run_code"]
        assert "  own:" in prompt.system
        assert "Zed" not in prompt.system
        runtime = ctx.get("code_runtime")

        async def script(program: Program) -> list[str]:
            return list(program.functions)

        runtime.script = script  # type: ignore[union-attr]
        assert (await run_code(ctx, agent=agent)).value["result"] == ["echo", "own"]


@pytest.mark.parametrize("mode", ["native", "code", "both"])
async def test_schemas_are_never_collapsed(mode: str) -> None:
    # CODE-21
    async with prompting(mode) as ctx:
        assert [schema.name for schema in ctx.tools.schemas()] == ["echo", "Zed"]


ROUTE = (
    'unknown tool "write": only `run_code` is callable directly — call `write` from inside a `run_code` program instead'
)


async def test_a_direct_call_is_denied_before_any_policy() -> None:
    # CODE-22, 23, 27
    async with prompting("code") as ctx:
        body = Body()
        ctx.tools.register(make_tool("write", body, is_concurrency_safe=lambda _a: True))
        recorder = Recorder(ctx)
        asked: list[Any] = []
        ctx.tools.guard(lambda execution: asked.append(execution))
        result = await ctx.tools.execute(ToolCall("write", {}))
        assert text_of(result) == f"Error: {ROUTE}"
        assert (result.error.info.name, result.error.info.code) == ("ToolNotFoundError", "UNKNOWN_TOOL")
        assert recorder.seen == ["result"]
        assert (asked, body.calls) == ([], [])
        assert ctx.tools.execution_mode(ToolCall("write", {})) == "exclusive"


async def test_names_that_nobody_sees_keep_the_ordinary_path() -> None:
    # CODE-24
    async with prompting("code") as ctx:
        recorder = Recorder(ctx)
        result = await ctx.tools.execute(ToolCall("nobody", {}))
        assert text_of(result).split("\n")[0] == 'Error: unknown tool "nobody"'
        assert recorder.seen == ["pre", "around", "post", "result"]


async def test_aborts_and_lossy_arguments_come_first() -> None:
    # CODE-25, 26
    async with prompting("code") as ctx:
        controller = AbortController()
        controller.abort()
        aborted = await ctx.tools.execute(ToolCall("echo", {}, signal=controller.signal))
        assert aborted.error.info.code == "ABORTED_BEFORE_DISPATCH"
        lossy = await ctx.tools.execute(ToolCall("echo", {"x": {1}}))
        assert text_of(lossy).startswith("Error: tool execution arguments must be losslessly JSON-serializable")


async def test_calls_of_programs_are_exempt_and_the_token_tells_nothing() -> None:
    # CODE-28
    async with prompting("code") as ctx:
        seen: list[Any] = []
        ctx.on("tools/result", lambda execution, _result: seen.append(execution))
        runtime = ctx.get("code_runtime")
        runtime.script = lambda program: program.call("echo")  # type: ignore[union-attr]
        assert (await run_code(ctx)).value["result"] == "ok"
        sub, outer = seen
        assert sub.parent is outer.token
        assert [name for name in dir(sub.parent) if not name.startswith("_")] == ["is_live_in", "owner", "retire"]
        assert sub.parent.owner is None
        stale = await ctx.tools.execute(ToolCall("echo", {}, parent=outer.token))
        assert text_of(stale) == "Error: invalid parent token"


@pytest.mark.parametrize("mode", ["native", "both"])
async def test_other_modes_deny_nothing(mode: str) -> None:
    # CODE-29
    async with prompting(mode) as ctx:
        assert not (await ctx.tools.execute(ToolCall("echo", {}))).is_error
