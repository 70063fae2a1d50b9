"""Field cases on programs that call tools: real TypeScript programs, the whole pipeline, the default composition."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.agents import LoggedAgent
from tests.support.calls import Body, make_tool, text_of

from dsh_tools.code_mode import render_section
from dsh_tools.kernel import Context, create_context
from dsh_tools.services import LimitsPlugin
from dsh_tools.standard import StandardConfig, mount_standard
from dsh_tools.tools import Ask, Deny, ToolCall, ToolResult

SECRET = "sk-very-secret-7391"


@pytest.fixture
async def ctx(no_leaks: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Context]:
    monkeypatch.setenv("SERVICE_API_KEY", SECRET)
    config = {"tools": {"mode": "code"}, "code": {"prewarm": False, "pool_size": 0}}
    async with create_context() as context:
        await mount_standard(context, StandardConfig.model_validate(config))
        yield context


async def run(ctx: Context, code: str, **fields: Any) -> ToolResult:
    return await ctx.tools.execute(ToolCall("run_code", {"code": code}, **{"call_id": "outer", **fields}))


@pytest.mark.field("field-099")
async def test_every_call_of_a_program_is_asked_about_by_itself(ctx: Context):
    body = Body()
    ctx.tools.register(make_tool("t", body, parameters={"type": "object", "properties": {"x": {}}}))
    ctx.on("tools/pre-execute", lambda execution, next: Ask() if execution.name == "t" else next())
    asked: list[tuple[Any, str]] = []

    def answer(request: Any) -> str:
        asked.append((request.arguments, request.call_id))
        return "allowed-once" if len(asked) == 1 else "rejected"

    ctx.approval.answer_with(answer)  # type: ignore[arg-type]
    code = """
    const said = [await tools.t({ x: 1 })];
    for (const x of [1, 2]) try { said.push(await tools.t({ x })) } catch (e) { said.push(e.message) }
    return said;
    """
    agent = LoggedAgent(ctx.create_scope("agent").scope)
    refused = 'the user rejected tool "t"'
    assert (await run(ctx, code, agent=agent)).value["result"] == ["ok", refused, refused]
    # One grant, one call: the same arguments are asked about again.
    assert asked == [({"x": 1}, "outer:code:1"), ({"x": 1}, "outer:code:2"), ({"x": 2}, "outer:code:3")]
    assert body.calls == [{"x": 1}]


@pytest.mark.field("field-101")
async def test_a_denied_call_can_be_caught_and_is_on_record(ctx: Context):
    body = Body()
    ctx.tools.register(make_tool("bash", body))

    async def gate(execution: Any, next: Any) -> Any:
        return Deny("no sudo here") if "sudo" in str(execution.arguments) and execution.name == "bash" else await next()

    ctx.on("tools/pre-execute", gate)
    agent = LoggedAgent(ctx.create_scope("agent").scope)
    code = """
    try { await tools.bash({ command: "sudo rm -rf x" }) }
    catch (e) { return [e instanceof ToolCallError, e.toolName, e.message] }
    """
    assert (await run(ctx, code, agent=agent)).value["result"] == [True, "bash", "no sudo here"]
    assert body.calls == []
    start, settle = (data for _, data in agent.events("tool/code-dispatch"))
    assert start["arguments"] == {"command": "sudo rm -rf x"}
    assert (settle["parentCallId"], settle["rootCallId"], settle["isError"]) == ("outer", "outer", True)


@pytest.mark.field("field-102")
async def test_run_code_is_out_of_reach_of_programs_and_every_attempt_counts(ctx: Context):
    async def proxy(args: Any, execution: Any) -> str:
        call = ToolCall(args["name"], args["args"], call_id="proxied", agent=execution.agent, parent=execution.token)
        return text_of(await ctx.tools.execute(call))

    reached = Body()
    ctx.tools.register(make_tool("call_tool", proxy))
    ctx.tools.register(make_tool("mark", reached))
    await ctx.plugin(
        LimitsPlugin(), {"limits": [{"tool": "call_*", "max_calls": 40, "per_ms": 1e7, "when_exceeded": "deny"}]}
    )
    code = """
    const said: Record<string, number> = {};
    const note = (text: string) => { said[text.slice(0, 40)] = (said[text.slice(0, 40)] ?? 0) + 1 };
    try { await (tools as any).run_code({ code: "" }) } catch (e) { note(e.constructor.name) }
    for (let i = 0; i < 10_000; i++) {
      try { note(await tools.call_tool({ name: "run_code", args: { code: "await tools.mark({})" } })) }
      catch (e) { note(e.message) }
    }
    return said;
    """
    result = await run(ctx, code)
    assert result.value["result"] == {
        "TypeError": 1,
        # The refused attempts used the budget up.
        "Error: run_code cannot be called by a pr": 40,
        'tool "call_tool" may be called 40 times ': 9960,
    }
    assert reached.calls == []


@pytest.mark.field("field-103")
async def test_a_failing_call_is_an_exception_and_not_the_end(ctx: Context):
    ctx.tools.register(make_tool("boom", Body(ValueError("out of luck"))))
    ctx.tools.register(make_tool("fine"))
    code = """
    const done = [await tools.fine({})];
    try { await tools.boom({}) } catch (e) { done.push("caught", e.toolName, e.message) }
    done.push(await tools.fine({}));
    return done;
    """
    assert (await run(ctx, code)).value["result"] == ["ok", "caught", "boom", "out of luck", "ok"]


@pytest.mark.field("field-105")
async def test_what_is_declared_resolves_and_nothing_else(ctx: Context):
    for name in ("plain", "odd-name", "__proto__", "constructor", "class", "路径", "hidden"):
        ctx.tools.register(make_tool(name))
    agent = ctx.create_scope("agent")
    agent.tools.restrict(deny=["hidden"])
    section = render_section("typescript", ctx.tools.view(agent.scope).entries.values())
    outputs = section.split("interface ToolOutputMap {")[1].split("}")[0]
    declared = [name.strip('"') for name in re.findall(r"^  (\S+): ", outputs, re.MULTILINE)]
    assert sorted(declared) == sorted(["plain", "odd-name", "__proto__", "constructor", "class", "路径"])
    code = f"""
    const said = [];
    for (const name of {declared!r}) said.push(await tools[name]({{}}));
    for (const name of ["hidden", "run_code", "toString", "nothing"]) {{
      try {{ await tools[name]({{}}); said.push("reached") }} catch (e) {{ said.push(e.constructor.name) }}
    }}
    return said;
    """
    assert (await run(ctx, code, agent=agent)).value["result"] == ["ok"] * 6 + ["TypeError"] * 4


@pytest.mark.field("field-111")
async def test_a_person_sees_the_exact_program_and_no_secret_reaches_it(ctx: Context):
    for name in ("one", "two", "three"):
        ctx.tools.register(make_tool(name))
    ctx.on("tools/pre-execute", lambda execution, next: Ask("a program") if execution.name == "run_code" else next())
    shown: list[Any] = []
    outcomes = iter(["rejected", "allowed-once"])

    def answer(request: Any) -> str:
        shown.append(request.arguments)
        return next(outcomes)

    ctx.approval.answer_with(answer)  # type: ignore[arg-type]
    code = """
    await tools.one({}); await tools.two({}); await tools.three({});
    const seen = [];
    for (const key of Reflect.ownKeys(globalThis)) {
      try { seen.push(String(key), JSON.stringify(globalThis[key]), Object.keys(globalThis[key] ?? {}).join()) } catch {}
    }
    return [seen.join(" "), Object.keys(process.env), Object.keys(tools)];
    """
    agent = LoggedAgent(ctx.create_scope("agent").scope)
    denied = await run(ctx, code, agent=agent)
    assert text_of(denied) == 'Error: the user rejected tool "run_code"'
    allowed = await run(ctx, code, agent=agent)
    assert shown == [{"code": code}] * 2
    everything, environment, bindings = allowed.value["result"]
    assert SECRET not in everything
    assert environment == []
    assert bindings == ["one", "two", "three"]


@pytest.mark.field("field-115")
async def test_the_output_schema_holds_for_programs_too(ctx: Context):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    ctx.tools.register(make_tool("wrong", Body({"n": "x"}), schema=schema))
    native = ctx.create_scope("native")
    native.tools.present_as("native")
    direct = await ctx.tools.execute(ToolCall("wrong", {}, agent=native))
    assert direct.error.info.code == "INVALID_TOOL_OUTPUT"
    result = await run(ctx, "try { return await tools.wrong({}) } catch (e) { return `Error: ${e.message}` }")
    assert result.value["result"] == text_of(direct)
