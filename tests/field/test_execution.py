"""Faults that users of such systems met: registration, execution, errors, cancellation, results."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pydantic
import pytest
from tests.support.calls import app, text_of

from dsh_tools import (
    AbortController,
    Deny,
    HarnessError,
    ToolArgsError,
    ToolCall,
    ToolError,
    ToolFailure,
    define_tool,
    standard,
    tool,
)
from dsh_tools.errors import DuplicateToolError
from dsh_tools.model import ScriptedCall, ScriptedModel, call, say
from dsh_tools.tools import OutputSpec, ToolDefinition

pytestmark = pytest.mark.usefixtures("no_leaks")


@tool
async def echo(text: str = "hello") -> str:
    """Say it back."""
    return text


def results(agent: Any) -> list[dict[str, Any]]:
    return [event.data["message"]["content"][0] for event in agent.session.events if event.type == "tool/result"]


@pytest.mark.field("field-046")
async def test_a_second_tool_of_one_name_is_refused_aloud() -> None:
    async with app() as ctx:

        @tool(name="t")
        async def first() -> str:
            return "first"

        @tool(name="t")
        async def second() -> str:
            return "second"

        ctx.tools.register(first)
        with pytest.raises(DuplicateToolError):
            ctx.tools.register(second)
        assert ctx.tools.get("t") is first
        assert text_of(await ctx.tools.execute(ToolCall("t"))) == "first"


@pytest.mark.field("field-049")
async def test_hidden_names_are_never_given_away() -> None:
    async with standard() as ctx:
        for name in ("a", "b", "secret_tool"):
            ctx.tools.register(tool(name=name)(echo.fn))
        scoped = ctx.create_scope("agent")
        scoped.tools.restrict(deny=["b", "secret_tool"])
        for asked in ("zzz", "secret_too", "aa"):
            text = text_of(await ctx.tools.execute(ToolCall(asked, agent=scoped)))
            assert "secret_tool" not in text.replace(f'"{asked}"', "")
            assert '"b"' not in text
        hidden = await ctx.tools.execute(ToolCall("secret_tool", agent=scoped))
        unknown = await ctx.tools.execute(ToolCall("no_such_tool", agent=scoped))
        assert isinstance(hidden, ToolFailure)
        assert isinstance(unknown, ToolFailure)
        assert hidden.error.info == unknown.error.info
        assert text_of(hidden).replace("secret_tool", "no_such_tool") == text_of(unknown)


@pytest.mark.field("field-051")
async def test_an_unknown_call_has_its_result_and_the_loop_goes_on() -> None:
    async with standard() as ctx:
        agent = await ctx.agents.create("main", ScriptedModel([say("", call("nobody")), "went on"]))
        assert (await agent.run("go")).text == "went on"
        (only,) = results(agent)
        assert only["isError"]
        assert 'unknown tool "nobody"' in only["content"][0]["text"]


@pytest.mark.field("field-052")
async def test_whatever_a_tool_raises_is_a_result() -> None:
    class AdaptersToolException(Exception):
        """What another package's tools raise."""

    @tool
    async def boom(kind: str) -> str:
        raise ValueError("boom") if kind == "value" else AdaptersToolException("from elsewhere")

    async with standard() as ctx:
        ctx.tools.register(boom)
        script = [say("", call("boom", kind="value"), call("boom", kind="other")), "still here"]
        agent = await ctx.agents.create("main", ScriptedModel(script))
        assert (await agent.run("go")).text == "still here"
        assert [entry["content"][0]["text"] for entry in results(agent)] == ["Error: boom", "Error: from elsewhere"]


@pytest.mark.field("field-053")
async def test_a_stray_cancellation_is_a_failure_and_a_real_one_goes_out() -> None:
    @tool
    async def stray() -> str:
        raise asyncio.CancelledError

    @tool
    async def slow() -> str:
        await asyncio.sleep(60)
        return "never"

    async with app() as ctx:
        ctx.tools.register(stray)
        ctx.tools.register(slow)
        seen: list[Any] = []
        ctx.on("tools/result", lambda _execution, result: seen.append(result))
        failed = await ctx.tools.execute(ToolCall("stray"))
        task = asyncio.current_task()
        assert task is not None
        assert (failed.is_error, task.cancelling()) == (True, 0)
        waiting = asyncio.create_task(ctx.tools.execute(ToolCall("slow")))
        await asyncio.sleep(0.02)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(seen) == 2
        assert seen[1].error.info.code == "ABORTED"


