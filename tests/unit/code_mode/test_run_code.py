"""The tool ``run_code``. CODE section D."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import UNSET
from tests.support.calls import Body, Recorder, make_tool, text_of
from tests.support.code_mode import Program, ScriptRuntime, code_app, run_code

from dsh_tools.code_mode import CodeModePlugin
from dsh_tools.code_runtime import CodeRunError, CodeRunResult
from dsh_tools.content import TextBlock
from dsh_tools.errors import CodeRuntimeError, RegistrationError, ReservedNameError, RestrictionError
from dsh_tools.kernel import AbortController, create_context
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.services import SystemPromptPlugin
from dsh_tools.services.system_prompt import AssembleRequest
from dsh_tools.tools import Accept, Deny, view_of_call
from dsh_tools.tools.cards import view_to_json

pytestmark = pytest.mark.usefixtures("no_leaks")


async def test_wire_schema() -> None:
    # CODE-30, D1
    async with code_app() as (ctx, _runtime):
        schema = ctx.tools.view().entries["run_code"].schema
        document = schema.parameters
        assert list(document) == ["type", "properties", "required"]
        assert list(document["properties"]) == ["code", "description"]
        assert all(list(entry) == ["type", "description"] for entry in document["properties"].values())
        assert all(entry["type"] == "string" for entry in document["properties"].values())
        assert document["required"] == ["code"]


@pytest.mark.parametrize("language", ["typescript", "python"])
async def test_descriptions(language: str) -> None:
    # CODE-31, 32
    async with code_app(language=language) as (ctx, _runtime):
        schema = ctx.tools.view().entries["run_code"].schema
        for words in ("`code`", "`description`", "async function", "top-level `await` and `return`"):
            assert words in schema.description
        assert "await tools.name(args)" in schema.description
        assert "images" in schema.description
        code = schema.parameters["properties"]["code"]["description"]
        purpose = schema.parameters["properties"]["description"]["description"]
        assert "5 to 10 words" in purpose
        if language == "typescript":
            assert "async TypeScript function" in code
            assert "Erasable syntax only" in schema.description
        else:
            assert "async Python function" in code
            assert "print(...)" in schema.description
            assert "return <value>" in schema.description
            assert "TypeScript" not in schema.description + code
        async with code_app() as (other, _):
            other_schema = other.tools.view().entries["run_code"].schema
            assert other_schema.parameters["properties"]["description"]["description"] == purpose


async def test_texts_follow_the_runtime_at_each_read() -> None:
    # CODE-13
    async with code_app(language=None) as (ctx, _):
        assert "TypeScript" in ctx.tools.get("run_code").description
        mounted = ctx.provide("code_runtime", ScriptRuntime(language="python"))
        assert "Python" in ctx.tools.get("run_code").description
        await mounted()
        ctx.provide("code_runtime", ScriptRuntime(language="ruby"))
        with pytest.raises(CodeRuntimeError) as refused:
            ctx.tools.get("run_code")
        assert str(refused.value) == (
            'no run_code schema flavor registered for runtime language "ruby" (known: "typescript", "python")'
        )


@pytest.mark.parametrize(
    "arguments", ["{}", {"code": 5}, '{"description": "only"}', {"code": "x", "description": 7}, "{"]
)
async def test_wrong_arguments_run_nothing(arguments: Any) -> None:
    # CODE-33
    async with code_app(lambda program: None) as (ctx, runtime):  # type: ignore[arg-type, return-value]
        result = await run_code(ctx, arguments=arguments)
        assert result.error.info.code == "INVALID_ARGS"
        assert runtime.requests == []


@pytest.mark.parametrize("description", ["", "  \n", "Count the lines of all files"])
async def test_the_description_is_optional(description: str) -> None:
    # CODE-33, D1, D42
    async def script(program: Program) -> int:
        return 1

    async with code_app(script) as (ctx, _runtime):
        result = await run_code(ctx, arguments={"code": "x", "description": description})
        assert result.value["result"] == 1


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        # CODE-34, D1, D42
        ({"code": "return 1", "description": "Return one"}, "Return one"),
        ({"code": "\n\n   const x = 1;\nreturn x"}, "const x = 1;"),
        ({"code": "return 1", "description": "  "}, "return 1"),
        ({"code": "x" * 100}, "x" * 60),
        ({"code": " \n "}, "run_code"),
    ],
)
async def test_card(arguments: Any, title: str) -> None:
    async with code_app() as (ctx, _runtime):
        definition = ctx.tools.get("run_code")
        card = view_of_call(definition, arguments)
        assert view_to_json(card) == {
            "card": "generic",
            "title": title,
            "kind": "execute",
            "rawInput": arguments["code"],
        }
        assert definition.present_result is None
        assert definition.output.presentation_meta is None
        assert view_of_call(definition, {"code": 5}) is None
        assert view_of_call(definition, {"description": "x"}) is None
        assert view_of_call(definition, [1]) is None


@pytest.mark.parametrize(
    ("outcome", "value"),
    [
        # CODE-35
        (CodeRunResult([], UNSET), {"logs": []}),
        (CodeRunResult(["a"], None), {"logs": ["a"], "result": None}),
        (CodeRunResult([""], ""), {"logs": [""], "result": ""}),
        (CodeRunResult(["a", "b"], {"x": [1]}), {"logs": ["a", "b"], "result": {"x": [1]}}),
    ],
)
async def test_canonical_output(outcome: CodeRunResult, value: Any) -> None:
    async def script(program: Program) -> CodeRunResult:
        return outcome

    async with code_app(script) as (ctx, _runtime):
        assert (await run_code(ctx)).value == value


async def test_an_error_wins_over_a_value() -> None:
    # CODE-127, PIPE-228
    async def script(program: Program) -> CodeRunResult:
        return CodeRunResult(["log"], 5, CodeRunError("exception", "Error: x"))

    async with code_app(script) as (ctx, _runtime):
        result = await run_code(ctx)
        assert text_of(result) == "Error: code run failed (exception): Error: x\nCaptured output:\nlog"
        assert (result.error.info.name, result.error.info.code) == ("CodeRunFailedError", "CODE_RUN_FAILED")


async def test_it_is_a_call_like_any_other() -> None:
    # CODE-36
    async def script(program: Program) -> int:
        return 1

    async with code_app(script) as (ctx, runtime):
        recorder = Recorder(ctx)
        programs: list[str] = []
        await run_code(ctx, "the program")
        assert recorder.seen == ["pre", "around", "post", "result"]

        async def pre(execution: Any, next: Any) -> Any:
            programs.append(execution.arguments["code"])
            return Deny("this program is refused")

        ctx.on("tools/pre-execute", pre)
        assert text_of(await run_code(ctx, "other")) == "Error: this program is refused"
        assert programs == ["other"]
        assert [request.program for request in runtime.requests] == ["the program"]


async def test_an_aborted_caller_never_reaches_the_runtime() -> None:
    # CODE-36
    async with code_app() as (ctx, runtime):
        controller = AbortController()
        controller.abort()
        result = await run_code(ctx, signal=controller.signal)
        assert result.error.info.code == "ABORTED_BEFORE_DISPATCH"
        assert runtime.requests == []


async def test_without_a_runtime_the_call_fails() -> None:
    # CODE-37
    async with code_app(language=None) as (ctx, _):
        result = await run_code(ctx)
        assert text_of(result) == "Error: run_code requires a code runtime"


async def test_the_runtime_gets_the_program_and_its_own_signal() -> None:
    # CODE-38
    async def script(program: Program) -> None:
        return None

    async with code_app(script) as (ctx, runtime):
        controller = AbortController()
        await run_code(ctx, "return 1", signal=controller.signal)
        (request,) = runtime.requests
        assert request.program == "return 1"
        assert len(request.bindings) == 1
        assert request.signal is not controller.signal
        assert request.signal.reason == "run_code settled"


async def test_only_the_outer_text_is_shown_and_policy_may_replace_it() -> None:
    # CODE-128
    async def script(program: Program) -> str:
        return "long text"

    async with code_app(script) as (ctx, _runtime):
        ctx.on("tools/post-execute", lambda _review, next: Accept(content=[TextBlock("short")]))
        result = await run_code(ctx)
        assert text_of(result) == "short"
        assert result.value["result"] == "long text"


@pytest.mark.parametrize("mode", ["native", "code", "both"])
async def test_the_name_is_reserved_in_every_mode(mode: str) -> None:
    # CODE-18, 19
    async with code_app(mode=mode) as (ctx, _runtime):
        scope = ctx.create_scope("agent")
        for tools in (ctx.tools, scope.tools):
            with pytest.raises(ReservedNameError, match="is reserved for the Code Mode presentation transport"):
                tools.register(make_tool("run_code"))
        for lists in ({"allow": ["run_code"]}, {"deny": ["run_code"]}):
            with pytest.raises(RestrictionError, match="cannot name reserved Code Mode presentation transport"):
                scope.tools.restrict(**lists)


async def test_code_mode_is_mounted_once_and_goes_with_its_plugin() -> None:
    # CODE-17
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin(), {"mode": "both"})
        changes: list[int] = []
        ctx.on("tools/change", lambda: changes.append(1))
        mounted = ctx.plugin(CodeModePlugin())
        await mounted
        assert list(ctx.tools.view().entries) == ["run_code"]
        with pytest.raises(RegistrationError, match="mounted already"):
            await ctx.plugin(CodeModePlugin())
        assert list(ctx.tools.view().entries) == ["run_code"]
        await mounted.dispose()
        assert list(ctx.tools.view().entries) == []
        assert changes == [1, 1]


async def test_the_language_is_bound_when_the_prompt_is_assembled() -> None:
    # CODE-190, D9
    async def script(program: Program) -> str:
        return program.request.program

    async with code_app(language=None) as (ctx, _):
        await ctx.plugin(SystemPromptPlugin())
        await asyncio.sleep(0.01)
        agent = ctx.create_scope("agent")
        other = ctx.create_scope("other")
        mounted = ctx.provide("code_runtime", ScriptRuntime(script))
        for request in (AssembleRequest(agent), AssembleRequest()):
            await ctx.system_prompt.assemble(request)
        assert (await run_code(ctx, "const x = 1", agent=agent)).value["result"] == "const x = 1"
        await mounted()
        ctx.provide("code_runtime", ScriptRuntime(script, "python"))
        for caller in (agent, None):
            result = await run_code(ctx, "const x = 1", agent=caller)
            assert text_of(result) == (
                "Error: run_code was offered for typescript programs, and the code runtime now runs python; "
                "nothing was run"
            )
            assert result.error.info.code == "CODE_LANGUAGE_CHANGED"
        # Who was shown nothing is bound to nothing; a new prompt binds anew.
        assert not (await run_code(ctx, "x = 1", agent=other)).is_error
        await ctx.system_prompt.assemble(AssembleRequest(agent))
        assert not (await run_code(ctx, "x = 1", agent=agent)).is_error


async def test_invalid_values_of_a_tool_never_reach_the_program() -> None:
    # CODE-96
    async with code_app() as (ctx, runtime):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        ctx.tools.register(make_tool("t", Body({"n": "x"}), schema=schema))
        runtime.script = lambda program: program.error_of("t")
        message = (await run_code(ctx)).value["result"]
        assert message.startswith('tool "t" returned invalid output: ')
