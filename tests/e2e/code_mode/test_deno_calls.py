"""Real TypeScript programs whose calls go through the whole pipeline. CODE sections H, I and J."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.agents import LoggedAgent
from tests.support.calls import Body, make_tool, text_of

from dsh_tools.content import ImageBlock, TextBlock
from dsh_tools.kernel import AbortController
from dsh_tools.services import LocalSpillPlugin, SpillPolicyPlugin, scripted
from dsh_tools.tools import Ask, Block, Deny

from .conftest import Run


def parallel(_args: Any) -> bool:
    return True


async def test_a_program_sees_values_errors_and_prints(ts: Any, run: Run) -> None:
    # CODE-35, 94, 95, 96, 121, 123, 126
    ts.tools.register(make_tool("count", Body(lambda args, _r: {"n": len(args["text"])})))
    ts.tools.register(make_tool("my-tool", Body(["a", 1.5, None])))
    ts.tools.register(make_tool("boom", Body(ValueError("deliberate failure"))))
    result = await run(
        ts,
        """
        const { n }: { n: number } = await tools.count({ text: "four" });
        console.log("counted", n);
        try { await tools.boom({}) } catch (e) {
          console.log(e instanceof ToolCallError, e instanceof Error, e.name, e.toolName, e.message, "code" in e);
        }
        try { await (tools as any).nothing({}) } catch (e) { console.log(e instanceof ToolCallError, e.constructor.name) }
        return { odd: await tools["my-tool"]({}), n };
        """,
    )
    assert result.value == {
        "logs": ["counted 4", "true true ToolCallError boom deliberate failure false", "false TypeError"],
        "result": {"odd": ["a", 1.5, None], "n": 4},
    }
    assert text_of(result).startswith("counted 4\ntrue")
    failed = await run(ts, "console.log('before'); await tools.boom({})")
    assert text_of(failed).startswith("Error: code run failed (exception): ToolCallError: deliberate failure")
    assert text_of(failed).endswith("\nCaptured output:\nbefore")


@pytest.mark.parametrize(
    "expression",
    [
        # CODE-85, 86, 87, 89, 90: refused before anything is sent
        "undefined",
        "{ a: undefined }",
        "{ a: NaN }",
        "{ a: -0 }",
        "{ a: 1n }",
        "{ a: new Date() }",
        "{ a: new Map() }",
        "{ a: [1, , 2] }",
        "{ a: () => 1 }",
        "{ a: Promise.resolve(1) }",
        "{ a: tools.t({}) }",
        "(() => { const o: any = {}; o.o = o; return o })()",
        "{ get a() { throw new Error('no') } }",
    ],
)
async def test_lossy_arguments(ts: Any, run: Run, expression: str) -> None:
    ts.tools.register(make_tool("t", Body(lambda _a, r: r.call_id)))
    code = f"""
    let message = "";
    try {{ await tools.t({expression} as any) }} catch (e) {{ message = `${{e.constructor.name}}: ${{e.message}}` }}
    const id = await tools.t({{}});
    return [message, id];
    """
    message, call_id = (await run(ts, code)).value["result"]
    assert message.split(": ", 1)[1] == "binding arguments must be lossless JSON"
    # No number was used up, but by the call inside the expression itself.
    assert call_id == ("outer:code:2" if "tools.t" in expression else "outer:code:1")


async def test_what_is_lossless_arrives_as_it_is(ts: Any, run: Run) -> None:
    # CODE-84, 88, 92
    ts.tools.register(make_tool("t", Body(lambda args, _r: args)))
    result = await run(
        ts,
        """
        const shared = [1, 2];
        const args = { a: shared, b: shared, n: null, "": "", deep: JSON.parse("[".repeat(5000) + "]".repeat(5000)) };
        Object.defineProperty(args, "__proto__", { value: { own: 1 }, enumerable: true });
        const back: any = await tools.t(args);
        shared.push(3);
        let depth = 0;
        for (let d = back.deep; Array.isArray(d) && d.length; d = d[0]) depth++;
        return { a: back.a, b: back.b, n: back.n, empty: back[""], keys: Object.keys(back), depth };
        """,
    )
    assert result.value["result"] == {
        "a": [1, 2],
        "b": [1, 2],
        "n": None,
        "empty": "",
        "keys": ["a", "b", "n", "", "deep", "__proto__"],
        "depth": 4999,
    }


async def test_integers_that_javascript_cannot_hold_are_refused_with_their_path(ts: Any, run: Run) -> None:
    # CODE-91, 93, D7
    ts.tools.register(make_tool("big", Body({"rows": [{"id": 2**53 + 1}]})))
    ts.tools.register(make_tool("exact", Body([2**53, 2**60, 2**64])))
    result = await run(
        ts,
        """
        let message = "";
        try { await tools.big({}) } catch (e) { message = e.message }
        return [message, (await tools.exact({}) as number[]).map(String)];
        """,
    )
    message, exact = result.value["result"]
    assert message.split("\n")[0] == "binding resolution must be lossless JSON"
    assert "rows[0].id" in message
    assert exact == ["9007199254740992", "1152921504606847000", "18446744073709552000"]


async def test_policies_decide_about_every_call(ts: Any, run: Run) -> None:
    # CODE-23, 96: denial, approval, guard and block, each catchable
    for name in ("denied", "asked", "refused", "guarded", "blocked", "fine"):
        ts.tools.register(make_tool(name))

    async def pre(execution: Any, next: Any) -> Any:
        if execution.name == "denied":
            return Deny("policy says no")
        return Ask("may it?") if execution.name in ("asked", "refused") else await next()

    async def post(review: Any, next: Any) -> Any:
        return Block([TextBlock("hidden")]) if review.execution.name == "blocked" else await next()

    ts.on("tools/pre-execute", pre)
    ts.on("tools/post-execute", post)
    ts.tools.guard(lambda execution: "guarded" if execution.name == "guarded" else None)
    ts.approval.answer_with(scripted({"asked": "allowed-once", "refused": "rejected"}))
    agent = LoggedAgent(ts.create_scope("agent").scope)
    result = await run(
        ts,
        """
        const said = {};
        for (const name of ["denied", "asked", "refused", "guarded", "blocked", "fine"]) {
          try { said[name] = await tools[name]({}) } catch (e) { said[name] = `${e.toolName}: ${e.message}` }
        }
        return said;
        """,
        agent=agent,
    )
    assert result.value["result"] == {
        "denied": "denied: policy says no",
        "asked": "ok",
        "refused": 'refused: the user rejected tool "refused"',
        "guarded": "guarded: guarded",
        "blocked": "blocked: hidden",
        "fine": "ok",
    }


async def test_every_call_is_in_the_session_log(ts: Any, run: Run) -> None:
    # CODE-106, 107, 108
    ts.tools.register(make_tool("t", Body(lambda args, _r: args)))
    agent = LoggedAgent(ts.create_scope("agent").scope)
    result = await run(
        ts, "for (let i = 0; i < 3; i++) await tools.t({ i }); await tools.t('x' as any).catch(() => 0)", agent=agent
    )
    assert not result.is_error
    events = agent.events("tool/code-dispatch")
    assert [kind for kind, _ in events] == ["tool/code-dispatch-start", "tool/code-dispatch"] * 4
    assert [data["subCallId"] for _, data in events[::2]] == [f"outer:code:{n}" for n in (1, 2, 3, 4)]
    assert [data["isError"] for _, data in events[1::2]] == [False, False, False, True]
    assert events[0][1]["arguments"] == {"i": 0}
    assert events[6][1]["arguments"] == "x"


async def test_long_entries_of_the_log_are_spilled(ts: Any, run: Run, tmp_path: Path) -> None:
    # CODE-111: read results, too; what the program and the model get is the model-facing policy's business
    long = "line of text\n" * 3000
    ts.tools.register(make_tool("read", Body(long)))
    await ts.plugin(LocalSpillPlugin(), {"root": str(tmp_path)})
    await ts.plugin(SpillPolicyPlugin(), {"max_inline_bytes": 2000})
    agent = LoggedAgent(ts.create_scope("agent").scope)
    result = await run(ts, "return (await tools.read({})).length", agent=agent)
    assert result.value["result"] == len(long)
    (settled,) = [data for kind, data in agent.events("tool/") if kind == "tool/code-dispatch"]
    logged = settled["content"][0]["text"]
    assert len(logged.encode()) <= 2000
    assert logged.startswith("line of text")
    assert any(path.read_text() == long for path in tmp_path.rglob("*") if path.is_file())


async def test_images_follow_the_run(ts: Any, run: Run) -> None:
    # CODE-112, 113
    picture = (TextBlock("a chart"), ImageBlock("aGk=", "image/png"))
    ts.tools.register(make_tool("chart", Body({"points": 3}), render=lambda _a, _v: picture))
    result = await run(ts, "return (await tools.chart({})).points")
    assert result.value["result"] == 3
    (message,) = result.additional_contexts
    assert message.content == picture
    assert message.source.plugin == "tools-code-mode"
    assert text_of(result) == "3"


async def test_overlap_and_order(ts: Any, run: Run) -> None:
    # CODE-100 to 105
    running, most, order = 0, 0, []

    async def body(args: Any, execution: Any) -> str:
        nonlocal running, most
        order.append(args["x"])
        running += 1
        most = max(most, running)
        await asyncio.sleep(args["ms"] / 1000)
        running -= 1
        return args["x"]

    ts.tools.register(make_tool("read", body, is_concurrency_safe=parallel))
    ts.tools.register(make_tool("write", body))
    result = await run(
        ts,
        """
        const first = await Promise.race([tools.read({ x: "slow", ms: 60 }), tools.read({ x: "fast", ms: 1 })]);
        const all = await Promise.all(["a", "b", "c"].map((x) => tools.write({ x, ms: 5 })));
        const many = await Promise.all(Array.from({ length: 15 }, (_, i) => tools.read({ x: `${i}`, ms: 20 })));
        return { first, all, many: many.length };
        """,
    )
    assert result.value["result"] == {"first": "slow", "all": ["a", "b", "c"], "many": 15}
    assert order[2:5] == ["a", "b", "c"]
    assert order[5:] == [str(i) for i in range(15)]
    assert most == 10


async def test_calls_that_nobody_awaits_are_settled_before_the_return(ts: Any, run: Run) -> None:
    # CODE-115, 116, 117, 119
    ended: list[str] = []

    async def slow(args: Any, execution: Any) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(str(execution.signal.reason))
        return "never"

    ts.tools.register(make_tool("slow", slow))
    agent = LoggedAgent(ts.create_scope("agent").scope)
    begun = time.monotonic()
    result = await run(
        ts, "tools.slow({}); tools.slow({}); await new Promise((r) => setTimeout(r, 50)); return 1", agent=agent
    )
    assert result.value["result"] == 1
    assert ended == ["run_code settled"]
    assert time.monotonic() - begun < 20
    kinds = [kind for kind, _ in agent.events("tool/code-dispatch")]
    assert kinds == ["tool/code-dispatch-start", "tool/code-dispatch"]


async def test_an_abort_stops_a_hung_program_and_its_call(ts: Any, run: Run) -> None:
    # CODE-115, 120
    started = asyncio.Event()
    ended: list[str] = []

    async def slow(args: Any, execution: Any) -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(str(execution.signal.reason))
        return "never"

    ts.tools.register(make_tool("slow", slow))
    controller = AbortController()
    task = asyncio.create_task(
        run(ts, "console.log('begun'); tools.slow({}); for (;;) await 0", signal=controller.signal)
    )
    await started.wait()
    controller.abort("the user stopped it")
    result = await task
    assert text_of(result) == "Error: code run failed (abort): the user stopped it\nCaptured output:\nbegun"
    assert result.error.info.code == "CODE_RUN_FAILED"
    assert ended == ["the user stopped it"]


async def test_a_cancelled_caller_gets_its_cancellation_after_everything_stopped(ts: Any, run: Run) -> None:
    # CODE-117, D30
    started = asyncio.Event()
    ended: list[int] = []

    async def slow(args: Any, execution: Any) -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.02)
            ended.append(1)
        return "never"

    ts.tools.register(make_tool("slow", slow))
    task = asyncio.create_task(run(ts, "await tools.slow({})"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [1]


async def test_a_concluding_call(ts: Any, run: Run) -> None:
    # CODE-114
    ts.tools.register(make_tool("finish", Body(lambda _a, r: r.conclude_turn() or "bye")))
    assert (await run(ts, "return await tools.finish({})")).concludes_turn is True
    assert not hasattr(await run(ts, "await tools.finish({}); throw 1"), "concludes_turn")


async def test_failures_of_programs(ts: Any, run: Run) -> None:
    # CODE-37, 126, 128
    assert text_of(await run(ts, "")) == "(run_code completed with no output)"
    assert text_of(await run(ts, "return undefined")) == "(run_code completed with no output)"
    assert text_of(await run(ts, "return null")) == "null"
    assert text_of(await run(ts, "return new Map()")) == (
        "Error: code run failed (invalid-output): program completion must be lossless JSON"
    )
    enum = text_of(await run(ts, "enum A { B }"))
    assert enum.startswith("Error: code run failed (exception): SyntaxError")


async def test_ten_thousand_calls(ts: Any, run: Run) -> None:
    # CODE-98, 103
    ts.tools.register(make_tool("echo", Body(lambda args, _r: args["x"]), is_concurrency_safe=parallel))
    result = await run(
        ts,
        """
        let sum = 0;
        for (let i = 0; i < 1000; i++) sum += await tools.echo({ x: i });
        const all = await Promise.all(Array.from({ length: 9000 }, (_, x) => tools.echo({ x })));
        return [sum, all.every((x, i) => x === i)];
        """,
    )
    assert result.value["result"] == [499500, True]
