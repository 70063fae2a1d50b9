"""The log entries of a program's calls. CODE-106 to 111."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.support.agents import LoggedAgent, LoneAgent
from tests.support.calls import Body, make_tool, text_of
from tests.support.code_mode import Program, code_app, run_code

from dsh_tools.content import ImageBlock, TextBlock
from dsh_tools.tools import CODE_DISPATCH_LOG, Deny, DispatchLogEntry

pytestmark = pytest.mark.usefixtures("no_leaks")

START, SETTLE = "tool/code-dispatch-start", "tool/code-dispatch"


def of(agent: LoggedAgent, kind: str) -> list[Any]:
    """The data of the agent's events of exactly this type."""
    return [data for type_name, data in agent.events("tool/") if type_name == kind]


def entries(agent: LoggedAgent) -> list[tuple[str, str]]:
    return [(kind, data["subCallId"]) for kind, data in agent.events("tool/code-dispatch")]


async def test_one_start_and_one_settle_for_each_call() -> None:
    # CODE-106, 107, 108
    async with code_app() as (ctx, runtime):
        image = ImageBlock("aGk=", "image/png")
        ctx.tools.register(make_tool("t", Body({"n": 1}), render=lambda _a, _v: (TextBlock("x" * 9000), image)))
        ctx.tools.register(make_tool("fails", Body(ValueError("no luck"))))
        ctx.tools.register(make_tool("denied"))
        started: list[Any] = []
        agent = LoggedAgent(ctx.create_scope("agent").scope)

        async def pre(execution: Any, next: Any) -> Any:
            started.append((execution.name, len(of(agent, START))))
            return Deny("no") if execution.name == "denied" else await next()

        ctx.on("tools/pre-execute", pre)

        async def script(program: Program) -> None:
            await program.call("t", {"x": [1]})
            await program.error_of("fails")
            await program.error_of("denied")

        runtime.script = script
        result = await run_code(ctx, agent=agent)
        assert not result.is_error
        # Logged when it starts, before any policy looks.
        assert started == [("run_code", 0), ("t", 1), ("fails", 2), ("denied", 3)]
        events = agent.events("tool/code-dispatch")
        assert [kind for kind, _ in events] == [START, SETTLE] * 3
        ids = {"rootCallId": "outer", "parentCallId": "outer"}
        assert events[0][1] == {**ids, "subCallId": "outer:code:1", "name": "t", "arguments": {"x": [1]}}
        first = events[1][1]
        assert first.items() >= {**ids, "subCallId": "outer:code:1", "name": "t", "isError": False}.items()
        assert first["content"][0] == {"type": "text", "text": "x" * 9000}
        assert first["content"][1]["type"] == "image"
        assert not {"value", "meta"} & first.keys()
        assert events[3][1]["content"] == [{"type": "text", "text": "Error: no luck"}]
        assert events[5][1]["isError"] is True
        # Log only: none of it is a message to the model.
        assert list(agent.session.derive_messages()) == []


@pytest.mark.parametrize("agent", [None, LoneAgent()])
async def test_without_an_owner_calls_work_and_nothing_is_logged(agent: Any) -> None:
    # CODE-106
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("t"))
        shaped: list[Any] = []
        ctx.on(CODE_DISPATCH_LOG, lambda entry, next: shaped.append(entry) or next())
        runtime.script = lambda program: program.call("t")
        assert (await run_code(ctx, agent=agent)).value["result"] == "ok"
        assert shaped == []


async def test_aborted_calls_settle_and_abandoned_ones_are_not_logged() -> None:
    # CODE-108, 116, 117: every start has its settle, before the outer result
    async with code_app() as (ctx, runtime):

        async def waits(args: Any, run: Any) -> None:
            await asyncio.sleep(60)

        ctx.tools.register(make_tool("waits", waits))
        agent = LoggedAgent()
        seen: list[int] = []
        ctx.on("tools/result", lambda execution, _r: seen.append(len(of(agent, SETTLE))))

        async def script(program: Program) -> None:
            program.call("waits")
            program.call("waits")
            await asyncio.sleep(0.01)

        runtime.script = script
        await run_code(ctx, agent=agent)
        assert entries(agent) == [(START, "outer:code:1"), (SETTLE, "outer:code:1")]
        assert of(agent, SETTLE)[0]["isError"] is True
        assert seen[-1] == 1


async def test_a_tool_that_is_gone_is_logged() -> None:
    # CODE-97
    async with code_app() as (ctx, runtime):
        remove = ctx.tools.register(make_tool("ephemeral"))
        agent = LoggedAgent()

        async def script(program: Program) -> str:
            remove()
            return await program.error_of("ephemeral")

        runtime.script = script
        await run_code(ctx, agent=agent)
        assert entries(agent) == [(START, "outer:code:1"), (SETTLE, "outer:code:1")]


