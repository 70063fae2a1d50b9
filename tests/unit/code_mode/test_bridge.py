"""The bridge: a program's calls in the pipeline. CODE section I."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from tests.support.calls import Body, make_tool, text_of
from tests.support.code_mode import Program, code_app, run_code

from dsh_tools.code_runtime import CodeRunError, CodeRunResult
from dsh_tools.content import ImageBlock, TextBlock
from dsh_tools.errors import ToolError
from dsh_tools.kernel import AbortController
from dsh_tools.messages import MessageSource, UserMessage
from dsh_tools.tools import Accept, Block, Deny, ToolCall

pytestmark = pytest.mark.usefixtures("no_leaks")

IMAGE = ImageBlock("aGk=", "image/png")


class Bench:
    """Tools that note when their bodies begin and end: ``par`` may overlap, ``exc`` may not."""

    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx
        self.events: list[str] = []
        self.running = 0
        self.most = 0
        for name, parallel in (("par", True), ("exc", None)):
            ctx.tools.register(
                make_tool(name, self.body, is_concurrency_safe=(lambda _args: True) if parallel else None)
            )

    async def body(self, args: Any, run: Any) -> str:
        tag = args.get("tag", run.name)
        self.events.append(f"begin {tag}")
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(args.get("ms", 1) / 1000)
        finally:
            self.running -= 1
            self.events.append(f"end {tag}")
        return str(tag)


def note(events: list[str], tag: str, call: Awaitable[Any]) -> asyncio.Future[Any]:
    """Await a call beside the script, and note when the program got its answer."""

    async def wait() -> Any:
        try:
            return await call
        finally:
            events.append(f"answer {tag}")

    return asyncio.ensure_future(wait())


def three(bench: Bench, tool: str, *ms: int) -> Any:
    async def script(program: Program) -> list[str]:
        tags = "abcdefgh"[: len(ms)]
        calls = [
            note(bench.events, tag, program.call(tool, {"tag": tag, "ms": duration}))
            for tag, duration in zip(tags, ms, strict=True)
        ]
        return list(await asyncio.gather(*calls))

    return script


async def test_bindings_are_what_the_caller_sees_without_run_code() -> None:
    # CODE-20, 38, 94
    async with code_app() as (ctx, runtime):
        for name in ("__proto__", "constructor", "my-tool", "hidden"):
            ctx.tools.register(make_tool(name))
        scoped = ctx.create_scope("agent")
        scoped.tools.register(make_tool("own"))
        scoped.tools.restrict(deny=["hidden"])

        async def script(program: Program) -> list[str]:
            return list(program.functions)

        runtime.script = script
        assert (await run_code(ctx, agent=scoped)).value["result"] == ["__proto__", "constructor", "my-tool", "own"]
        assert (await run_code(ctx)).value["result"] == ["__proto__", "constructor", "my-tool", "hidden"]
        (namespace,) = runtime.requests[0].bindings
        assert namespace.global_name == "tools"
        assert namespace.error_class is not None
        assert (namespace.error_class.name, namespace.error_class.member_name_property) == ("ToolCallError", "toolName")


async def test_the_program_gets_the_value_after_policy() -> None:
    # CODE-95
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("t", Body({"n": 1}), presentation_meta=lambda _a, _v: {"secret": 1}))

        async def post(review: Any, next: Any) -> Any:
            return Accept(value={"n": 2}) if review.execution.parent is not None else await next()

        ctx.on("tools/post-execute", post)
        runtime.script = lambda program: program.call("t")
        result = await run_code(ctx)
        assert result.value == {"logs": [], "result": {"n": 2}}


async def test_failures_reject_with_the_message_alone() -> None:
    # CODE-96
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("throws", Body(ToolError("deliberate failure"))))
        ctx.tools.register(make_tool("denied"))
        ctx.tools.register(make_tool("guarded"))
        ctx.tools.register(make_tool("blocked"))
        ctx.tools.register(
            make_tool("strict", parameters={"type": "object", "required": ["x"], "properties": {"x": {}}})
        )

        async def pre(execution: Any, next: Any) -> Any:
            return Deny("not today") if execution.name == "denied" else await next()

        async def post(review: Any, next: Any) -> Any:
            return Block([TextBlock("try later")]) if review.execution.name == "blocked" else await next()

        ctx.on("tools/pre-execute", pre)
        ctx.on("tools/post-execute", post)
        ctx.tools.guard(lambda execution: "guard says no" if execution.name == "guarded" else None)

        async def script(program: Program) -> list[str]:
            return [await program.error_of(name) for name in ("throws", "denied", "guarded", "blocked", "strict")]

        runtime.script = script
        *messages, invalid = (await run_code(ctx)).value["result"]
        assert messages == ["deliberate failure", "not today", "guard says no", "try later"]
        assert invalid.startswith("invalid arguments: ")


async def test_identity_of_sub_calls() -> None:
    # CODE-28, 98, 99
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("t"))
        seen: list[Any] = []
        ctx.on("tools/pre-execute", lambda execution, next: seen.append(execution) or next())
        caller = ctx.create_scope("agent")
        controller = AbortController()

        async def script(program: Program) -> None:
            await program.call("t", {"x": 1})
            await program.call("t", {"x": 2})

        runtime.script = script
        await run_code(ctx, agent=caller, root_call_id="root", signal=controller.signal)
        outer, first, second = seen
        assert [first.call_id, second.call_id] == ["outer:code:1", "outer:code:2"]
        for sub in (first, second):
            assert sub.root_call_id == "root"
            assert sub.agent is caller
            assert sub.parent is outer.token
            assert sub.signal is runtime.requests[0].signal is not controller.signal
        assert first.arguments == {"x": 1}
        # Correlation only: the token leads nowhere.
        assert "outer" not in repr(first.parent)


@pytest.mark.parametrize("arguments", [{1, 2}, {"a": float("nan")}, {"a": -0.0}, {1: 2}, object()])
async def test_lossy_arguments_consume_no_number_and_log_nothing(arguments: Any) -> None:
    # CODE-89, 90
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("t", Body(lambda _a, run: run.call_id)))

        async def script(program: Program) -> Any:
            message = await program.error_of("t", arguments)
            assert message.startswith("tool arguments must be lossless JSON: ")
            assert "arguments object" in message
            return await program.call("t")

        runtime.script = script
        assert (await run_code(ctx)).value["result"] == "outer:code:1"


@pytest.mark.parametrize("arguments", ["text", '{"x": 1}', "", [1], 5])
async def test_arguments_are_values_and_never_text_to_parse(arguments: Any) -> None:
    # CODE-84
    async with code_app() as (ctx, runtime):
        body = Body()
        ctx.tools.register(make_tool("t", body, validate_arguments=False))
        runtime.script = lambda program: program.call("t", arguments)
        assert not (await run_code(ctx)).is_error
        assert body.calls == [arguments]


async def test_null_is_not_an_object() -> None:
    # CODE-84, 96
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("t"))
        runtime.script = lambda program: program.functions["t"](None)
        assert "invalid arguments" in text_of(await run_code(ctx))


async def test_arguments_are_frozen_copies() -> None:
    # CODE-92
    async with code_app() as (ctx, runtime):
        seen: list[Any] = []

        async def body(args: Any, run: Any) -> str:
            with pytest.raises(TypeError, match="frozen"):
                args["list"].append(3)
            seen.append(args)
            return "ok"

        ctx.tools.register(make_tool("t", body))
        mine = {"list": [1, 2]}

        async def script(program: Program) -> Any:
            call = program.call("t", mine)
            mine["list"].append("later")
            return await call

        runtime.script = script
        assert (await run_code(ctx)).value["result"] == "ok"
        assert seen == [{"list": [1, 2]}]


async def test_a_tool_that_goes_is_unknown_and_no_policy_looks() -> None:
    # CODE-97
    async with code_app() as (ctx, runtime):
        body = Body()
        remove = ctx.tools.register(make_tool("ephemeral", body))
        looked: list[str] = []
        results: list[str] = []
        ctx.on("tools/pre-execute", lambda execution, next: looked.append(execution.name) or next())
        ctx.on("tools/post-execute", lambda review, next: looked.append(review.execution.name) or next())
        ctx.on("tools/result", lambda execution, _result: results.append(execution.name))

        async def script(program: Program) -> str:
            remove()
            return await program.error_of("ephemeral")

        runtime.script = script
        assert (await run_code(ctx)).value["result"] == 'unknown tool "ephemeral"'
        assert body.calls == []
        assert "ephemeral" not in looked
        assert results == ["ephemeral", "run_code"]


async def test_starts_in_order_and_modes_asked_before_each_start() -> None:
    # CODE-100
    async with code_app() as (ctx, runtime):
        bench = Bench(ctx)
        answers: dict[str, Any] = {"yes": lambda _a: True, "no": lambda _a: False, "odd": lambda _a: 1}
        for name, answer in answers.items():
            ctx.tools.register(make_tool(name, bench.body, is_concurrency_safe=answer))

        def broken(_args: Any) -> bool:
            raise RuntimeError("cannot tell")

        ctx.tools.register(make_tool("broken", bench.body, is_concurrency_safe=broken))

        async def script(program: Program) -> None:
            names = ["yes", "yes", "no", "odd", "broken", "yes"]
            await asyncio.gather(*(program.call(name, {"tag": str(i), "ms": 5}) for i, name in enumerate(names)))

        runtime.script = script
        assert not (await run_code(ctx)).is_error
        assert [event for event in bench.events if event.startswith("begin")] == [f"begin {i}" for i in range(6)]
        alone = [bench.events.index(f"begin {tag}") + 1 for tag in "234"]
        assert [bench.events[index] for index in alone] == ["end 2", "end 3", "end 4"]
        assert bench.most == 2


@pytest.mark.parametrize(("most", "seen"), [(1, 1), (3, 3), (10, 6)])
async def test_bodies_overlap_up_to_the_limit(most: int, seen: int) -> None:
    # CODE-1, 101
    async with code_app(max_parallel_sub_calls=most) as (ctx, runtime):
        bench = Bench(ctx)
        runtime.script = three(bench, "par", *[10] * 6)
        assert (await run_code(ctx)).value["result"] == list("abcdef")
        assert bench.most == seen


async def test_policy_of_one_call_at_a_time() -> None:
    # CODE-101
    async with code_app() as (ctx, runtime):
        bench = Bench(ctx)

        async def pre(execution: Any, next: Any) -> Any:
            tag = execution.arguments.get("tag")
            bench.events.append(f"pre {tag}")
            await asyncio.sleep(0.005)
            bench.events.append(f"decided {tag}")
            return await next()

        ctx.on("tools/pre-execute", pre)
        runtime.script = three(bench, "par", 60, 20)
        await run_code(ctx)
        policy = [event for event in bench.events if event.split()[0] in ("pre", "decided")]
        assert policy[2:] == ["pre a", "decided a", "pre b", "decided b"]
        assert bench.events.index("begin a") < bench.events.index("decided b") < bench.events.index("end a")


async def test_an_exclusive_call_holds_the_rest_until_its_commit() -> None:
    # CODE-102
    async with code_app() as (ctx, runtime):
        bench = Bench(ctx)

        async def post(review: Any, next: Any) -> Any:
            await asyncio.sleep(0.01)
            bench.events.append(f"reviewed {review.execution.arguments.get('tag')}")
            return await next()

        ctx.on("tools/post-execute", post)

        async def script(program: Program) -> None:
            calls = [("par", "a"), ("exc", "x"), ("par", "b")]
            await asyncio.gather(*(program.call(name, {"tag": tag, "ms": 5}) for name, tag in calls))

        runtime.script = script
        await run_code(ctx)
        order = [event for event in bench.events if not event.startswith("reviewed None")]
        assert order == [
            "begin a",
            "end a",
            "reviewed a",
            "begin x",
            "end x",
            "reviewed x",
            "begin b",
            "end b",
            "reviewed b",
        ]


async def test_answers_come_in_submission_order() -> None:
    # CODE-103: what finished first waits for what was submitted first
    async with code_app() as (ctx, runtime):
        bench = Bench(ctx)
        runtime.script = three(bench, "par", 30, 1)
        await run_code(ctx)
        assert bench.events.index("end b") < bench.events.index("end a")
        assert [event for event in bench.events if event.startswith("answer")] == ["answer a", "answer b"]


async def test_a_finished_body_frees_its_place() -> None:
    # CODE-104
    async with code_app(max_parallel_sub_calls=2) as (ctx, runtime):
        bench = Bench(ctx)
        runtime.script = three(bench, "par", 60, 5, 5)
        await run_code(ctx)
        assert bench.most == 2
        assert bench.events.index("end b") < bench.events.index("begin c") < bench.events.index("end a")
        assert bench.events.index("answer a") < bench.events.index("answer b")


async def test_tools_that_say_nothing_run_one_at_a_time() -> None:
    # CODE-105
    async with code_app() as (ctx, runtime):
        bench = Bench(ctx)
        runtime.script = three(bench, "exc", 5, 1, 1)
        await run_code(ctx)
        assert bench.most == 1
        bodies = [event for event in bench.events if not event.startswith("answer")]
        assert bodies == ["begin a", "end a", "begin b", "end b", "begin c", "end c"]


async def test_images_become_a_message_for_the_outer_call() -> None:
    # CODE-112, 113
    async with code_app() as (ctx, runtime):
        picture = (TextBlock("a picture"), IMAGE)

        async def body(args: Any, run: Any) -> str:
            run.defer_context(f"note {args['n']}")
            return "value"

        ctx.tools.register(make_tool("shot", body, render=lambda _a, _v: picture))
        ctx.tools.register(make_tool("plain", body))
        ctx.tools.register(make_tool("fails", Body(lambda _a, run: run.defer_context("of a failure") or 1 / 0)))

        async def script(program: Program) -> str:
            await program.call("shot", {"n": 1})
            await program.call("plain", {"n": 2})
            await program.error_of("fails")
            return "done"

        runtime.script = script
        result = await run_code(ctx)
        contexts = result.additional_contexts
        assert [context.content for context in contexts] == [
            picture,
            (TextBlock("note 1"),),
            (TextBlock("note 2"),),
            (TextBlock("of a failure"),),
        ]
        assert contexts[0].source == MessageSource("plugin", plugin="tools-code-mode")
        assert text_of(result) == "done"


async def test_contexts_survive_a_failed_program_and_not_a_block() -> None:
    # CODE-113
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("t", Body(lambda _a, run: run.defer_context("kept") or "ok")))

        async def script(program: Program) -> None:
            await program.call("t")
            raise ValueError("later")

        runtime.script = script
        failed = await run_code(ctx)
        assert failed.is_error
        assert [text_of(context) for context in failed.additional_contexts] == ["kept"]

        async def post(review: Any, next: Any) -> Any:
            return Block([TextBlock("no")]) if review.execution.name == "run_code" else await next()

        ctx.on("tools/post-execute", post)
        assert not (await run_code(ctx)).additional_contexts


async def test_an_image_that_policy_took_away_is_not_deferred() -> None:
    # CODE-112
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("shot", render=lambda _a, _v: (IMAGE,)))
        decisions = iter([Accept(content=[TextBlock("gone")]), Block([TextBlock("blocked")])])

        async def post(review: Any, next: Any) -> Any:
            return next_decision(review) or await next()

        def next_decision(review: Any) -> Any:
            return next(decisions) if review.execution.name == "shot" else None

        ctx.on("tools/post-execute", post)

        async def script(program: Program) -> None:
            await program.call("shot")
            await program.error_of("shot")

        runtime.script = script
        assert not (await run_code(ctx)).additional_contexts


@pytest.mark.parametrize(
    ("blocked", "fails", "concludes"), [(False, False, True), (True, False, False), (False, True, False)]
)
async def test_a_concluding_call_concludes_the_outer_one(blocked: bool, fails: bool, concludes: bool) -> None:
    # CODE-114
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("last", Body(lambda _a, run: run.conclude_turn() or "bye")))

        async def post(review: Any, next: Any) -> Any:
            return Block([TextBlock("no")]) if blocked and review.execution.name == "last" else await next()

        ctx.on("tools/post-execute", post)

        async def script(program: Program) -> None:
            if blocked:
                await program.error_of("last")
            else:
                await program.call("last")
            if fails:
                raise ValueError("after all")

        runtime.script = script
        result = await run_code(ctx)
        assert result.is_error is fails
        assert (getattr(result, "concludes_turn", None) is True) is concludes


async def test_the_run_is_aborted_when_it_settles_and_drained() -> None:
    # CODE-115, 116, 117, 119
    async with code_app() as (ctx, runtime):
        reasons: list[Any] = []
        ended = asyncio.Event()

        async def waits(args: Any, run: Any) -> str:
            try:
                await run.signal.wait()
                reasons.append(run.signal.reason)
                await asyncio.sleep(60)
            finally:
                ended.set()
            return "too late"

        ctx.tools.register(make_tool("waits", waits))
        ctx.tools.register(make_tool("next"))
        settled: list[tuple[str, bool]] = []
        ctx.on("tools/result", lambda execution, result: settled.append((execution.call_id, result.is_error)))
        floating: list[Any] = []

        async def script(program: Program) -> str:
            floating.append(program.call("waits"))
            floating.append(program.call("next"))
            await asyncio.sleep(0.01)
            floating.append(program.functions["next"])
            return "done"

        runtime.script = script
        result = await run_code(ctx)
        assert result.value == {"logs": [], "result": "done"}
        assert reasons == ["run_code settled"]
        assert ended.is_set()
        assert settled == [("outer:code:1", True), ("outer", False)]
        in_flight, queued, function = floating
        assert str(in_flight.exception()) == "run_code run is over (run_code settled); waits result discarded"
        assert str(queued.exception()) == "run_code run is over (run_code settled); next tool call abandoned"
        with pytest.raises(Exception) as refused:
            await function({})
        assert str(refused.value) == "run_code run is over (run_code settled); next not dispatched"


async def test_a_call_in_post_execute_when_the_program_returns_is_aborted() -> None:
    # CODE-119
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("t"))
        reviewing = asyncio.Event()
        results: list[Any] = []

        async def post(review: Any, next: Any) -> Any:
            if review.execution.name == "t":
                reviewing.set()
                await asyncio.sleep(0.03)
            return await next()

        ctx.on("tools/post-execute", post)
        ctx.on("tools/result", lambda _execution, result: results.append(result))

        async def script(program: Program) -> int:
            program.call("t")
            await reviewing.wait()
            return 1

        runtime.script = script
        outer = await run_code(ctx)
        assert outer.value["result"] == 1
        assert text_of(results[0]) == "Error: tool call aborted"
        assert results[1] is outer


async def test_an_uncooperative_tool_delays_the_return() -> None:
    # CODE-117
    async with code_app() as (ctx, runtime):
        ended: list[str] = []

        async def stubborn(args: Any, run: Any) -> str:
            for _ in range(5):
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    ended.append("cancelled")
            ended.append("ended")
            return "ok"

        ctx.tools.register(make_tool("stubborn", stubborn))

        async def script(program: Program) -> None:
            program.call("stubborn")
            await asyncio.sleep(0.005)

        runtime.script = script
        assert not (await run_code(ctx)).is_error
        assert ended == ["cancelled", "ended"]


async def test_a_runtime_that_fails_is_an_error_after_the_drain() -> None:
    # CODE-118
    async with code_app() as (ctx, runtime):
        bench = Bench(ctx)

        class Broken:
            language = "typescript"
            isolation = "none"

            async def run(self, request: Any) -> Any:
                request.bindings[0].functions["par"]({"tag": "a", "ms": 60_000})
                await asyncio.sleep(0.01)
                raise RuntimeError("backend is gone")

        runtime.run = Broken().run  # type: ignore[method-assign]
        result = await run_code(ctx)
        assert text_of(result) == "Error: backend is gone"
        assert bench.events == ["begin a", "end a"]


async def test_an_outer_abort_reaches_program_and_calls() -> None:
    # CODE-115, 120
    async with code_app() as (ctx, runtime):
        bench = Bench(ctx)
        controller = AbortController()
        reasons: list[Any] = []

        async def script(program: Program) -> CodeRunResult:
            call = program.call("par", {"tag": "a", "ms": 60_000})
            await program.signal.wait()
            reasons.append(program.signal.reason)
            message = ""
            try:
                await call
            except Exception as error:
                message = str(error)
            return CodeRunResult(["so far"], error=CodeRunError("abort", f"user stopped; {message}"))

        runtime.script = script
        asyncio.get_running_loop().call_later(0.02, controller.abort, "user stopped")
        result = await run_code(ctx, signal=controller.signal)
        assert reasons == ["user stopped"]
        assert text_of(result) == (
            "Error: code run failed (abort): user stopped; run_code run is over (user stopped); par result discarded\n"
            "Captured output:\nso far"
        )
        assert result.error.info.code == "CODE_RUN_FAILED"
        assert bench.events == ["begin a", "end a"]


async def test_a_success_of_an_aborted_run_is_an_aborted_call() -> None:
    # CODE-120
    async with code_app() as (ctx, runtime):
        controller = AbortController()

        async def script(program: Program) -> int:
            controller.abort("stop")
            return 1

        runtime.script = script
        result = await run_code(ctx, signal=controller.signal)
        assert text_of(result) == "Error: tool call aborted"
        assert result.error.info.code == "ABORTED"


@pytest.mark.parametrize("cancels", [1, 3])
async def test_a_native_cancellation_is_an_abort_and_leaves_nothing(cancels: int) -> None:
    # CODE-117, D30
    async with code_app() as (ctx, runtime):
        bench = Bench(ctx)
        results: list[Any] = []
        ctx.on("tools/result", lambda execution, result: results.append((execution.call_id, result)))

        async def script(program: Program) -> CodeRunResult:
            program.call("par", {"tag": "a", "ms": 60_000})
            await program.signal.wait()
            await asyncio.sleep(0.02)
            return CodeRunResult([], error=CodeRunError("abort", str(program.signal.reason)))

        runtime.script = script
        task = asyncio.create_task(run_code(ctx))
        await asyncio.sleep(0.01)
        for _ in range(cancels):
            task.cancel()
            await asyncio.sleep(0.002)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bench.events == ["begin a", "end a"]
        assert [call_id for call_id, _ in results] == ["outer:code:1", "outer"]
        assert text_of(results[1][1]) == "Error: code run failed (abort): cancelled"


async def test_no_program_inside_a_program() -> None:
    # CODE-20
    async with code_app() as (ctx, runtime):
        inner: list[str] = []

        async def proxy(args: Any, run: Any) -> str:
            call = ToolCall(
                args["name"], args.get("args", {}), call_id="nested", agent=run.agent, parent=args.get("t") or run.token
            )
            return text_of(await ctx.tools.execute(call))

        async def careless(args: Any, run: Any) -> str:
            return text_of(await ctx.tools.execute(ToolCall("run_code", {"code": "inner"}, call_id="nested")))

        ctx.tools.register(make_tool("call_tool", proxy))
        ctx.tools.register(make_tool("careless", careless))

        async def script(program: Program) -> Any:
            if program.request.program == "inner":
                inner.append("reached")
                return None
            assert "run_code" not in program.functions
            first = await program.call("call_tool", {"name": "run_code", "args": {"code": "inner"}})
            return [first, await program.call("careless")]

        runtime.script = script
        result = await run_code(ctx, "outer")
        assert inner == []
        assert (
            result.value["result"]
            == ["Error: run_code cannot be called by a program, nor by a tool that a program calls"] * 2
        )


async def test_another_agent_that_a_call_has_started_may_run_programs() -> None:
    # CODE-20
    async with code_app() as (ctx, runtime):
        child = ctx.create_scope("child")

        async def delegate(args: Any, run: Any) -> str:
            return text_of(await run_code(ctx, "inner", agent=child))

        ctx.tools.register(make_tool("delegate", delegate))

        async def script(program: Program) -> Any:
            return "child" if program.request.program == "inner" else await program.call("delegate")

        runtime.script = script
        assert (await run_code(ctx, "outer", agent=ctx.create_scope("parent"))).value["result"] == "child"


async def test_programs_of_one_agent_run_side_by_side_and_one_after_another() -> None:
    # CODE-20: what is refused is a program inside a program
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("t", is_concurrency_safe=lambda _a: True))
        runtime.script = lambda program: program.call("t")
        results = await asyncio.gather(*(run_code(ctx, call_id=f"c{i}") for i in range(5)))
        assert [result.value["result"] for result in results] == ["ok"] * 5


async def test_ten_thousand_calls() -> None:
    # CODE-98, 103; HOST-169
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("echo", Body(lambda args, _run: args["x"]), is_concurrency_safe=lambda _a: True))

        async def script(program: Program) -> bool:
            together = await asyncio.gather(*(program.call("echo", {"x": x}) for x in range(5000)))
            in_turn = [await program.call("echo", {"x": x}) for x in range(5000)]
            return together == in_turn == list(range(5000))

        runtime.script = script
        assert (await run_code(ctx)).value["result"] is True


async def test_a_failing_context_message_is_the_same_for_all_runs() -> None:
    # CODE-113, HOST-169: contexts that tools made themselves keep their source
    async with code_app() as (ctx, runtime):
        own = UserMessage((TextBlock("from a job"),), MessageSource("job"))
        ctx.tools.register(make_tool("t", Body(lambda _a, run: run.defer_context(own) or "ok")))
        runtime.script = lambda program: program.call("t")
        assert (await run_code(ctx)).additional_contexts == (own,)
