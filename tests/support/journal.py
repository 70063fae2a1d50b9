"""Applications whose programs can wait for a person: tools with effects in a file, and a session to go on with."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dsh_tools.agent import Agent
from dsh_tools.content import content_text
from dsh_tools.inspector import Resume
from dsh_tools.kernel import Context
from dsh_tools.messages import ToolResultBlock, UserMessage
from dsh_tools.model import ModelRequest, ScriptedModel, call, say
from dsh_tools.services import answer_question, open_questions
from dsh_tools.session import SessionHeader
from dsh_tools.standard import standard
from dsh_tools.tools import OutputSpec, ToolDefinition, tool

__all__ = [
    "ANYTHING",
    "answer_all",
    "application",
    "effects",
    "go_on",
    "note",
    "program_of",
    "resuming",
    "start",
    "tools_with_effects",
]

ANYTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


def note(path: Path, line: str) -> None:
    """Leave an effect that outlives the process."""
    with path.open("a") as out:
        out.write(line + "\n")


def effects(path: Path) -> list[str]:
    """Return the effects so far."""
    return path.read_text().splitlines() if path.exists() else []


def tools_with_effects(path: Path) -> list[ToolDefinition]:
    """Return tools that write what they did into a file: with and without a question, once only and again."""

    @tool
    async def effect(name: str, value: int) -> str:
        """Do something once."""
        note(path, f"{name} {value}")
        return f"{name} is done"

    @tool(idempotent=True)
    async def again(name: str, value: int) -> str:
        """Do something that may be done again."""
        note(path, f"{name} {value}")
        return f"{name} is done"

    @tool(is_concurrency_safe=True)
    async def beside(name: str, value: int) -> str:
        """Do something beside others."""
        note(path, f"{name} {value}")
        return f"{name} is done"

    @tool
    async def pay(name: str, value: int) -> str:
        """Do something that a person has to allow."""
        note(path, f"{name} {value}")
        return f"{name} is paid"

    @tool
    async def fail(name: str) -> str:
        """Fail."""
        raise ValueError(f"{name} failed")

    echo = ToolDefinition(
        name="echo",
        description="Say it back.",
        parameters=ANYTHING,
        output=OutputSpec(ANYTHING),
        execute=lambda args, _run: args,
    )
    return [effect, again, beside, pay, fail, echo]


@asynccontextmanager
async def application(
    folder: Path, language: str = "typescript", *, mode: str = "code", **settings: Any
) -> AsyncGenerator[Context]:
    """An application whose sessions and effects are in a folder, and whose tool ``pay`` needs a person."""
    given: dict[str, Any] = {
        "sessions": {"path": str(folder / "sessions.sqlite"), "synchronous": "normal"},
        "tools": {"mode": mode},
        "code": {"language": language, "prewarm": False, "pool_size": 0},
        "approval": {"suspend_after": 0},
        "policy": {"rules": [{"tool": "pay", "action": "ask", "reason": "it costs money"}]},
        **settings,
    }
    async with standard(**given) as ctx:
        for definition in tools_with_effects(folder / "effects"):
            ctx.tools.register(definition)
        yield ctx


def program_of(code: str) -> ScriptedModel:
    """A model that runs one program and says what came of it."""
    return ScriptedModel([say("", call("run_code", code=code)), say_result])


def say_result(request: ModelRequest) -> Any:
    """End the turn with the text of the last result."""
    return say(results_of(request)[-1])


def results_of(request: ModelRequest) -> list[str]:
    """The texts of all results so far."""
    return [
        content_text(block.content)
        for message in request.messages
        if isinstance(message, UserMessage)
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]


async def start(ctx: Context, model: ScriptedModel, session_id: str = "s1") -> Agent:
    """Make a session and an agent, and run its turn to its end, whatever that is."""
    log = await ctx.sessions.create(id=session_id)
    agent = await ctx.agents.create("main", model, session=log)
    await agent.run("go")
    return agent


async def answer_all(ctx: Context, outcome: Any = "allowed-once", session_id: str = "s1", **fields: Any) -> int:
    """Answer the open questions of a session that is not live; return how many there were."""
    questions = open_questions((await ctx.sessions.read(session_id)).events)
    for question in questions:
        await answer_question(ctx.sessions, session_id, question.id, outcome, **fields)
    return len(questions)


async def go_on(ctx: Context, session_id: str = "s1", *, model: ScriptedModel | None = None) -> Agent:
    """Open a session where a process has left it, and make an agent that can go on with it."""
    log = await ctx.sessions.open(session_id, resume=True)
    model = model if model is not None else ScriptedModel([say_result] * 9)
    return await ctx.agents.create("main", model, session=log)


def resuming(ctx: Context) -> Resume:
    """What an application gives the inspector's page, so that its stored sessions go on there."""

    @asynccontextmanager
    async def resume(header: SessionHeader) -> AsyncGenerator[Agent]:
        agent = await go_on(ctx, header.id)
        try:
            yield agent
        finally:
            await agent.dispose()

    return resume