async def test_the_program_does_not_wait_for_its_log() -> None:
    # CODE-109
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("t"))
        agent = LoggedAgent()
        gate = asyncio.Event()

        async def shape(entry: DispatchLogEntry, next: Any) -> Any:
            await gate.wait()
            return await next()

        ctx.on(CODE_DISPATCH_LOG, shape)

        async def script(program: Program) -> int:
            await program.call("t")
            logged = len(of(agent, SETTLE))
            gate.set()
            return logged

        runtime.script = script
        assert (await run_code(ctx, agent=agent)).value["result"] == 0
        assert len(of(agent, SETTLE)) == 1


async def test_too_many_pending_entries_hold_the_lane() -> None:
    # CODE-109
    async with code_app(max_parallel_sub_calls=2) as (ctx, runtime):
        body = Body()
        ctx.tools.register(make_tool("t", body))
        agent = LoggedAgent()
        gate = asyncio.Event()

        async def shape(entry: DispatchLogEntry, next: Any) -> Any:
            await gate.wait()
            return await next()

        ctx.on(CODE_DISPATCH_LOG, shape)

        async def script(program: Program) -> int:
            calls = [asyncio.ensure_future(program.call("t")) for _ in range(6)]
            await asyncio.sleep(0.03)
            begun = len(body.calls)
            gate.set()
            await asyncio.gather(*calls)
            return begun

        runtime.script = script
        # Two are allowed to be pending; the third holds the lane.
        assert (await run_code(ctx, agent=agent)).value["result"] == 3
        assert len(of(agent, SETTLE)) == 6


async def test_listeners_replace_the_logged_copy_only() -> None:
    # CODE-110, PIPE-233
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("t", Body("the value")))
        agent = LoggedAgent()
        seen: list[DispatchLogEntry] = []

        async def shape(entry: DispatchLogEntry, next: Any) -> Any:
            seen.append(entry)
            assert await next() == entry.content
            return [TextBlock("short")]

        ctx.on(CODE_DISPATCH_LOG, shape)
        runtime.script = lambda program: program.call("t")
        assert (await run_code(ctx, agent=agent)).value["result"] == "the value"
        assert of(agent, SETTLE)[0]["content"] == [{"type": "text", "text": "short"}]
        (entry,) = seen
        assert (entry.sub_call_id, entry.name, entry.is_error) == ("outer:code:1", "t", False)
        assert entry.execution.name == "run_code"
        assert entry.execution.agent is agent


@pytest.mark.parametrize("answer", [RuntimeError("shaper is broken"), "just text", None, [5], asyncio.CancelledError()])
async def test_a_broken_listener_changes_nothing(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    # CODE-110, PIPE-233, HOST-106
    async with code_app() as (ctx, runtime):
        ctx.tools.register(make_tool("t"))
        agent = LoggedAgent()

        async def shape(entry: DispatchLogEntry, next: Any) -> Any:
            if isinstance(answer, BaseException):
                raise answer
            return answer

        ctx.on(CODE_DISPATCH_LOG, shape)
        runtime.script = lambda program: program.call("t")
        with caplog.at_level(logging.WARNING, "dsh_tools"):
            assert not (await run_code(ctx, agent=agent)).is_error
        assert of(agent, SETTLE)[0]["content"] == [{"type": "text", "text": "ok"}]
        assert 'the log entry of "t" (call outer:code:1) stays as it is' in caplog.text


async def test_a_log_that_takes_no_start_stops_the_program() -> None:
    # CODE-107: a call that cannot be logged does not run
    async with code_app() as (ctx, runtime):
        body = Body()
        ctx.tools.register(make_tool("t", body))

        async def script(program: Program) -> str:
            return await program.error_of("t")

        runtime.script = script
        result = await run_code(ctx, agent=LoggedAgent(in_turn=False))
        assert result.is_error
        assert "turn" in text_of(result)
        assert body.calls == []


class FullDisk:
    """A recorder that takes starts and no ends."""

    def dispatch_started(self, agent: Any, **fields: Any) -> Any:
        return fields

    def dispatch_settled(self, agent: Any, start: Any, **fields: Any) -> None:
        raise OSError("the disk is full")


@pytest.mark.parametrize("shaped", [False, True])
async def test_a_log_that_takes_no_settle_fails_the_run(shaped: bool) -> None:
    # CODE-108: no entry is lost without a word
    async with code_app(recorder=FullDisk()) as (ctx, runtime):
        ctx.tools.register(make_tool("t"))
        if shaped:
            ctx.on(CODE_DISPATCH_LOG, lambda _entry, next: next())
        runtime.script = lambda program: program.call("t")
        assert text_of(await run_code(ctx, agent=LoneAgent())) == "Error: the disk is full"
