"""What a step asks the model with: the system text and the tools, assembled once per step (HOST-81)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..errors import PromptError
from ..kernel.abort import AbortSignal
from ..model import ModelRequest
from ..services.system_prompt import AssembleRequest, SystemPrompt, runtime_context_update

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["build_request"]


async def build_request(agent: Agent, signal: AbortSignal) -> ModelRequest:
    """Assemble the request of one step from the prompt service, the agent's instructions and the history.

    Without that service the model gets the instructions and the visible tools, by name, which only native mode can do
    with. Where what holds right now has changed, it is appended to the history first (HOST-71).

    Raises:
        PromptError: the prompt cannot be assembled.
    """
    log = agent.session
    service = cast("SystemPrompt | None", agent.ctx.get("system_prompt"))
    system = agent.config.instructions
    if service is None:
        mode = agent.ctx.tools.mode(agent.scope)
        if mode != "native":
            raise PromptError(
                f'mode "{mode}" needs the prompt service, which tells the model of the SDK: mount SystemPromptPlugin'
            )
        tools = tuple(sorted(agent.ctx.tools.schemas(agent.scope), key=lambda schema: schema.name))
    else:
        prompt = await service.assemble(AssembleRequest(agent, signal))
        context = runtime_context_update(log.derive_messages(), prompt.context)
        if context is not None:
            agent.append_user_message(context)
        system = "\n\n".join(filter(None, (system, prompt.system)))
        tools = prompt.tools
    return ModelRequest(tuple(log.derive_messages()), system=system, tools=tools)
