"""Random programs that are suspended at random: what comes of them is what an undisturbed run gets by the same answers."""

from __future__ import annotations

import asyncio
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from tests.support.journal import ANYTHING
from tests.support.repeatable import Delivery, Replayer
from tests.support.repeatable_programs import programs

from dsh_tools import PRE_EXECUTE, Ask
from dsh_tools.code_mode import failure_message, render_run
from dsh_tools.code_runtime import BindingNamespace, CodeRunRequest, CodeRuntime, Determinism, ErrorClassSpec
from dsh_tools.content import content_text
from dsh_tools.json_value import digest, js_number
from dsh_tools.kernel import Context
from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.services import answer_question, open_questions
from dsh_tools.session import JournalRun
from dsh_tools.standard import standard
from dsh_tools.tools import OutputSpec, ToolDefinition

Check = Callable[[str, int], None]
SOAK = os.environ.get("DSH_TOOLS_SOAK") == "1"
TYPESCRIPT, PYTHON = (1000, 1000) if SOAK else (45, 120)

seeds = st.integers(0, 2**32)


class World:
    """The application, what its tools did, and which of their calls need a person."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.seed = 0
        self.ran: Counter[str] = Counter()
        self.number = 0
        for name, safe in (("echo", True), ("other", False), ("fail", True)):
            ctx.tools.register(self._tool(name, safe))
        ctx.on(PRE_EXECUTE, self._ask)

    def _tool(self, name: str, safe: bool) -> ToolDefinition:
        async def body(args: Any, run: Any) -> Any:
            self.ran[run.call_id] += 1
            await asyncio.sleep((0, 0, 0.001, 0.003)[self.chance(run.call_id, 4)])
            if name == "fail":
                raise ValueError(f"failure of {run.call_id}")
            return {"of": args, "chance": self.chance(run.call_id, 1000) / 7} if name == "other" else args

        return ToolDefinition(
            name=name,
            description="",
            parameters=ANYTHING,
            output=OutputSpec({}),
            execute=body,
            validate_arguments=False,
            is_concurrency_safe=lambda _args: safe,
        )

    def chance(self, what: str, most: int) -> int:
        """The same for the same call, in whichever run of its program."""
        return zlib.crc32(f"{self.seed} {what}".encode()) % most

    async def _ask(self, execution: Any, proceed: Any) -> Any:
        asks = execution.parent is not None and self.chance("ask " + execution.call_id, 5) == 0
        return Ask("by chance") if asks else await proceed()

    async def check(self, program: str, seed: int) -> int:
        """Run a program with suspensions, and then once more without; return how often it was suspended."""
        self.seed = seed
        self.ran.clear()
        self.number += 1
        model = ScriptedModel([say("", call("run_code", code=program)), say("done")])
        log = await self.ctx.sessions.create(id=f"session-{self.number}")
        agent = await self.ctx.agents.create("main", model, session=log)
        await agent.run("go")
        suspensions = 0
        while agent.is_waiting:
            suspensions += 1
            (question,) = open_questions(log.events)
            outcome = "rejected" if self.chance(f"answer {question.call_id}", 4) == 0 else "allowed-once"
            await answer_question(self.ctx.sessions, log.id, question.id, outcome)
            await agent.resume()
        assert all(count == 1 for count in self.ran.values()), "a body has run twice"
        journal = self.ctx.require("journal").journal
        ((run,),) = [list((await journal.load(log.id)).runs.values())]
        result = next(event for event in log.events if event.type == "tool/result").data["message"]["content"][0]
        await self._compare(program, run, result["content"][0]["text"])
        await agent.dispose()
        await self.ctx.sessions.delete(log.id)
        return suspensions

    async def _compare(self, program: str, run: JournalRun, shown: str) -> None:
        """Give the answers of the whole journal to the bare runtime: the requests and the end are the same."""
        told = sorted((step for step in run.steps if step.delivery), key=lambda step: step.delivery or 0)
        deliveries = [
            Delivery(
                step.number - 1,
                None if step.state == "value" else str(step.outcome),
                step.outcome if step.state == "value" else None,
                step.at,
            )
            for step in told
        ]
        host = Replayer(deliveries, None)
        functions: Any = {
            name: lambda arguments, name=name: host.call(name, arguments) for name in ("echo", "fail", "other")
        }
        request = CodeRunRequest(
            program,
            [BindingNamespace("tools", functions, ErrorClassSpec("ToolCallError", "toolName"))],
            determinism=Determinism(run.seed, run.started_at, lambda pause: host.call("sleep", pause)),
        )
        runtime: CodeRuntime = self.ctx.require("code_runtime")
        again = await runtime.run(request)
        for step in run.steps:
            name, arguments = host.calls[step.number - 1]
            assert step.name == name
            assert step.arguments == (js_number(arguments) if name == "sleep" else digest(arguments))
        if again.error is not None:
            assert shown == f"Error: {failure_message(again.error, again.logs)}"
            return
        value = {"logs": again.logs} if again.value is UNSET else {"logs": again.logs, "result": again.value}
        assert shown == content_text(render_run(None, value))


def _checks(language: str) -> Iterator[Check]:
    with asyncio.Runner() as runner:
        application = standard(
            tools={"mode": "code"},
            journal=True,
            approval={"suspend_after": 0},
            code={"language": language, "pool_size": 3},
        )
        world = World(runner.run(application.__aenter__()))
        suspensions: list[int] = []
        yield lambda program, seed: suspensions.append(runner.run(world.check(program, seed)))
        runner.run(application.__aexit__(None, None, None))
    assert sum(suspensions) >= len(suspensions) // 4, "hardly anything was suspended"


@pytest.fixture(scope="module")
def check_typescript() -> Iterator[Check]:
    yield from _checks("typescript")


@pytest.fixture(scope="module")
def check_python() -> Iterator[Check]:
    yield from _checks("python")


@given(programs("typescript"), seeds)
@settings(max_examples=TYPESCRIPT)
def test_any_typescript_program_goes_on_as_if_it_had_not_been_stopped(check_typescript: Check, program: str, seed: int):
    # D34
    check_typescript(program, seed)


@given(programs("python"), seeds)
@settings(max_examples=PYTHON)
def test_any_python_program_goes_on_as_if_it_had_not_been_stopped(check_python: Check, program: str, seed: int):
    # D34
    check_python(program, seed)
