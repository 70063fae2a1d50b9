"""Agents: turns and steps over a session, a model and the tools. Read ``turn.py`` first.

Mount the plugin where the tools are, make an agent, and talk to it::

    ctx.plugin(AgentsPlugin())
    agent = await ctx.agents.create("main", model)
    outcome = await agent.run("What is in this folder?")
    print(outcome.text)

**A turn** begins with a message and is a series of steps. A step claims what waits in the inbox, assembles the prompt,
asks the model, records its answer, and runs the calls in it as one batch: in the model's order, with bodies of tools
that are safe to overlap overlapping, up to ``max_parallel_tool_calls`` at once. Each call has exactly one result, also
where the turn was cancelled before it began. The turn ends when the model calls nothing, a tool concludes it, it is
cancelled, the provider fails for good, or ``max_steps`` are over; ``outcome.reason`` says which.

**Talking to it.** ``run`` waits for the end of the turn. ``agent.inbox`` takes messages at any time: ``followup`` for a
turn of its own, ``steer`` for the next step, ``inject`` for the next step without waking an idle agent.

**Stopping it.** ``cancel()`` ends the turn and leaves the agent; cancelling whoever awaits ``run`` does the same.
``dispose()`` cancels, waits for what runs, unwinds what was registered for the agent, and closes its session. An
agent that is disposed is let go; its session stays in the store.

**Waiting.** Where sessions are kept in a store, and approvals are given a time (``suspend_after``), a turn that needs a
person ends as ``Waiting`` when the time is over. ``resume()`` goes on with its calls once somebody has answered, in
this process or another one; ``discard_waiting()`` gives them up. Until then ``run`` is refused.

**Its scope.** ``agent.ctx`` is a context of its own: tools, restrictions, policies and answerers that are registered
there, best in the ``setup`` of ``create``, are the agent's alone, and end with it.

**Going on later.** Open a session with ``ctx.sessions.open(id)`` and hand it to ``create(session=...)``: calls that a
crash left without a result have got one, and what waited in the inbox still waits.

**Agents for agents.** :func:`agent_tool` makes a tool of an agent; :class:`StructuredOutput` has one finish with a
value of a given shape.
"""

from __future__ import annotations

from .agent import Agent, AgentConfig, TurnOutcome
from .agents import Agents, AgentsPlugin
from .delegate import agent_tool
from .hooks import AGENT_DISPOSED, AGENT_IDLE, MODEL_EVENT, SESSION_START, TURN_END
from .inbox import Inbox
from .structured import STRUCTURED_OUTPUT, StructuredOutput

__all__ = [
    "AGENT_DISPOSED",
    "AGENT_IDLE",
    "MODEL_EVENT",
    "SESSION_START",
    "STRUCTURED_OUTPUT",
    "TURN_END",
    "Agent",
    "AgentConfig",
    "Agents",
    "AgentsPlugin",
    "Inbox",
    "StructuredOutput",
    "TurnOutcome",
    "agent_tool",
]
