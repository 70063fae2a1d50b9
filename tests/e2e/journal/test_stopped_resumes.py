"""Turns that are resumed and stopped again: they wait on as they did, or each of their calls has its result."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.journal import answer_all, application, effects, go_on, program_of, say_result, start
from tests.support.sessions import answer, begin
from tests.support.sessions import call as record_call

from dsh_tools.agent import Agent
from dsh_tools.errors import SessionError
from dsh_tools.json_value import to_json_text
from dsh_tools.kernel import AbortController
from dsh_tools.model import ModelRequest, ScriptedModel, call, say
from dsh_tools.services import open_questions
from dsh_tools.session.events import Aborted, Completed, Waiting
from dsh_tools.testing.store_conformance import refused
from dsh_tools.tools.events import PRE_EXECUTE

PROGRAMS = {
    "typescript": 'const seen = await tools.effect({ name: "a", value: 1 }); return await tools.pay({ name: "b", value: 2 });',
    "python": 'seen = await tools.effect({"name": "a", "value": 1})\nreturn await tools.pay({"name": "b", "value": 2})',
}
kinds = pytest.mark.parametrize("kind", ["native", *PROGRAMS])


def model_of(kind: str) -> ScriptedModel:
    if kind == "native":
        batch = say(
            "", call("effect", name="a", value=1), call("pay", name="b", value=2), call("effect", name="c", value=3)
        )
        return ScriptedModel([batch, *[say_result] * 9])
    return program_of(PROGRAMS[kind])


def app(folder: Path, kind: str, **settings: Any) -> Any:
    return application(folder, "typescript" if kind == "native" else kind, mode="both", **settings)


def results(agent: Agent) -> int:
    return sum(event.type == "tool/result" for event in agent.session.events)


def calls(agent: Agent) -> int:
    messages = (event.data["message"] for event in agent.session.events if event.type == "assistant/message")
    return sum(block["type"] == "tool-call" for message in messages for block in message["content"])


async def goes_on(folder: Path, kind: str) -> None:
    """What waits goes on with the answer that it has, and does everything once."""
    async with app(folder, kind) as ctx:
        agent = await go_on(ctx)
        assert open_questions(agent.session.events) == []
        assert (await agent.resume()).reason == Completed()
    assert effects(folder / "effects") == ["a 1", "b 2", *(["c 3"] if kind == "native" else [])]


@kinds
@pytest.mark.parametrize("how", ["signal", "cancel", "task", "fired", "cancel at once"])
async def test_a_resume_that_is_cancelled_at_its_start_waits_on(how: str, kind: str, tmp_path: Path, no_leaks: None):
    # HOST-156, D34: no call is without a result unless it waits, and the answer is not lost
    async with app(tmp_path, kind) as ctx:
        await start(ctx, model_of(kind))
    async with app(tmp_path, kind) as ctx:
        await answer_all(ctx)
        agent = await go_on(ctx)
        controller = AbortController()
        if how in ("signal", "cancel"):
            # While the log is flushed, before any of the calls is looked at.
            stop = controller.abort if how == "signal" else agent.cancel
            agent.session.observe(lambda event: stop() if event.type == "step/start" else None)
        if how == "fired":
            controller.abort("parent")
        resumed = asyncio.create_task(agent.resume(signal=controller.signal))
        if how == "task":
            await asyncio.sleep(0)
            resumed.cancel()
            with pytest.raises(asyncio.CancelledError):
                await resumed
        elif how == "cancel at once":
            await asyncio.sleep(0)
            agent.cancel()
        if how != "task":
            assert (await resumed).reason == Waiting()
        assert agent.is_waiting
        assert results(agent) == (1 if kind == "native" else 0)
        with refused("TURN_WAITING"):
            await agent.run("hello?")
    assert effects(tmp_path / "effects") == ["a 1"]
    await goes_on(tmp_path, kind)


@kinds
@pytest.mark.parametrize("pause", [0, 0.02, 0.1, 0.2, 0.4])
@pytest.mark.parametrize("how", ["signal", "cancel", "dispose", "task"])
async def test_a_resume_that_is_stopped_at_any_time_leaves_no_call_without_a_result(
    how: str, pause: float, kind: str, tmp_path: Path, no_leaks: None
):
    # HOST-156, D15, D34
    async with app(tmp_path, kind) as ctx:
        await start(ctx, model_of(kind))
    async with app(tmp_path, kind) as ctx:
        await answer_all(ctx)
        agent = await go_on(ctx)
        controller = AbortController()
        resumed = asyncio.create_task(agent.resume(signal=controller.signal))
        await asyncio.sleep(pause)
        stop = {"signal": controller.abort, "cancel": agent.cancel, "dispose": agent.dispose, "task": resumed.cancel}
        stopped = stop[how]()
        if how == "dispose":
            await stopped
        await asyncio.wait({resumed})
        waits = agent.is_waiting
        assert waits or results(agent) == calls(agent)
        assert waits <= (effects(tmp_path / "effects") == ["a 1"])
        if how == "dispose" and "b 2" not in effects(tmp_path / "effects"):
            assert waits
    if waits:
        await goes_on(tmp_path, kind)


@kinds
async def test_an_application_that_ends_during_a_resume_leaves_the_turn_and_its_answer(
    kind: str, tmp_path: Path, no_leaks: None
):
    # D15, D34: nothing has run yet that had not run before
    async with app(tmp_path, kind) as ctx:
        await start(ctx, model_of(kind))
    for stage in ("run_code", "pay"):
        if stage == "run_code" and kind == "native":
            continue
        async with app(tmp_path, kind) as ctx:
            await answer_all(ctx)
            agent = await go_on(ctx)
            reached = asyncio.Event()

            async def hold(execution: Any, proceed: Any, stage: str = stage, reached: asyncio.Event = reached) -> Any:
                if execution.name == stage:
                    reached.set()
                    await execution.signal.wait()
                return await proceed()

            ctx.on(PRE_EXECUTE, hold, prepend=True)
            resumed = asyncio.create_task(agent.resume())
            await asyncio.wait_for(reached.wait(), 60)
        assert (await resumed).reason == Waiting()
        assert agent.is_waiting
        assert effects(tmp_path / "effects") == ["a 1"]
    await goes_on(tmp_path, kind)


async def test_an_application_that_ends_once_something_has_run_cancels_it(tmp_path: Path, no_leaks: None):
    # D15
    program = 'await tools.pay({ name: "b", value: 2 }); await new Promise((wake) => setTimeout(wake, 60000));'
    async with app(tmp_path, "typescript") as ctx:
        await start(ctx, program_of(program))
    async with app(tmp_path, "typescript") as ctx:
        await answer_all(ctx)
        agent = await go_on(ctx)
        resumed = asyncio.create_task(agent.resume())
        while not effects(tmp_path / "effects"):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
    assert (await resumed).reason == Aborted("disposed")
    assert results(agent) == calls(agent)


async def test_what_a_dead_process_left_goes_on_after_a_resume_that_was_stopped(tmp_path: Path, no_leaks: None):
    # D34: a program that was announced and had not begun, of which the journal has nothing else
    program = to_json_text({"code": 'return await tools.effect({"name": "a", "value": 1})'})
    async with app(tmp_path, "python") as ctx:
        log = await ctx.sessions.create(id="s1")
        begin(log)
        answer(log, "", ("c1", "run_code", program))
        event = record_call(log, "c1", "run_code")
        ctx.require("journal").journal.announce("s1", event.seq)
        await log.close()
    for stopped in (True, True, False):
        async with app(tmp_path, "python") as ctx:
            agent = await go_on(ctx)
            assert agent.is_waiting
            if stopped:
                agent.session.observe(lambda event, agent=agent: agent.cancel() if event.type == "step/start" else None)
            outcome = await agent.resume()
            assert isinstance(outcome.reason, Waiting if stopped else Completed)
    assert effects(tmp_path / "effects") == ["a 1"]


async def test_a_log_that_cannot_be_kept_leaves_the_turn_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_leaks: None
):
    # HOST-127, D34
    async with app(tmp_path, "python") as ctx:
        await start(ctx, model_of("python"))
    async with app(tmp_path, "python") as ctx:
        await answer_all(ctx)
        agent = await go_on(ctx)

        async def fail() -> None:
            raise SessionError("the disk is full", "STORE_FAILED")

        with monkeypatch.context() as patch:
            patch.setattr(agent.session, "flush", fail)
            with refused("STORE_FAILED"):
                await agent.resume()
        assert agent.is_waiting
        assert (agent.session.turn, agent.session.step) == (None, None)
        assert (await agent.resume()).reason == Completed()
    assert effects(tmp_path / "effects") == ["a 1", "b 2"]


async def test_programs_that_are_not_offered_any_more_are_refused(tmp_path: Path, no_leaks: None):
    # D34: nothing has run, and the session waits on
    async with application(tmp_path) as ctx:
        await start(ctx, model_of("typescript"))
    async with application(tmp_path, mode="native") as ctx:
        await answer_all(ctx)
        agent = await go_on(ctx)
        with refused("RESUME_REFUSED") as caught:
            await agent.resume()
        assert 'programs are not offered any more: tools.mode is "native"' in str(caught.value)
        assert agent.is_waiting
    await goes_on(tmp_path, "typescript")


# ── an agent that has nothing to go on with ────────────────────────────────────


async def test_a_signal_that_has_fired_lets_nothing_be_said(tmp_path: Path, no_leaks: None):
    # HOST-159
    async with app(tmp_path, "native") as ctx:
        fired = AbortController()
        fired.abort("parent")
        agent = await ctx.agents.create("main", ScriptedModel(["first", "second"]))
        for _ in range(2):
            assert (await agent.run("hello", signal=fired.signal)).reason == Aborted("parent")
            assert not [event for event in agent.session.events if event.type in ("turn/start", "inbox/insert")]
        assert (await agent.run("hello")).text == "first"
        # The outcome of an earlier turn is not that of one that never began.
        assert (await agent.run("hello", signal=fired.signal)).reason == Aborted("parent")


@pytest.mark.parametrize("how", ["signal", "cancel", "dispose"])
async def test_a_turn_that_is_stopped_before_it_begins_is_an_aborted_one(how: str, tmp_path: Path, no_leaks: None):
    # HOST-159, D15
    asked: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Any:
        asked.append(request)
        return say("hello")

    async with app(tmp_path, "native") as ctx:
        agent = await ctx.agents.create("main", ScriptedModel([answer]))
        controller = AbortController()
        stop = {"signal": lambda: controller.abort("parent"), "cancel": agent.cancel, "dispose": agent.dispose}
        running = asyncio.create_task(agent.run("hello", signal=controller.signal))
        asyncio.get_running_loop().call_soon(stop[how])
        reason = {"signal": "parent", "cancel": "user", "dispose": "disposed"}[how]
        assert (await running).reason == Aborted(reason)
        assert asked == []
        assert agent.session.pending.waiting("next-turn") == []


@kinds
async def test_an_agent_that_is_disposed_goes_on_with_nothing(kind: str, tmp_path: Path, no_leaks: None):
    # D15, D34
    async with app(tmp_path, kind) as ctx:
        await start(ctx, model_of(kind))
    async with app(tmp_path, kind) as ctx:
        await answer_all(ctx)
        agent = await go_on(ctx)
        resumed = asyncio.create_task(agent.resume())
        ending = agent.dispose()
        for attempt in (agent.resume(), agent.run("hello"), resumed):
            with refused("AGENT_DISPOSED"):
                await attempt
        await ending
    await goes_on(tmp_path, kind)
