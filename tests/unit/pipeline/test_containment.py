"""What no call may do, whatever a body, a policy or a listener raises: hang, raise, or run when it was given up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.support.calls import ABD, Recorder, app, error, make_tool, run, text_of

from dsh_tools.content import JsonBlock, TextBlock
from dsh_tools.kernel import AbortController
from dsh_tools.messages import UserMessage
from dsh_tools.tools import ToolCall


class Panic(BaseException):
    """What native extensions raise: no ``Exception``."""


def _raising(failure: BaseException) -> Any:
    def function(*_args: Any) -> Any:
        raise failure

    return function


def _exhausted(*_args: Any) -> str:
    return next(iter(()))


def _fine(*_args: Any) -> str:
    return "x"


async def test_a_body_in_a_thread_that_runs_out_of_items_has_failed() -> None:
    # PIPE-131: a future cannot carry a StopIteration
    async with app() as ctx:
        ctx.tools.register(make_tool(execute=_exhausted, isolation="thread"))
        async with asyncio.timeout(5):
            assert text_of(await run(ctx)) == "Error: coroutine raised StopIteration"


@pytest.mark.parametrize("failure", [SystemExit(3), Panic("no way")], ids=["exit", "panic"])
@pytest.mark.parametrize("stage", ["tools/pre-execute", "tools/execute", "tools/post-execute", "guard"])
async def test_what_is_no_exception_is_contained_in_a_policy(stage: str, failure: BaseException) -> None:
    # PIPE-96
    async with app() as ctx:
        ctx.tools.register(make_tool())
        recorder = Recorder(ctx)
        if stage == "guard":
            ctx.tools.guard(_raising(failure))
        else:
            ctx.on(stage, _raising(failure))
        assert text_of(await run(ctx)) == f"Error: {failure}"
        assert len(recorder.results) == 1


@pytest.mark.parametrize("part", ["execute", "render", "presentation_meta", "finalize_content"])
@pytest.mark.parametrize("isolation", ["task", "thread"])
async def test_what_is_no_exception_is_contained_in_every_part_of_a_tool(part: str, isolation: str) -> None:
    # PIPE-96, PIPE-150, PIPE-178
    async with app() as ctx:
        fields: dict[str, Any] = {"execute": _fine, "isolation": isolation, part: _raising(Panic("no"))}
        ctx.tools.register(make_tool(**fields))
        recorder = Recorder(ctx)
        assert text_of(await run(ctx)).endswith("no")
        assert len(recorder.results) == 1


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_observer_that_exits_keeps_nobody_from_hearing(is_async: bool) -> None:
    # PIPE-181
    async with app() as ctx:
        ctx.tools.register(make_tool())

        async def leaves(*_args: Any) -> None:
            raise SystemExit(3)

        ctx.on("tools/result", leaves if is_async else _raising(SystemExit(3)))
        recorder = Recorder(ctx)
        assert not (await run(ctx)).is_error
        await asyncio.sleep(0)
        assert len(recorder.results) == 1


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (5, "Error: defer_context() takes a string or a UserMessage of content blocks, got 5"),
        (UserMessage((JsonBlock(float("nan")),)), "Error: value: nan is not a finite number"),
    ],
    ids=["number", "nan"],
)
async def test_a_deferred_context_that_is_none_fails_the_body(context: Any, message: str) -> None:
    # PIPE-96, PIPE-172
    async with app() as ctx:

        async def body(args: Any, execution: Any) -> str:
            execution.defer_context("kept")
            execution.defer_context(context)
            return "never"

        ctx.tools.register(make_tool(execute=body))
        result = await run(ctx)
        assert text_of(result).splitlines()[0] == message
        # PIPE-170: what was deferred before the throw is kept
        assert result.additional_contexts
        assert [block for message in result.additional_contexts for block in message.content] == [TextBlock("kept")]


async def test_a_deferred_context_keeps_its_name() -> None:
    # PIPE-172
    async with app() as ctx:
        given = UserMessage((TextBlock("text"),), id="note-1")

        async def body(args: Any, execution: Any) -> str:
            execution.defer_context(given)
            return "done"

        ctx.tools.register(make_tool(execute=body))
        assert (await run(ctx)).additional_contexts == (given,)


@pytest.mark.parametrize("by_signal", [True, False])
async def test_a_call_given_up_before_a_thread_is_free_never_runs(by_signal: bool) -> None:
    # PIPE-147, PIPE-199, D30: it does not wait for the thread either
    async with app(max_threads=1) as ctx:
        release = threading.Event()
        begun: list[str] = []

        def hold(args: Any, execution: Any) -> str:
            begun.append("hold")
            release.wait(10)
            return "held"

        def late(args: Any, execution: Any) -> str:
            begun.append("late")
            return "ran"

        ctx.tools.register(make_tool("hold", hold, isolation="thread"))
        ctx.tools.register(make_tool("late", late, isolation="thread"))
        recorder = Recorder(ctx)
        first = asyncio.create_task(ctx.tools.execute(ToolCall("hold", {})))
        await asyncio.sleep(0.02)
        controller = AbortController()
        second = asyncio.create_task(ctx.tools.execute(ToolCall("late", {}, signal=controller.signal)))
        await asyncio.sleep(0.02)
        if by_signal:
            controller.abort()
        else:
            second.cancel()
        done, _ = await asyncio.wait({second}, timeout=5)
        release.set()
        assert done
        assert second.cancelled() is not by_signal
        assert not (await first).is_error
        assert begun == ["hold"]
        late_result = recorder.results[0]
        assert late_result == error("tool call aborted before dispatch", ABD)