@pytest.mark.field("field-055")
async def test_a_validation_error_of_the_body_is_no_argument_error() -> None:
    class Inner(pydantic.BaseModel):
        needed: int

    @tool
    async def body() -> str:
        Inner.model_validate({})
        return "never"

    async with app() as ctx:
        ctx.tools.register(body)
        result = await ctx.tools.execute(ToolCall("body"))
        assert isinstance(result, ToolFailure)
        assert getattr(result.error.info, "code", None) != ToolArgsError.default_code
        assert "needed" in text_of(result)


@pytest.mark.field("field-058")
async def test_an_unknown_call_never_counts_against_a_valid_one() -> None:
    async with standard() as ctx:
        ctx.tools.register(echo)
        turn = say("", call("nobody"), call("echo", text="x"))
        agent = await ctx.agents.create("main", ScriptedModel([turn, turn, turn, "done"]))
        assert (await agent.run("go")).text == "done"
        assert [entry["isError"] for entry in results(agent)] == [True, False] * 3


@pytest.mark.field("field-059")
@pytest.mark.field("field-126")
async def test_masking_hides_unexpected_errors_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def leaks() -> str:
        raise RuntimeError("postgres://u:pw@db/x")

    @tool
    async def tells() -> str:
        raise ToolError("use the other database")

    @tool
    async def number(n: int) -> int:
        return n

    async with app(mask_errors=True) as ctx:
        for each in (leaks, tells, number):
            ctx.tools.register(each)
        with caplog.at_level(logging.ERROR, "dsh_tools"):
            masked = text_of(await ctx.tools.execute(ToolCall("leaks")))
        assert "pw" not in masked
        assert "error id" in masked
        assert "postgres://u:pw@db/x" in caplog.text
        assert text_of(await ctx.tools.execute(ToolCall("tells"))) == "Error: use the other database"
        for arguments, says in (
            ('{"n": 3.7}', '"n" must be an integer'),
            ('{"n": 1', "ends too early"),
            ('{"n": NaN}', "NaN"),
        ):
            assert says in text_of(await ctx.tools.execute(ToolCall("number", arguments)))


@pytest.mark.field("field-062")
async def test_a_hook_that_changes_the_arguments_is_told() -> None:
    @tool
    async def show(n: int) -> int:
        return n

    async with app() as ctx:
        ctx.tools.register(show)

        async def rewrite(execution: Any, next: Any) -> Any:
            execution.arguments["n"] = 2
            return await next()

        remove = ctx.on("tools/pre-execute", rewrite)
        refused = await ctx.tools.execute(ToolCall("show", '{"n": 1}'))
        assert refused.is_error
        assert "frozen" in text_of(refused)
        remove()
        assert (await ctx.tools.execute(ToolCall("show", '{"n": 1}'))).value == 1  # type: ignore[union-attr]


@pytest.mark.field("field-063")
async def test_a_denied_call_has_exactly_one_result() -> None:
    async with standard() as ctx:
        ctx.tools.register(echo)
        ctx.on("tools/pre-execute", lambda _execution, _next: Deny("not today"))
        agent = await ctx.agents.create("main", ScriptedModel([say("", call("echo")), "understood"]))
        assert (await agent.run("go")).text == "understood"
        (only,) = results(agent)
        assert only["content"][0]["text"] == "Error: not today"


@pytest.mark.field("field-065")
async def test_a_failing_call_leaves_its_siblings_alone() -> None:
    @tool(is_concurrency_safe=True)
    async def work(ms: int) -> str:
        if ms == 0:
            raise ValueError("at once")
        await asyncio.sleep(ms / 1000)
        return "done"

    async with standard() as ctx:
        ctx.tools.register(work)
        batch = say("", call("work", ms=50), call("work", ms=0), call("work", ms=50))
        agent = await ctx.agents.create("main", ScriptedModel([batch, "ok"]))
        await agent.run("go")
        assert [entry["isError"] for entry in results(agent)] == [False, True, False]


@pytest.mark.field("field-068")
async def test_cancelling_one_call_of_a_batch_settles_all() -> None:
    gates = {name: asyncio.Event() for name in ("c1", "c2", "c3")}

    async def wait(args: Any, run: Any) -> str:
        await gates[run.call_id].wait()
        return run.call_id

    gated = define_tool(name="gated", description="Waits.", parameters={}, output={"type": "string"}, execute=wait)
    async with app() as ctx:
        ctx.tools.register(gated)
        controllers = {name: AbortController() for name in gates}
        batch = [
            asyncio.create_task(ctx.tools.execute(ToolCall("gated", call_id=name, signal=controllers[name].signal)))
            for name in gates
        ]
        await asyncio.sleep(0.01)
        controllers["c2"].abort()
        gates["c1"].set()
        gates["c3"].set()
        first, second, third = await asyncio.wait_for(asyncio.gather(*batch), 5)
        assert (text_of(first), text_of(third)) == ("c1", "c3")
        assert second.error.info.code == "ABORTED"  # type: ignore[union-attr]


