"""Wrappers, output checks, review, contexts, finalizers and observers: PIPE sections N to S."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from tests.support.calls import (
    ABORTED_AFTER,
    UNKNOWN,
    Body,
    Recorder,
    app,
    error,
    make_tool,
    run,
    text_of,
)

from dsh_tools.content import ImageBlock, JsonBlock, TextBlock, text
from dsh_tools.errors import HarnessError
from dsh_tools.kernel import AbortController, AbortSignal
from dsh_tools.messages import MessageSource, UserMessage
from dsh_tools.tools import (
    Accept,
    Block,
    ErrorDetail,
    ErrorInfo,
    ToolCall,
    ToolFailure,
    ToolSuccess,
    define_tool,
)

INT = {"type": "integer"}
OUT = ErrorInfo("ToolOutputError", "INVALID_TOOL_OUTPUT")


def out(*violations: str) -> ToolFailure:
    return error('tool "t" returned invalid output: ' + "; ".join(violations), OUT)


def context(words: str) -> UserMessage:
    return UserMessage(text(words), MessageSource("plugin", plugin="test"))


def words_of(result: Any) -> list[str] | None:
    contexts = result.additional_contexts
    return None if contexts is UNSET else [message.content[0].text for message in contexts]


def wrapping(change: Any) -> Any:
    async def listener(execution: Any, next: Any) -> Any:
        return change(await next())

    return listener


def answering(result: Any) -> Any:
    async def listener(execution: Any, next: Any) -> Any:
        return result

    return listener


def deciding(decision: Any) -> Any:
    async def listener(review: Any, next: Any) -> Any:
        return decision

    return listener


# ── N. Wrappers and the body ───────────────────────────────────────────────────


async def test_next_gives_a_frozen_result_never_an_exception() -> None:
    # PIPE-129, 130, 131
    async with app() as ctx:
        ctx.tools.register(make_tool("good", Body({"a": [1]})))
        ctx.tools.register(make_tool("bad", Body(HarnessError("x", "X"))))
        seen: list[Any] = []
        ctx.on("tools/execute", wrapping(lambda result: seen.append(result) or result))
        reviewed: list[Any] = []

        async def post(review: Any, next: Any) -> Any:
            reviewed.append(review.result)
            return await next()

        ctx.on("tools/post-execute", post)
        good, bad = await run(ctx, "good"), await run(ctx, "bad")
        assert seen == [good, bad] == reviewed
        with pytest.raises(TypeError):
            seen[0].value["a"].append(2)
        assert bad == error("x", ErrorInfo("HarnessError", "X"))


async def test_a_synchronous_throw_is_a_failure_like_any_other() -> None:
    # PIPE-131
    def body(args: Any, execution: Any) -> Any:
        raise ValueError("at once")

    async with app() as ctx:
        ctx.tools.register(make_tool(execute=body))
        assert await run(ctx) == error("at once")


async def test_a_wrapper_may_answer_instead_of_the_body() -> None:
    # PIPE-132
    async with app() as ctx:
        body = Body(1)
        ctx.tools.register(make_tool(execute=body, schema=INT))
        ctx.on("tools/execute", answering(ToolSuccess(7, ())))
        result = await run(ctx)
        assert (result.value, text_of(result), body.calls) == (7, "7", [])  # type: ignore[union-attr]


async def test_an_own_result_passes_untouched_and_a_copy_is_made_anew() -> None:
    # PIPE-134, 135
    async with app() as ctx:
        renders: list[Any] = []

        def render(args: Any, value: Any) -> Any:
            renders.append(value)
            return text(f"rendered {value}")

        meta = lambda _args, value: {"doubled": value * 2}  # noqa: E731
        ctx.tools.register(make_tool(execute=Body(1), schema=INT, render=render, presentation_meta=meta))
        same: list[Any] = []
        remove = ctx.on("tools/execute", wrapping(lambda result: same.append(result) or result))
        assert await run(ctx) is same[0]
        assert renders == [1]
        remove()
        changed = lambda result: msgspec.structs.replace(  # noqa: E731
            result,
            content=text("mine"),
            meta="mine",
            concludes_turn=True,
            additional_contexts=(context("kept"),),
        )
        ctx.on("tools/execute", wrapping(changed))
        result = await run(ctx)
        assert isinstance(result, ToolSuccess)
        assert text_of(result) == "rendered 1"
        assert renders == [1, 1, 1]
        assert result.meta == {"doubled": 2}
        assert result.concludes_turn is UNSET
        assert words_of(result) == ["kept"]


async def test_a_wrappers_failure_keeps_its_parts_unchecked_by_the_schema() -> None:
    # PIPE-136
    async with app() as ctx:
        ctx.tools.register(make_tool(schema=INT, execute=Body(1)))
        authored = ToolFailure(ErrorDetail("mine", ErrorInfo("N", "C")), text("shown"), {"m": 1}, (context("kept"),))
        ctx.on("tools/execute", answering(authored))
        assert await run(ctx) == authored


async def test_a_result_of_another_call_is_foreign() -> None:
    # PIPE-137
    async with app() as ctx:
        ctx.tools.register(make_tool("other", Body("text")))
        body = Body({"a": 1})
        ctx.tools.register(make_tool(execute=body, schema={"type": "object"}))
        cached = await run(ctx, "other")
        ctx.on("tools/execute", answering(cached))
        assert await run(ctx) == out('"value" must be an object')
        assert body.calls == []


async def test_who_made_the_bad_value_decides_about_the_review() -> None:
    # PIPE-138
    async with app() as ctx:
        ctx.tools.register(make_tool(execute=Body("x"), schema=INT))
        recorder = Recorder(ctx)
        assert await run(ctx) == out('"value" must be an integer')
        assert recorder.seen == ["pre", "around", "post", "result"]
        recorder.seen.clear()
        ctx.on("tools/execute", answering(ToolSuccess("y", ())))
        assert await run(ctx) == out('"value" must be an integer')
        assert recorder.seen == ["pre", "around", "result"]


@pytest.mark.parametrize("answer", [None, {}, "ok", 5])
async def test_a_wrapper_answers_with_a_result(answer: Any) -> None:
    # PIPE-139 by D37
    async with app() as ctx:
        ctx.tools.register(make_tool())

        async def outer(_execution: Any, next: Any) -> Any:
            return await next()

        async def culprit(_execution: Any, next: Any) -> Any:
            return answer

        ctx.on("tools/execute", outer)
        ctx.on("tools/execute", culprit)
        recorder = Recorder(ctx)
        result = await run(ctx)
        assert result.is_error
        assert "culprit" in result.error.message
        assert "returned an invalid tools/execute result: expected ToolSuccess or ToolFailure" in result.error.message
        assert "post" not in recorder.seen


async def test_a_wrappers_failure_with_an_odd_code_is_the_authors_fault() -> None:
    # PIPE-136, D37
    async with app() as ctx:
        ctx.tools.register(make_tool())
        detail = ErrorDetail("mine", ErrorInfo("N", 5))  # type: ignore[arg-type]
        ctx.on("tools/execute", answering(ToolFailure(detail, text("x"))))
        assert "error.info must be an ErrorInfo of strings" in text_of(await run(ctx))


async def test_a_wrappers_failure_without_an_error_is_the_authors_fault() -> None:
    # PIPE-140 by D37: records are typed, so only a lie about the type gets here
    async with app() as ctx:
        ctx.tools.register(make_tool())
        ctx.on("tools/execute", answering(ToolFailure(None, text("x"))))  # type: ignore[arg-type]
        result = await run(ctx)
        assert result.error.info.code == "INVALID_LISTENER_RESULT"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("content", "text", "content must be a list of content blocks"),
        ("additional_contexts", ["text"], "additional_contexts must be a list of UserMessage"),
    ],
)
async def test_a_wrappers_content_and_contexts_are_checked(field: str, value: Any, says: str) -> None:
    # PIPE-154, 168 by D37
    async with app() as ctx:
        ctx.tools.register(make_tool(execute=Body(ValueError("x"))))
        ctx.on("tools/execute", wrapping(lambda result: msgspec.structs.replace(result, **{field: value})))
        assert says in text_of(await run(ctx))


async def test_a_wrappers_success_for_a_tool_that_is_gone() -> None:
    # PIPE-141
    async with app() as ctx:
        dispose = ctx.tools.register(make_tool())
        recorder = Recorder(ctx)

        async def wrapper(_execution: Any, next: Any) -> Any:
            dispose()
            return ToolSuccess("x", ())

        ctx.on("tools/execute", wrapper)
        assert await run(ctx) == error('unknown tool "t"', UNKNOWN)
        assert "post" not in recorder.seen


async def test_a_wrapper_that_raises_loses_the_contexts() -> None:
    # PIPE-142, 229
    async with app() as ctx:
        ctx.tools.register(make_tool(execute=Body(lambda _a, execution: execution.defer_context("lost") or "ok")))
        recorder = Recorder(ctx)

        async def wrapper(_execution: Any, next: Any) -> Any:
            await next()
            raise HarnessError("broken", "BROKEN")

        ctx.on("tools/execute", wrapper)
        assert await run(ctx) == error("broken", ErrorInfo("HarnessError", "BROKEN"))
        assert "post" not in recorder.seen


async def test_the_body_gets_the_callers_own_signal_or_a_fused_one() -> None:
    # PIPE-143 to 146
    async with app() as ctx:
        signals: list[AbortSignal] = []
        caller, mine = AbortController(), AbortController()
        ctx.tools.register(make_tool(execute=Body(lambda _a, execution: signals.append(execution.signal) or "ok")))
        recorder = Recorder(ctx)
        await run(ctx, signal=caller.signal)
        assert signals == [caller.signal]
        after: list[AbortSignal] = []

        async def forgetful(execution: Any, next: Any) -> Any:
            execution.signal = mine.signal
            result = await next()
            after.append(execution.signal)
            return result

        ctx.on("tools/execute", forgetful)
        await run(ctx, signal=caller.signal)
        fused = signals[1]
        assert fused not in (caller.signal, mine.signal)
        assert after == [mine.signal]
        assert recorder.executions[1].signal is mine.signal  # PIPE-145
        assert (caller.signal.callback_count, mine.signal.callback_count) == (0, 0)
        caller.abort("reason")
        assert not mine.signal.aborted
        assert not fused.aborted  # detached with the body's end


async def test_a_fused_signal_forwards_the_reason() -> None:
    # PIPE-143, 148
    async with app() as ctx:
        mine = AbortController()
        reasons: list[Any] = []

        async def body(args: Any, execution: Any) -> str:
            mine.abort("deadline")
            reasons.append(execution.signal.reason)
            return "late"

        async def wrapper(execution: Any, next: Any) -> Any:
            execution.signal = mine.signal
            return await next()

        ctx.tools.register(make_tool(execute=body))
        ctx.on("tools/execute", wrapper)
        assert await run(ctx, signal=AbortController().signal) == ABORTED_AFTER
        assert reasons == ["deadline"]
        # PIPE-147: fired already, the body is not even entered
        reasons.clear()
        result = await run(ctx, signal=AbortController().signal)
        assert result.error.info.code == "ABORTED_BEFORE_DISPATCH"  # type: ignore[union-attr]
        assert reasons == []


# ── O. Output ──────────────────────────────────────────────────────────────────


async def test_the_value_is_copied_checked_frozen_and_rendered() -> None:
    # PIPE-149
    async with app() as ctx:
        returned = {"a": [1]}
        seen: list[Any] = []

        def render(args: Any, value: Any) -> Any:
            seen.append(value)
            return [{"type": "text", "text": "as JSON"}, JsonBlock({"x": [1]}), ImageBlock("aGk=", "image/png")]

        ctx.tools.register(make_tool(execute=Body(returned), schema={"type": "object"}, render=render))
        result = await run(ctx)
        assert isinstance(result, ToolSuccess)
        returned["a"].append(2)
        assert result.value == {"a": [1]}
        assert seen[0] is result.value
        assert result.content[0] == TextBlock("as JSON")
        with pytest.raises(TypeError):
            result.content[1].value["x"].append(2)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fields", "first", "hint"),
    [
        ({"execute": Body({"m": float("nan")})}, "value is not lossless JSON", "m:"),
        ({"execute": Body({"a": {1}})}, "value is not lossless JSON", "a:"),
        ({"execute": Body("x"), "schema": INT}, '"value" must be an integer', ""),
        ({"render": lambda *_: 1 / 0}, "output.render failed: division by zero", ""),
        (
            {"render": lambda *_: [JsonBlock({1, 2})]},
            "output.render returned non-lossless JSON",
            "value: set is not a JSON value",
        ),
        ({"presentation_meta": lambda *_: 1 / 0}, "output.presentationMeta failed: division by zero", ""),
        ({"presentation_meta": lambda *_: {1}}, "output.presentationMeta returned non-lossless JSON", "value:"),
        ({"presentation_meta": lambda *_: UNSET}, "output.presentationMeta returned non-lossless JSON", "value:"),
    ],
)
async def test_what_is_wrong_with_an_output(fields: dict[str, Any], first: str, hint: str) -> None:
    # PIPE-150, 222
    async with app() as ctx:
        ctx.tools.register(make_tool(**fields))
        result = await run(ctx)
        assert isinstance(result, ToolFailure)
        assert result.error.info == OUT
        head, _, rest = result.error.message.partition("\n")
        assert head == f'tool "t" returned invalid output: {first}'
        assert rest.startswith(hint)


async def test_returning_nothing_is_null_and_the_schema_decides() -> None:
    # PIPE-151: Python's nothing is None, which is null
    async def nothing(args: Any, execution: Any) -> None: ...

    async with app() as ctx:
        ctx.tools.register(make_tool(execute=nothing, schema=INT))
        ctx.tools.register(make_tool("null", nothing, schema={"type": "null"}))
        assert await run(ctx) == out('"value" must be an integer')
        assert (await run(ctx, "null")).value is None  # type: ignore[union-attr]


async def test_meta_may_be_null_and_is_absent_without_a_projector() -> None:
    # PIPE-152, 182
    async with app() as ctx:
        ctx.tools.register(make_tool("none"))
        ctx.tools.register(make_tool("null", presentation_meta=lambda *_: None))
        assert (await run(ctx, "none")).meta is UNSET
        assert (await run(ctx, "null")).meta is None
        wire = msgspec.json.decode(msgspec.json.encode(await run(ctx, "none")))
        assert wire == {"isError": False, "value": "ok", "content": [{"type": "text", "text": "ok"}]}
        wire = msgspec.to_builtins(await run(ctx, "nobody"))
        assert set(wire) == {"isError", "error", "content"}


@pytest.mark.parametrize("rendered", ["text", 5, None, {"type": "text"}, [{"type": "moon"}], [5]])
async def test_a_renderer_returns_a_list_of_blocks(rendered: Any) -> None:
    # PIPE-154 by D21, D37
    async with app() as ctx:
        ctx.tools.register(make_tool(render=lambda *_: rendered))
        recorder = Recorder(ctx)
        result = await run(ctx)
        assert result.error.info.code == "INVALID_LISTENER_RESULT"  # type: ignore[union-attr]
        assert 'listener "t.output.render" returned an invalid render result' in text_of(result)
        assert "post" not in recorder.seen


async def test_meta_is_left_out_of_nested_calls() -> None:
    # PIPE-155
    async with app() as ctx:
        nested: list[Any] = []

        async def outer(args: Any, execution: Any) -> str:
            nested.append(await ctx.tools.execute(ToolCall("t", {}, parent=execution.token)))
            return "ok"

        ctx.tools.register(make_tool(presentation_meta=lambda *_: {"m": 1}))
        ctx.tools.register(make_tool("outer", outer))
        await run(ctx, "outer")
        assert nested[0].meta is UNSET
        assert nested[0].value == "ok"


async def test_a_bad_value_beats_a_cancellation() -> None:
    # PIPE-156
    async with app() as ctx:
        controller = AbortController()
        ctx.tools.register(make_tool(execute=Body(lambda *_: controller.abort() or "x"), schema=INT))
        assert await run(ctx, signal=controller.signal) == out('"value" must be an integer')


# ── P. Review ──────────────────────────────────────────────────────────────────


async def reviewed(decision: Any, **fields: Any) -> Any:
    async with app() as ctx:
        ctx.tools.register(make_tool(**fields))
        ctx.on("tools/post-execute", deciding(decision))
        return await run(ctx)


async def test_accepting_keeps_or_changes_the_content_only() -> None:
    # PIPE-157
    fields: dict[str, Any] = {
        "execute": Body(lambda _a, execution: execution.conclude_turn() or 1),
        "presentation_meta": lambda *_: {"m": 1},
    }
    kept = await reviewed(Accept(), **fields)
    changed = await reviewed(Accept(content=text("other")), **fields)
    assert changed == msgspec.structs.replace(kept, content=text("other"))
    assert (changed.value, changed.meta, changed.concludes_turn) == (1, {"m": 1}, True)
    failed = await reviewed(Accept(content=text("gently")), execute=Body(ValueError("hard")))
    assert (failed.error.message, text_of(failed)) == ("hard", "gently")


async def test_a_replaced_value_is_checked_and_rendered_anew() -> None:
    # PIPE-158, 173
    fields: dict[str, Any] = {
        "execute": Body(lambda _a, execution: execution.conclude_turn() or execution.defer_context("kept") or 1),
        "schema": INT,
        "presentation_meta": lambda _a, value: {"m": value},
    }
    result = await reviewed(Accept(value=2, additional_contexts=[context("added")]), **fields)
    assert (result.value, text_of(result), result.meta, result.concludes_turn) == (2, "2", {"m": 2}, True)
    assert words_of(result) == ["kept", "added"]
    assert await reviewed(Accept(value="x"), **fields) == out('"value" must be an integer')
    assert "lossless" in text_of(await reviewed(Accept(value={1}), **fields))  # PIPE-161


async def test_what_a_decision_cannot_do() -> None:
    # PIPE-159, 160
    both = await reviewed(Accept(value=1, content=text("x")))
    assert both == error("tools/post-execute accept decision cannot replace both value and content")
    failed = await reviewed(Accept(value=1), execute=Body(ValueError("x")))
    assert failed == error("tools/post-execute cannot replace the value of a failed result")


async def test_a_value_is_replaced_under_the_definition_of_that_moment() -> None:
    # PIPE-162
    async with app() as ctx:
        dispose = ctx.tools.register(make_tool())

        async def swap(_review: Any, next: Any) -> Any:
            dispose()
            ctx.tools.register(make_tool(schema=INT, render=lambda _a, value: text(f"new {value}")))
            return Accept(value=5)

        remove = ctx.on("tools/post-execute", swap)
        assert text_of(await run(ctx)) == "new 5"
        remove()
        ctx.tools.service.registry.remove(ctx.tools.view().entries["t"], None)
        gone = ctx.tools.register(make_tool())

        async def vanish(_review: Any, next: Any) -> Any:
            gone()
            return Accept(value=5)

        ctx.on("tools/post-execute", vanish)
        assert await run(ctx) == error('unknown tool "t"', UNKNOWN)


async def test_a_block_keeps_nothing_but_its_feedback() -> None:
    # PIPE-163 to 165, 231
    feedback = [TextBlock("no"), ImageBlock("aGk=", "image/png"), JsonBlock(1)]
    result = await reviewed(
        Block(feedback, [context("why")]),
        execute=Body(lambda _a, execution: execution.conclude_turn() or execution.defer_context("lost") or 1),
        presentation_meta=lambda *_: 1,
    )
    assert isinstance(result, ToolFailure)
    assert result.content == tuple(feedback)
    assert result.error == ErrorDetail("no\n[image content]\n[json content]")
    assert result.meta is UNSET
    assert words_of(result) == ["why"]
    empty = await reviewed(Block([]))
    assert (empty.error.message, empty.content) == ("tool result blocked by post-execute policy", ())
    async with app() as ctx:
        ctx.on("tools/post-execute", deciding(Block(text("blocked"))))
        unknown = await run(ctx, "nobody")
        assert unknown.error.info is UNSET  # type: ignore[union-attr]


@pytest.mark.parametrize("decision", [None, "accept", {"kind": "accept"}, 5])
async def test_anything_but_a_post_decision_fails(decision: Any) -> None:
    # PIPE-166 by D37
    result = await reviewed(decision)
    assert "returned an invalid tools/post-execute result: expected Accept or Block" in text_of(result)


@pytest.mark.parametrize(
    "decision",
    [Block("text"), Accept(content="text"), Accept(additional_contexts=["x"]), Block(5)],  # type: ignore[arg-type]
)
async def test_a_post_decision_holds_blocks_and_messages(decision: Any) -> None:
    # PIPE-166, 154 by D37
    result = await reviewed(decision)
    assert result.error.info.code == "INVALID_LISTENER_RESULT"


async def test_a_post_listener_that_raises_loses_the_contexts() -> None:
    # PIPE-167
    async with app() as ctx:
        ctx.tools.register(make_tool(execute=Body(lambda _a, execution: execution.defer_context("lost") or 1)))

        async def broken(_review: Any, next: Any) -> Any:
            raise HarnessError("post broke", "POST")

        ctx.on("tools/post-execute", broken)
        assert await run(ctx) == error("post broke", ErrorInfo("HarnessError", "POST"))


@pytest.mark.parametrize("decision", [Block([JsonBlock({1})]), Accept(content=[JsonBlock(float("nan"))])])
async def test_content_that_is_not_json(decision: Any) -> None:
    # PIPE-168, 170
    result = await reviewed(decision, execute=Body(lambda _a, execution: execution.defer_context("lost") or 1))
    assert text_of(result).startswith("Error: tool result must be losslessly JSON-serializable\nvalue:")
    assert result.additional_contexts is UNSET


# ── Q. Contexts ────────────────────────────────────────────────────────────────


async def test_contexts_come_from_body_wrapper_and_decision_in_that_order() -> None:
    # PIPE-169, 172
    async with app() as ctx:

        def body(args: Any, execution: Any) -> int:
            execution.defer_context("body 1")
            execution.defer_context(context("body 2"))
            return 1

        ctx.tools.register(make_tool(execute=Body(body)))
        authored = lambda result: msgspec.structs.replace(result, additional_contexts=[context("wrapper")])  # noqa: E731
        ctx.on("tools/execute", wrapping(authored))
        ctx.on("tools/post-execute", deciding(Accept(additional_contexts=[context("decision")])))
        result = await run(ctx)
        assert words_of(result) == ["body 1", "body 2", "wrapper", "decision"]
        assert isinstance(result.additional_contexts, tuple)


async def test_a_failing_body_keeps_its_contexts() -> None:
    # PIPE-170
    async with app() as ctx:

        def body(args: Any, execution: Any) -> int:
            execution.defer_context("kept")
            execution.conclude_turn()
            raise ValueError("x")

        ctx.tools.register(make_tool(execute=Body(body)))
        result = await run(ctx)
        assert words_of(result) == ["kept"]
        assert isinstance(result, ToolFailure)


async def test_no_contexts_is_absent_and_an_explicit_empty_list_stays() -> None:
    # PIPE-171
    async with app() as ctx:
        ctx.tools.register(make_tool())
        assert (await run(ctx)).additional_contexts is UNSET
        ctx.on("tools/execute", wrapping(lambda result: msgspec.structs.replace(result, additional_contexts=[])))
        assert (await run(ctx)).additional_contexts == ()


async def test_concluding_is_for_successes() -> None:
    # PIPE-173
    def concluding(outcome: Any) -> Body:
        def body(args: Any, execution: Any) -> Any:
            execution.conclude_turn()
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return Body(body)

    async with app() as ctx:
        ctx.tools.register(make_tool("good", concluding(1)))
        ctx.tools.register(make_tool("bad", concluding(ValueError("x"))))
        assert (await run(ctx, "good")).concludes_turn is True  # type: ignore[union-attr]
        assert not hasattr(await run(ctx, "bad"), "concludes_turn")
        remove = ctx.on("tools/post-execute", deciding(Block(text("no"))))
        assert not hasattr(await run(ctx, "good"), "concludes_turn")
        remove()
        ctx.tools.register(make_tool("plain"))
        assert (await run(ctx, "plain")).concludes_turn is UNSET  # type: ignore[union-attr]


# ── R. The finalizer ───────────────────────────────────────────────────────────


async def test_the_finalizer_is_called_once_on_every_path() -> None:
    # PIPE-174
    async with app() as ctx:
        finalized: list[Any] = []
        fields: dict[str, Any] = {"finalize_content": lambda _e, result: finalized.append(result)}
        ctx.tools.register(make_tool("good", **fields))
        ctx.tools.register(make_tool("bad", Body(ValueError("x")), **fields))
        ctx.tools.register(make_tool("lossy", Body({1}), **fields))
        aborted = AbortController()
        aborted.abort()
        for name, call in (
            ("good", {}),
            ("bad", {}),
            ("lossy", {}),
            ("good", {"arguments": {"x": {1}}}),
            ("good", {"signal": aborted.signal}),
        ):
            finalized.clear()
            result = await run(ctx, name, **call)
            assert finalized == [result]


async def test_the_finalizer_gets_the_open_execution_and_the_frozen_result() -> None:
    # PIPE-176, 177, 179, 240: the candidate is frozen before the finalizer and after it
    async with app() as ctx:
        controller = AbortController()

        def finalizer(execution: Any, result: Any) -> Any:
            assert not execution.state.frozen
            with pytest.raises(AttributeError):
                result.content = ()
            controller.abort()
            return text("last word")

        ctx.tools.register(make_tool(execute=Body(ValueError("original")), finalize_content=finalizer))
        result = await run(ctx, signal=controller.signal)
        assert text_of(result) == "last word"
        assert result.error.message == "original"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("finalizer", "says"),
    [
        (lambda *_: 1 / 0, "Error: division by zero"),
        (lambda *_: [JsonBlock({1})], "Error: tool result must be losslessly JSON-serializable"),
        (lambda *_: "text", 'Error: listener "t.finalize_content" returned an invalid finalize result'),
        (lambda *_: asyncio.sleep(0), 'Error: listener "t.finalize_content" returned an invalid finalize result'),
    ],
)
async def test_a_finalizer_that_fails(finalizer: Any, says: str) -> None:
    # PIPE-178; the bare coroutine by D37
    async with app() as ctx:
        calls: list[int] = []

        def counted(*args: Any) -> Any:
            calls.append(1)
            return finalizer(*args)

        body = Body(lambda _a, execution: execution.defer_context("gone") or 1)
        ctx.tools.register(make_tool(execute=body, finalize_content=counted, presentation_meta=lambda *_: 1))
        result = await run(ctx)
        assert text_of(result).startswith(says)
        assert calls == [1]
        assert result.additional_contexts is UNSET
        assert result.meta is UNSET


# ── S. tools/result ────────────────────────────────────────────────────────────


async def test_observers_see_the_returned_object_once() -> None:
    # PIPE-180
    async with app() as ctx:
        ctx.tools.register(make_tool())
        recorder = Recorder(ctx)
        result = await run(ctx)
        assert recorder.results == [result]
        assert recorder.results[0] is result
        assert recorder.executions[0].state.frozen
        with pytest.raises(AttributeError):
            result.value = 1  # type: ignore[union-attr, misc]


async def test_observers_are_contained(caplog: pytest.LogCaptureFixture) -> None:
    # PIPE-181
    async with app() as ctx:
        ctx.tools.register(make_tool())
        told: list[str] = []
        release = asyncio.Event()

        def broken(*_: Any) -> None:
            raise RuntimeError("sync observer")

        async def broken_later(*_: Any) -> None:
            await release.wait()
            told.append("async")
            raise RuntimeError("async observer")

        ctx.on("tools/result", broken)
        ctx.on("tools/result", broken_later)
        ctx.on("tools/result", lambda *_: told.append("last"))
        with caplog.at_level(logging.WARNING, "dsh_tools"):
            assert text_of(await run(ctx, call_id="call-7")) == "ok"
            assert told == ["last"]  # async observers are not awaited
            release.set()
            await ctx.bus.settle()
        assert told == ["last", "async"]
        assert "sync observer" in caplog.text
        assert "async observer" in caplog.text
        assert 'tool "t"' in caplog.text
        assert "call-7" in caplog.text


async def test_progress_reaches_observers_until_the_call_settles() -> None:
    # field-123
    async with app() as ctx:
        seen: list[Any] = []
        executions: list[Any] = []

        def body(args: Any, execution: Any) -> str:
            execution.progress(10)
            execution.progress(50)
            executions.append(execution)
            return "ok"

        ctx.on("tools/progress", lambda execution, value: seen.append((execution.token, value)))
        ctx.tools.register(make_tool(execute=Body(body)))
        await run(ctx)
        executions[0].progress(99)
        token = executions[0].token
        assert seen == [(token, 10), (token, 50)]


async def test_masking_hides_unexpected_errors_only(caplog: pytest.LogCaptureFixture) -> None:
    # field-059, 126
    async with app(mask_errors=True) as ctx:
        ctx.tools.register(make_tool("secret", Body(RuntimeError("postgres://u:pw@db/x"))))
        ctx.tools.register(make_tool("meant", Body(HarnessError("say this"))))
        ctx.tools.register(
            make_tool("typed", parameters={"type": "object", "required": ["a"], "properties": {"a": {}}})
        )
        masked = text_of(await run(ctx, "secret"))
        assert masked.startswith("Error: the tool failed; error id ")
        assert "pw" not in masked
        assert "pw@db" in caplog.text
        assert masked.rsplit(" ", 1)[1] in caplog.text
        assert text_of(await run(ctx, "meant")) == "Error: say this"
        assert 'missing required property "a"' in text_of(await run(ctx, "typed"))


@pytest.mark.parametrize("side", ["arguments", "value"])
async def test_very_many_faults_are_listed_up_to_a_number(side: str):
    # PIPE-107, 154: a message of megabytes helps no model, and writing it would stop everything else
    items = {"type": "array", "items": {"type": "integer"}}
    rows = ["x"] * 100_000

    async def give(args: Any, _run: Any) -> Any:
        return args["rows"]

    definition = define_tool(
        name="rows",
        description="Give rows back.",
        parameters={"rows": {"type": "array"} if side == "value" else items},
        output={"schema": items},
        execute=give,
    )
    async with app() as ctx:
        ctx.tools.register(definition)
        result = await run(ctx, "rows", {"rows": rows})
    assert isinstance(result, ToolFailure)
    message = result.error.message
    assert message.count("must be an integer") == 100
    assert message.endswith("; and more (the first 100 are listed)")
