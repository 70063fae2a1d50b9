"""One agent as the tool of another: own scope, own approvals, own cancellation."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec import UNSET

from ..errors import ToolError
from ..kernel.abort import AbortSignal
from ..model import ModelAdapter
from ..schema import compile_json_schema
from ..session.events import Completed
from ..tools import OutputSpec, ToolDefinition, ToolRunContext, define_tool
from .agent import Agent, AgentConfig
from .structured import StructuredOutput

if TYPE_CHECKING:
    from ..kernel.context import Context

__all__ = ["agent_tool"]

_numbers = itertools.count(1)


class Task(TypedDict):
    """What a delegated agent gets to do."""

    task: str


def agent_tool(
    ctx: Context,
    model: Callable[[], ModelAdapter],
    *,
    name: str,
    description: str,
    config: AgentConfig | None = None,
    schema: object = None,
    setup: Callable[[Context], Awaitable[None] | None] | None = None,
    max_depth: int = 5,
) -> ToolDefinition:
    """Return a tool whose every call runs a fresh agent on one task and gives what it ends with.

    The agent inherits the caller's view of the tools, less what ``setup`` restricts, and this tool with it: one that
    is not to delegate in turn says ``own.tools.restrict(deny=[name])``. It has a session of its own, which names its
    parent and how many agents stand above it. Its questions go to the answerers of its own scope and of those around
    it; ``own.approval.answer_with(fn, prepend=True)`` answers them before the others are asked. Cancelling the call
    cancels the agent, and the call waits for its end.

    Parameters:
        ctx: where the agents live.
        model: makes the model for one agent.
        name: the tool's name.
        description: what the caller's model reads.
        config: the agents' settings.
        schema: the shape of the result, as a JSON Schema with an object root; without one it is the last text.
        setup: registers the agent's own tools, restrictions and policies on its context.
        max_depth: how many agents may stand above a new one; a call from further down fails, and its model is told
            to do the task itself.

    Raises:
        JsonSchemaError: the schema is outside the supported subset (HOST-245).
    """
    if schema is not None:
        StructuredOutput(schema)

    async def body(args: Task, run: ToolRunContext) -> Any:
        wanted = None if schema is None else StructuredOutput(schema)

        async def prepare(own: Context) -> None:
            if wanted is not None:
                wanted.mount(own)
            prepared = None if setup is None else setup(own)
            if prepared is not None:
                await prepared

        caller = run.agent if isinstance(run.agent, Agent) else None
        depth = 0 if caller is None else _depth(caller) + 1
        if depth > max_depth:
            raise ToolError(
                f"{name} cannot be called here: {max_depth} agents stand above you already. Do the task yourself.",
                "DELEGATION_TOO_DEEP",
            )
        log = await ctx.sessions.create(
            parent_session=None if caller is None else caller.session.id,
            origin=f"{name} for call {run.call_id}",
            delegation_depth=depth,
        )
        agent = await ctx.agents.create(
            f"{name}-{next(_numbers)}",
            model(),
            session=log,
            config=config,
            parent=None if run.agent is None else run.agent.scope,
            setup=prepare,
        )
        try:
            return await _work(agent, args["task"], run.signal, wanted)
        finally:
            await agent.dispose()

    document: Any = {"type": "string"} if schema is None else schema
    return define_tool(
        name=name,
        description=description,
        parameters=Task,
        output=OutputSpec(compile_json_schema(document)),
        execute=body,
    )


def _depth(agent: Agent) -> int:
    """How many agents stand above this one."""
    depth = agent.session.header.delegation_depth
    return 0 if depth is UNSET else depth


async def _work(agent: Agent, task: str, signal: AbortSignal, wanted: StructuredOutput | None) -> Any:
    outcome = await agent.run(task, signal=signal)
    if wanted is not None and wanted.captured:
        return wanted.value
    if not isinstance(outcome.reason, Completed):
        raise ToolError(f"the agent did not finish: its turn ended as {outcome.reason}", "AGENT_FAILED")
    return outcome.text if wanted is None else wanted.value