@pytest.mark.field("field-072")
async def test_a_synchronous_tool_does_not_stall_the_loop() -> None:
    @tool
    def sleepy() -> str:
        time.sleep(0.3)
        return "ok"

    async with app() as ctx:
        ctx.tools.register(sleepy)
        beats = 0

        async def heart() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0.01)
                beats += 1

        pulse = asyncio.create_task(heart())
        assert text_of(await ctx.tools.execute(ToolCall("sleepy"))) == "ok"
        pulse.cancel()
        assert beats >= 12


@pytest.mark.field("field-079")
async def test_a_retried_call_publishes_one_result() -> None:
    attempts: list[int] = []

    @tool
    async def flaky() -> str:
        attempts.append(1)
        return "late success"

    async with app() as ctx:
        ctx.tools.register(flaky)
        published: list[Any] = []
        ctx.on("tools/result", lambda execution, result: published.append((execution.token, result)))

        async def again(_execution: Any, next: Any) -> Any:
            await next()
            return await next()

        ctx.on("tools/execute", again)
        result = await ctx.tools.execute(ToolCall("flaky"))
        assert len(attempts) == 2
        assert len(published) == 1
        assert published[0][1] is result


@pytest.mark.field("field-093")
async def test_in_a_mixed_batch_each_call_runs_once() -> None:
    ran: list[str] = []

    @tool
    async def inc() -> str:
        ran.append("inc")
        return "ok"

    @tool
    async def pay() -> str:
        ran.append("pay")
        return "paid"

    async with standard(policy={"rules": [{"tool": "pay", "action": "ask"}]}) as ctx:
        ctx.tools.register(inc)
        ctx.tools.register(pay)

        async def slowly(_request: Any) -> str:
            await asyncio.sleep(0.05)
            return "allowed-once"

        ctx.approval.answer_with(slowly)
        agent = await ctx.agents.create("main", ScriptedModel([say("", call("inc"), call("pay")), "done"]))
        await agent.run("go")
        assert ran == ["inc", "pay"]


@pytest.mark.field("field-115")
async def test_the_output_schema_holds_on_every_path() -> None:
    async def wrong(args: Any, run: Any) -> Any:
        return {"n": "x"}

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    definition = ToolDefinition(
        name="wrong", description="", parameters={"type": "object"}, output=OutputSpec(schema), execute=wrong
    )
    async with app() as ctx:
        ctx.tools.register(definition)

        async def outer(args: Any, run: Any) -> str:
            nested = await ctx.tools.execute(ToolCall("wrong", parent=run.token))
            return text_of(nested)

        ctx.tools.register(
            define_tool(name="outer", description="", parameters={}, output={"type": "string"}, execute=outer)
        )
        direct = text_of(await ctx.tools.execute(ToolCall("wrong")))
        assert '"value.n" must be an integer' in direct
        assert text_of(await ctx.tools.execute(ToolCall("outer"))) == direct
        cached = ctx.tools.get("wrong")
        assert cached is not None

        async def wrapper(_execution: Any, next: Any) -> Any:
            return await next()

        ctx.on("tools/execute", wrapper)
        assert text_of(await ctx.tools.execute(ToolCall("wrong"))) == direct


@pytest.mark.field("field-123")
async def test_progress_streams_in_order_and_never_blocks() -> None:
    from dsh_tools import ToolRunContext

    kept: list[Any] = []

    @tool
    async def steps(run: ToolRunContext) -> str:
        run.progress(10)
        run.progress(50)
        kept.append(run)
        return "done"

    async with app() as ctx:
        ctx.tools.register(steps)
        seen: list[Any] = []

        async def slow_consumer(_execution: Any, value: Any) -> None:
            await asyncio.sleep(0.05)
            seen.append(value)

        ctx.on("tools/progress", slow_consumer)
        started = time.monotonic()
        result = await ctx.tools.execute(ToolCall("steps"))
        assert time.monotonic() - started < 0.04
        kept[0].progress(99)
        await ctx.bus.settle()
        assert seen == [10, 50]
        assert text_of(result) == "done"


def test_the_base_error_is_public() -> None:
    assert issubclass(ToolError, HarnessError)
    assert ScriptedCall("x").arguments == "{}"
